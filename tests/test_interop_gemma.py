"""Our scheduler in the pipeline of diffusers, with a tiny random DiffusionGemma of transformers."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from simplax.interop.diffusers import SimplaxScheduler

pytestmark = pytest.mark.slow
CANVAS, WORDS, STEPS = 6, 40, 4


class Stub:
    """As much of a processor as the pipeline needs: the prompt's characters are its tokens."""

    eos_token_id = None

    def apply_chat_template(self, messages: Any, **options: Any) -> dict[str, Tensor]:
        ids = torch.tensor([[3, 4, 5]])
        return {"input_ids": ids, "attention_mask": torch.ones_like(ids)}

    def batch_decode(self, rows: Any, **options: Any) -> list[str]:
        return [" ".join(str(int(number)) for number in row) for row in rows]


@pytest.fixture(scope="module")
def pipeline() -> Any:
    diffusers = pytest.importorskip("diffusers", reason="the pipeline is diffusers'")
    transformers = pytest.importorskip("transformers", reason="the network is transformers'")
    for package, name in ((diffusers, "DiffusionGemmaPipeline"), (transformers, "DiffusionGemmaConfig")):
        if not hasattr(package, name):
            pytest.skip(f"this {package.__name__} has no {name}")
    text = {
        "vocab_size": WORDS, "hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 2,
        "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 8, "global_head_dim": 8,
        "max_position_embeddings": 64, "sliding_window": 16, "num_experts": 2, "top_k_experts": 1,
        "moe_intermediate_size": 8, "num_global_key_value_heads": 1,
    }  # fmt: skip
    vision = {
        "model_type": "gemma4_vision", "hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1,
        "num_attention_heads": 1, "num_key_value_heads": 1, "head_dim": 8,
    }  # fmt: skip
    torch.manual_seed(0)
    config = transformers.DiffusionGemmaConfig(
        text_config=text, vision_config=vision, canvas_length=CANVAS, boi_token_id=WORDS - 3,
        eoi_token_id=WORDS - 2, image_token_id=WORDS - 1,
    )  # fmt: skip
    model = transformers.DiffusionGemmaForBlockDiffusion(config).eval()
    made = diffusers.DiffusionGemmaPipeline(model=model, scheduler=SimplaxScheduler(), processor=Stub())
    made.set_progress_bar_config(disable=True)
    return made


def drawn(pipeline: Any, scheduler: Any, seed: int = 0) -> Tensor:
    pipeline.scheduler = scheduler
    result = pipeline(
        prompt="a", gen_length=2 * CANVAS, num_inference_steps=STEPS, confidence_threshold=None, eos_early_stop=False,
        output_type="seq", generator=torch.Generator().manual_seed(seed),
    )  # fmt: skip
    return torch.as_tensor(result.sequences)


class Watched(SimplaxScheduler):
    """Notes what the pipeline hands over, which it decides by the names of the arguments."""

    def step(
        self,
        model_output: Tensor,
        timestep: Any,
        sample: Tensor,
        *,
        generator: torch.Generator | None = None,
        return_dict: bool = True,
    ) -> Any:
        assert generator is not None
        result = super().step(model_output, timestep, sample, generator=generator)
        self.__dict__.setdefault("seen", []).append(
            (int(timestep), model_output.shape, int(result.redrawn.sum()))
        )
        return result


def test_a_foreign_model_is_sampled_by_our_chain(pipeline: Any) -> None:
    """Two canvases, eta above zero: every step is ours, anchors are redrawn, and a seed repeats its text."""
    scheduler = Watched(eta=1.0)
    tokens = drawn(pipeline, scheduler)
    assert tokens.shape[-1] == 2 * CANVAS and int(tokens.min()) >= 0 and int(tokens.max()) < WORDS
    seen = scheduler.__dict__["seen"]
    assert [index for index, _, _ in seen] == [*range(STEPS)] * 2
    assert all(shape == (1, CANVAS, WORDS) for _, shape, _ in seen)
    assert sum(count for _, _, count in seen) > 0
    assert torch.equal(drawn(pipeline, SimplaxScheduler(eta=1.0)), tokens)
    assert not torch.equal(drawn(pipeline, SimplaxScheduler(eta=1.0), seed=1), tokens)


def test_eta_zero_redraws_nothing(pipeline: Any) -> None:
    scheduler = Watched(eta=0.0)
    drawn(pipeline, scheduler)
    assert not any(count for _, _, count in scheduler.__dict__["seen"])
