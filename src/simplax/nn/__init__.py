"""The denoising network: one transformer trunk for every method, and a way to bring your own."""

from simplax.nn.architecture import PRESETS, Architecture
from simplax.nn.attention import Cache
from simplax.nn.denoiser import Denoiser
from simplax.nn.foreign import attribute, call
from simplax.nn.relations import RELATIONS

__all__ = ["PRESETS", "RELATIONS", "Architecture", "Cache", "Denoiser", "attribute", "call"]
