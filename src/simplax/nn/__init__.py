"""The denoising network: one transformer trunk for every method, and a way to bring your own."""

from simplax.nn.architecture import PRESETS, Architecture
from simplax.nn.attention import Cache
from simplax.nn.denoiser import Denoiser
from simplax.nn.foreign import attribute, call, inner
from simplax.nn.network import Chain, Network, fusing, num_categories
from simplax.nn.relations import RELATIONS

__all__ = [
    "PRESETS",
    "RELATIONS",
    "Architecture",
    "Cache",
    "Chain",
    "Denoiser",
    "Network",
    "attribute",
    "call",
    "fusing",
    "inner",
    "num_categories",
]
