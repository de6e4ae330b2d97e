"""What is measured about a model and its samples."""

from simplax.evaluate.entropy import perplexity as perplexity
from simplax.evaluate.entropy import unigram_entropies as unigram_entropies
from simplax.evaluate.entropy import unigram_entropy as unigram_entropy
from simplax.evaluate.intervals import wilson as wilson
from simplax.methods.likelihood import Likelihood as Likelihood
from simplax.methods.likelihood import nll as nll
