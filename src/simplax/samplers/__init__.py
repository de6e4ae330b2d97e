"""Reverse processes and the loop that runs them."""

from simplax.samplers.base import Sampler as Sampler
from simplax.samplers.base import Setting as Setting
from simplax.samplers.loop import Samples as Samples
from simplax.samplers.loop import sample as sample
from simplax.samplers.transforms import nucleus as nucleus
from simplax.samplers.transforms import temperature as temperature
from simplax.samplers.uniform import Ancestral as Ancestral
from simplax.samplers.uniform import Simplax as Simplax
