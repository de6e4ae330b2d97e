"""Methods through the fused losses: same values, same gradients of all parameters, and who takes which way."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor

from simplax.bench.measure import peak_bytes
from simplax.methods import AR, MDLM, SDM, UDLM, Duo, Simplax
from simplax.methods.base import HasLikelihood, Method
from simplax.methods.duo import Curriculum
from simplax.nn import Architecture, Denoiser
from simplax.nn.network import SMALLEST_VOCABULARY, Network, fusing
from simplax.processes.prediction import Prediction, log_normaliser
from simplax.processes.prior import Prior
from simplax.processes.uniform import draw_bridge
from simplax.random import Keys
from simplax.typing import Batch, Loss, StepContext
from test_fused_loss import Problem

METHODS: dict[str, Method] = {
    "ar": AR(),
    "ar with a start symbol in the data": AR(bos_in_data=True),
    "mdlm": MDLM(),
    "mdlm low variance": MDLM(weighting="low_var"),
    "udlm": UDLM(),
    "udlm constant weighting": UDLM(weighting="constant"),
    "simplax marginal": Simplax(),
    "simplax atoms": Simplax(form="atoms"),
    "simplax dense": Simplax(form="dense"),
    "simplax reads w": Simplax(form="atoms", reads_w=True),
    "sdm": SDM(),
    "duo curriculum": Duo(curriculum=Curriculum(end=10, log10_temperature=(-1.0, -1.0))),
    "duo curriculum, dense": Duo(curriculum=Curriculum(end=10, log10_temperature=(-1.0, -1.0), top_k=None)),
}
SIZE, LENGTH, BATCH = 37, 6, 4


def network(method: Method, size: int = SIZE, carry: str = "none") -> Denoiser:
    torch.manual_seed(0)
    denoiser = method.build(size, LENGTH, Architecture(16, 1, 2, soft_cap=5.0, carry=carry))
    assert isinstance(denoiser, Denoiser)
    for parameter in denoiser.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    return denoiser


def masked_batch(size: int = SIZE) -> tuple[Batch, StepContext]:
    """Given positions, padding, and a sequence of which nothing is scored."""
    tokens = Keys.from_seeds(range(BATCH)).randint(size, LENGTH)
    given = torch.zeros_like(tokens, dtype=torch.bool)
    given[0, :2] = given[1, ::2] = given[2] = True
    attend = torch.ones_like(given)
    attend[3, 4:] = False
    u = (torch.arange(BATCH, dtype=torch.float64) + 0.3) / BATCH
    return Batch.of(tokens, given, attend), StepContext(Keys.from_seeds(range(BATCH)), u)


def both(denoiser: Denoiser, loss: object) -> list[tuple[Loss, list[Tensor]]]:
    found = []
    for smallest in (1, None):
        with fusing(smallest):
            value = loss()  # type: ignore[operator]
        denoiser.zero_grad()
        value.per_token.sum().backward()
        grads = [torch.zeros_like(p) if p.grad is None else p.grad.clone() for p in denoiser.parameters()]
        found.append((value, grads))
    return found


VALUES = [(name, "loss") for name in METHODS]
VALUES += [(name, "nll") for name, method in METHODS.items() if isinstance(method, HasLikelihood)]


@pytest.mark.parametrize(("name", "kind"), VALUES)
def test_methods_do_not_notice(name: str, kind: str) -> None:
    method = METHODS[name]
    denoiser = network(method)
    batch, context = masked_batch()
    fused, plain = both(denoiser, lambda: getattr(method, kind)(denoiser, batch, context))
    assert torch.equal(fused[0].scored, plain[0].scored)
    assert not fused[0].per_token[~fused[0].scored].any()
    torch.testing.assert_close(
        fused[0].per_token, plain[0].per_token, rtol=2e-5, atol=1e-5, check_dtype=False
    )
    ours, theirs = (torch.cat([g.flatten() for g in found[1]]) for found in (fused, plain))
    assert (ours - theirs).norm() < 1e-4 * theirs.norm()  # the plain form is the less accurate one


def test_large_vocabularies_of_our_own_networks_are_fused() -> None:
    method = UDLM()
    batch, context = masked_batch()
    t = context.u.float()
    large, small = network(method, SMALLEST_VOCABULARY), network(method, SMALLEST_VOCABULARY - 1)

    def late(denoiser: Callable[..., Tensor]) -> bool:
        return Network(denoiser)(batch.tokens, t, batch).projection is not None

    assert late(large) and not late(small) and not late(lambda z, t: large(z, t))
    with fusing(None):
        assert not late(large)
    prediction = Network(large)(batch.tokens, t, Batch.of(batch.tokens))
    assert prediction.projection is not None
    torch.testing.assert_close(prediction.logits, large(batch.tokens, t))
    # samplers read logits anyway, and are never handed a projection
    assert Network(large).predict(batch.tokens, t)[0].projection is None


def test_compiled_networks_are_fused_too() -> None:
    method = Simplax()
    denoiser = network(method, SMALLEST_VOCABULARY)
    batch, context = masked_batch(SMALLEST_VOCABULARY)
    compiled = torch.compile(denoiser, backend="eager")
    assert Network(compiled)(batch.tokens, context.u, batch).projection is not None  # type: ignore[arg-type]
    wanted = method.loss(denoiser, batch, context).per_token
    torch.testing.assert_close(method.loss(compiled, batch, context).per_token, wanted)  # type: ignore[arg-type]


@pytest.mark.parametrize("kept", [True, False])
def test_sharded_networks_are_fused_too(tmp_path: Path, kept: bool) -> None:
    """Whether or not FSDP2 keeps the head whole after a call: the same loss, the same gradients."""
    method = Simplax()
    whole, split = (network(method, SMALLEST_VOCABULARY) for _ in range(2))
    batch, context = masked_batch(SMALLEST_VOCABULARY)
    dist.init_process_group("gloo", store=dist.FileStore(str(tmp_path / "store"), 1), rank=0, world_size=1)
    try:
        for part in (*split.blocks, split):
            fully_shard(part, mesh=init_device_mesh("cpu", (1,)), reshard_after_forward=not kept)
        for denoiser in (whole, split):
            for _ in range(2):
                prediction = Network(denoiser)(batch.tokens, context.u, batch)
                assert prediction.projection is not None and isinstance(denoiser, Denoiser)
                loss = method.loss(denoiser, batch, context).per_token
                loss.sum().backward()
        torch.testing.assert_close(loss, method.loss(whole, batch, context).per_token)
        for mine, its in zip(whole.parameters(), split.parameters()):
            assert mine.grad is not None and isinstance(its.grad, DTensor)
            torch.testing.assert_close(its.grad.full_tensor(), mine.grad)
    finally:
        dist.destroy_process_group()


def test_no_tensor_of_all_logits() -> None:
    """At GPT-2's vocabulary and length the loss, its gradient included, lives in little more than half of one."""
    problem = Problem(50_258, 1, 1024, 8, dtype=torch.float32, cap=30.0, times=(0.5,), eta=0.01)
    problem.head = type(problem.head)(30.0)
    problem.where = torch.ones_like(problem.where)
    logits = 4 * problem.x.numel() * 50_258
    assert peak_bytes(lambda: problem.gradients("marginal", late=True)) < 0.6 * logits


def test_a_reverse_step_makes_no_copy_of_the_logits() -> None:
    size, length = 50_258, 48
    logits = torch.randn(1, length, size)
    keys, one = Keys.from_seeds([0]), torch.ones(1, 1, dtype=torch.float64)
    anchor = keys.randint(size, length)

    def step() -> Tensor:
        return draw_bridge(anchor, Prediction(logits), 0.6 * one, 0.5 * one, Prior(size), keys.stream("step"))

    assert bool((step() != anchor).any())
    assert peak_bytes(step) < 0.5 * 4 * logits.numel()


def test_normalisers_in_blocks() -> None:
    logits = 20 * torch.randn(3, 7, 60_000)
    torch.testing.assert_close(log_normaliser(logits), torch.logsumexp(logits, -1))
    logits[1, 2, 5:] = -torch.inf
    torch.testing.assert_close(
        log_normaliser(logits[..., :59_999]), torch.logsumexp(logits[..., :59_999], -1)
    )
    few = torch.randn(2, 5, requires_grad=True)
    assert log_normaliser(few).requires_grad
