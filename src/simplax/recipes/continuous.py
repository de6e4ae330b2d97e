"""Settings of the methods with vector states: the published ones, and those for runs too short for them."""

from __future__ import annotations

from simplax.methods import CANDI, FLM, SFLM, Adaptation, LangFlow, Method, SFLMAdaptive

PUBLISHED: dict[str, Method] = {
    "candi": CANDI(),
    "flm": FLM(),
    "langflow": LangFlow(),
    "sflm": SFLM(),
    "sflm_adaptive": SFLMAdaptive(truncation=0.093),
}

# published warm-ups are longer than these runs
SHORT: dict[str, Method] = {
    **PUBLISHED,
    "langflow": LangFlow(skip_warmup=200),
    "sflm_adaptive": SFLMAdaptive(adaptation=Adaptation(buffer=3200, every=50, warmup=300)),
}
