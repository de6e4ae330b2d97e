"""Generated text beside human text: perplexity under a scorer, and the columns that show when it was cheated."""

from simplax.evaluate.text import controls as controls
from simplax.evaluate.text.controls import Control as Control
from simplax.evaluate.text.controls import Marks as Marks
from simplax.evaluate.text.controls import every_control as every_control
from simplax.evaluate.text.controls import find_k as find_k
from simplax.evaluate.text.evidence import COLUMNS as COLUMNS
from simplax.evaluate.text.measure import CROSS_SAMPLE as CROSS_SAMPLE
from simplax.evaluate.text.measure import Measured as Measured
from simplax.evaluate.text.measure import flags as flags
from simplax.evaluate.text.measure import measure as measure
from simplax.evaluate.text.reference import Reference as Reference
from simplax.evaluate.text.scorers import Scored as Scored
from simplax.evaluate.text.scorers import Scorer as Scorer
from simplax.evaluate.text.scorers import load_scorer as load_scorer
