"""The ten methods at a glance."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Entry:
    """`latent` is what is noised; `likelihood` is `exact`, `bound` or `none`."""

    title: str
    latent: str
    likelihood: str
    sampler: str
    citation: str


_SPHERE = "Deschenaux and Gulcehre 2026, Language Modeling with Hyperspherical Flows"

CATALOGUE: dict[str, Entry] = {
    "simplax": Entry(
        "Simplax",
        "tokens, a simplex state beside each",
        "bound",
        "stochastic, re-anchoring",
        "Sakurai et al. 2026, Simplex Relaxation for Discrete Diffusion",
    ),
    "udlm": Entry(
        "UDLM",
        "tokens, towards uniform noise",
        "bound",
        "ancestral",
        "Schiff et al. 2025, Simple Guidance Mechanisms for Discrete Diffusion Models",
    ),
    "ar": Entry("AR", "none: one token after another", "exact", "left to right", "the usual baseline"),
    "mdlm": Entry(
        "MDLM",
        "tokens, towards a mask",
        "bound",
        "ancestral",
        "Sahoo et al. 2024, Simple and Effective Masked Diffusion Language Models",
    ),
    "duo": Entry(
        "Duo",
        "tokens, the argmax of a Gaussian",
        "bound",
        "ancestral",
        "Sahoo et al. 2025, The Diffusion Duality",
    ),
    "candi": Entry(
        "CANDI",
        "tokens and a Gaussian at once",
        "none",
        "hybrid, cached",
        "Pynadath et al. 2025, CANDI: Hybrid Discrete-Continuous Diffusion Models",
    ),
    "flm": Entry(
        "FLM",
        "one-hot vectors",
        "none",
        "Euler",
        "Lee et al. 2026, One-step Language Modeling via Continuous Denoising",
    ),
    "langflow": Entry(
        "LangFlow",
        "embeddings",
        "bound",
        "DDIM-like",
        "Chen et al. 2026, LangFlow: Continuous Diffusion Rivals Discrete in Language Modeling",
    ),
    "sflm": Entry("S-FLM", "points of a sphere", "none", "geodesic Euler", _SPHERE),
    "sflm_adaptive": Entry(
        "S-FLM, truncated and adaptive",
        "points of a sphere, late times only",
        "none",
        "geodesic Euler",
        _SPHERE,
    ),
}
