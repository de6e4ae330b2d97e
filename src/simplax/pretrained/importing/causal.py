"""A denoiser started from a causal language model: a Hugging Face directory of the Llama shape."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from simplax.errors import UserError
from simplax.nn.llama import LlamaDenoiser, LlamaShape
from simplax.pretrained.importing.archive import load_bin
from simplax.pretrained.importing.convert import LONGEST
from simplax.pretrained.importing.settings import Settings, read_json
from simplax.train.checkpoint import load_tensors

KINDS = ("llama", "mistral", "smollm")
_INDEX = "model.safetensors.index.json"


def from_causal_lm(
    path: str | Path,
    *,
    length: int | None = None,
    mask: bool = True,
    causal: bool = False,
    bos: int | None = None,
) -> LlamaDenoiser:
    """A denoiser with the weights of the causal language model in a directory (config.json and safetensors).

    `length` is that of the sequences, the model's own context if not said. `mask` adds the input row that masked
    diffusion needs; uniform diffusion does without. `causal=True` keeps the attention as it was, for comparison.
    """
    path = Path(path)
    settings = read_json(path / "config.json")
    shape = _shape(settings)
    context = settings.number("max_position_embeddings")
    longest = LONGEST if context is None else min(context, LONGEST)
    size = longest if length is None else length
    if not 1 <= size <= longest:
        raise UserError(f"the length of sequences must lie between 1 and {longest:,}, not {size}.")
    start = settings.get("bos_token_id") if bos is None else bos
    if type(start) is not int:
        raise UserError(f"{settings.where} names no start symbol: say bos, the id that texts begin with.")
    tensors = _tensors(path)
    _check(tensors, shape, settings)
    denoiser = LlamaDenoiser(shape, size, bos=start, mask=mask, causal=causal)
    denoiser.load_state_dict(_ours(tensors, denoiser))
    return denoiser


def _shape(settings: Settings) -> LlamaShape:
    kind, activation = settings.word("model_type"), settings.word("hidden_act")
    if kind not in KINDS or activation not in (None, "silu"):
        raise UserError(
            f"{settings.where} is a model of type {kind!r}: only {', '.join(KINDS)} with silu have the known shape."
        )
    for name in ("attention_bias", "mlp_bias"):
        if settings.flag(name):
            raise UserError(f"{settings.where} has {name}: only networks without it are known.")
    # newer files keep both in rope_parameters, older ones have rope_theta and rope_scaling
    rope = settings.word("rope_parameters", "rope_type") or settings.word("rope_scaling", "rope_type")
    if rope not in (None, "default"):
        raise UserError(
            f"{settings.where} stretches its positions ({rope!r}): only plain rotary ones are known."
        )
    sizes = {}
    for ours, theirs in _SIZES.items():
        found = settings.number(theirs)
        if found is None:
            raise UserError(f"{settings.where} is damaged: it lacks {theirs}.")
        sizes[ours] = found
    base = settings.get("rope_parameters", "rope_theta") or settings.get("rope_theta") or 10000.0
    eps = settings.get("rms_norm_eps") or 1e-6
    if isinstance(base, str) or isinstance(eps, str) or not (1.0 < base < 1e12 and 0.0 < eps < 1.0):
        raise UserError(f"{settings.where} is damaged: rope_theta or rms_norm_eps is no such number.")
    return LlamaShape(
        **sizes,
        kv_heads=settings.number("num_key_value_heads") or sizes["heads"],
        head_dim=settings.number("head_dim") or sizes["width"] // sizes["heads"],
        rope_base=float(base),
        norm_eps=float(eps),
    )


_SIZES = {
    "vocab_size": "vocab_size",
    "width": "hidden_size",
    "hidden": "intermediate_size",
    "depth": "num_hidden_layers",
    "heads": "num_attention_heads",
}


def _tensors(path: Path) -> dict[str, Tensor]:
    """The weights, in one file or in several that an index names."""
    if (path / "model.safetensors").is_file():
        return load_tensors(path / "model.safetensors")
    if (path / _INDEX).is_file():
        parts = read_json(path / _INDEX).root.get("weight_map")
        names = sorted({str(name) for name in parts.values()}) if isinstance(parts, dict) else []
        if not names or any(Path(name).name != name or not name.endswith(".safetensors") for name in names):
            raise UserError(f"{path / _INDEX} is damaged: it names no files of weights.")
        return {key: value for name in names for key, value in load_tensors(path / name).items()}
    if (path / "pytorch_model.bin").is_file():
        return load_bin(path / "pytorch_model.bin")
    raise UserError(f"{path} holds no weights: it has neither model.safetensors nor pytorch_model.bin.")


def _check(tensors: dict[str, Tensor], shape: LlamaShape, settings: Settings) -> None:
    """The sizes in the settings are those of the weights, before a network of that size is made."""
    embedding = tensors.get("model.embed_tokens.weight")
    layers = {name.split(".")[2] for name in tensors if name.startswith("model.layers.")}
    gate = tensors.get("model.layers.0.mlp.gate_proj.weight")
    fits = (
        embedding is not None
        and tuple(embedding.shape) == (shape.vocab_size, shape.width)
        and gate is not None
        and tuple(gate.shape) == (shape.hidden, shape.width)
        and len(layers) == shape.depth
        and shape.heads * shape.head_dim <= 16 * shape.width
    )
    if not fits:
        raise UserError(f"{settings.where} does not fit its weights: they are of another size.")


def _ours(tensors: dict[str, Tensor], denoiser: LlamaDenoiser) -> dict[str, Tensor]:
    """Their names and ours: the trunk's are the same without `model.`; tied outputs become weights of their own."""
    embedding = tensors["model.embed_tokens.weight"].float()
    rows = [embedding]
    if denoiser.vocab_size > len(embedding):
        rows.append(embedding.mean(0, keepdim=True))
    state = {
        "vocab_embed.embedding": torch.cat(rows),
        "lm_head.weight": tensors.get("lm_head.weight", embedding).float().clone(),
        "rotary_emb.inv_freq": denoiser.rotary_emb.inv_freq,
    }
    for name, tensor in tensors.items():
        own = name.removeprefix("model.")
        if own not in ("embed_tokens.weight", "lm_head.weight") and not own.endswith("rotary_emb.inv_freq"):
            state[own] = tensor.float()
    expected = denoiser.state_dict()
    for name in [*expected, *state]:
        if name not in state or name not in expected or state[name].shape != expected[name].shape:
            raise UserError(f"the weights are not those of a network of the Llama shape: see {name[:80]!r}.")
    return state
