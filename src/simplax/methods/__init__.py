"""Methods: each a frozen dataclass that builds a denoiser, has a loss and a sampler.

`METHODS` is the registry: a new method is one file and one line here.
"""

from __future__ import annotations

from simplax.methods.ar import AR as AR
from simplax.methods.base import Facts as Facts
from simplax.methods.base import HasLikelihood as HasLikelihood
from simplax.methods.base import Method as Method
from simplax.methods.candi import CANDI as CANDI
from simplax.methods.duo import Curriculum as Curriculum
from simplax.methods.duo import Duo as Duo
from simplax.methods.duo import DuoBase as DuoBase
from simplax.methods.flm import FLM as FLM
from simplax.methods.langflow import LangFlow as LangFlow
from simplax.methods.mdlm import MDLM as MDLM
from simplax.methods.sdm import SDM as SDM
from simplax.methods.sflm import SFLM as SFLM
from simplax.methods.sflm import Adaptation as Adaptation
from simplax.methods.sflm import SFLMAdaptive as SFLMAdaptive
from simplax.methods.simplax import Simplax as Simplax
from simplax.methods.udlm import UDLM as UDLM

METHODS: dict[str, type[Method]] = {
    "simplax": Simplax,
    "udlm": UDLM,
    "ar": AR,
    "mdlm": MDLM,
    "duo-base": DuoBase,
    "duo": Duo,
    "sdm": SDM,
    "candi": CANDI,
    "flm": FLM,
    "langflow": LangFlow,
    "sflm": SFLM,
    "sflm_adaptive": SFLMAdaptive,
}
