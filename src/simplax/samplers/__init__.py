"""Reverse processes and the loop that runs them.

`SAMPLERS` is the registry: a new sampler is one file and one line here. Stored configurations and every command that
samples know it under that name from then on.
"""

from __future__ import annotations

from typing import Any

from simplax.samplers.ar import LeftToRight as LeftToRight
from simplax.samplers.base import Sampler as Sampler
from simplax.samplers.base import Setting as Setting
from simplax.samplers.candi import CachedHybrid as CachedHybrid
from simplax.samplers.flm import OneHotEuler as OneHotEuler
from simplax.samplers.gibbs import Gibbs as Gibbs
from simplax.samplers.guidance import ByClassifier as ByClassifier
from simplax.samplers.guidance import ClassifierFree as ClassifierFree
from simplax.samplers.langflow import EmbeddingDDIM as EmbeddingDDIM
from simplax.samplers.loop import Samples as Samples
from simplax.samplers.loop import sample as sample
from simplax.samplers.mdlm import FirstHitting as FirstHitting
from simplax.samplers.mdlm import MaskedAncestral as MaskedAncestral
from simplax.samplers.psi import Psi as Psi
from simplax.samplers.psi import marginal_reanchor as marginal_reanchor
from simplax.samplers.sdm import SimplexChurn as SimplexChurn
from simplax.samplers.sflm import GeodesicEuler as GeodesicEuler
from simplax.samplers.simplax import Simplax as Simplax
from simplax.samplers.transforms import nucleus as nucleus
from simplax.samplers.transforms import temperature as temperature
from simplax.samplers.udlm import Ancestral as Ancestral

SAMPLERS: dict[str, type[Sampler[Any]]] = {
    "simplax": Simplax,
    "ancestral": Ancestral,
    "masked_ancestral": MaskedAncestral,
    "first_hitting": FirstHitting,
    "left_to_right": LeftToRight,
    "psi": Psi,
    "simplex_churn": SimplexChurn,
    "cached_hybrid": CachedHybrid,
    "one_hot_euler": OneHotEuler,
    "embedding_ddim": EmbeddingDDIM,
    "geodesic_euler": GeodesicEuler,
}
