"""Accumulation, two processes and sharding change nothing but rounding."""

from __future__ import annotations

import json
import shutil
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from collectives import COUNTS
from simplax.errors import UserError
from simplax.train import checkpoint as checkpoints
from test_train_toy import SHORT, ToySource, assert_same_run, fit, newest, rows, toy, work, worker

VALIDATED: dict[str, Any] = {"validate_every": 3, "validation_batches": 2}


def assert_close_runs(one: Path, two: Path, tolerance: float = 2e-4) -> None:
    """The same curve and the same weights up to rounding."""
    left, right = ([row for row in rows(path) if row["step"] > 0] for path in (one, two))
    assert len(left) == len(right) > 0
    for a, b in zip(left, right):
        assert a == pytest.approx(b, rel=tolerance, abs=1e-6)
    a_state, b_state = newest(one), newest(two)
    for name in a_state.weights:
        for x, y in ((a_state.weights, b_state.weights), (a_state.ema, b_state.ema)):
            torch.testing.assert_close(x[name], y[name], rtol=tolerance, atol=tolerance)


def test_accumulation_changes_nothing(tmp_path: Path) -> None:
    for accumulate in (1, 2, 8):
        run = replace(SHORT, accumulate=accumulate, **VALIDATED)
        fit(tmp_path / str(accumulate), run=run, validation=ToySource())
    assert_close_runs(tmp_path / "1", tmp_path / "2")
    assert_close_runs(tmp_path / "1", tmp_path / "8")


SHARDINGS, OPTIMIZERS = ("ddp", "fsdp"), ("adamw", "muon")


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Everything that two processes do, in one launch of them."""
    root = tmp_path_factory.mktemp("pairs")
    jobs: list[dict[str, Any]] = []
    for sharding in SHARDINGS:
        for name in OPTIMIZERS:
            run = {**VALIDATED, "sharding": sharding, "accumulate": 2, "optimizer": {"name": name}}
            jobs.append({"directory": str(root / f"{sharding}-{name}"), "run": run, "float32_muon": True})
        dropping = {"run": {"sharding": sharding}, "network": {"dropout": 0.2}}
        cut = {**dropping, "directory": str(root / f"{sharding}-cut")}
        jobs += [{**dropping, "directory": str(root / f"{sharding}-whole")}, {**cut, "stop_at": 5}, cut]
    watched = {"run": {"sharding": "fsdp", **VALIDATED}, "network": {"dropout": 0.2}}
    jobs.append({**watched, "directory": str(root / "fsdp-watched")})
    late = {"run": {"sharding": "fsdp"}, "network": {"dropout": 0.2}, "asks_late": True}
    jobs.append({**late, "directory": str(root / "fsdp-late")})
    stock = {"sharding": "fsdp", "optimizer": {"name": "muon"}}
    jobs.append({"directory": str(root / "stock"), "run": stock})
    jobs.append({"directory": str(root / "stock-late"), "run": stock, "asks_late": True})
    jobs.append({"directory": str(root / "fsdp-half"), "run": {"sharding": "fsdp"}, "stop_at": 5})
    for fused in (True, False):
        run = {**VALIDATED, "sharding": "fsdp", "accumulate": 2}
        jobs.append({"directory": str(root / f"fused-{fused}"), "run": run, "fused": fused})
    for sharding in SHARDINGS:
        run = {"sharding": sharding, "accumulate": 4, "save_every": 0}
        jobs.append({"directory": str(root / f"{sharding}-counted"), "run": run, "counted": True})
    finished = worker(jobs, processes=2)
    assert finished.returncode == 0, finished.stderr
    return root


@pytest.mark.slow
@pytest.mark.parametrize("sharding", SHARDINGS)
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_two_processes_give_the_curve_of_one(
    tmp_path: Path, pairs: Path, sharding: str, optimizer: str
) -> None:
    run = {**VALIDATED, "optimizer": {"name": optimizer}}
    work({"directory": tmp_path, "run": run, "float32_muon": True})
    assert_close_runs(tmp_path, pairs / f"{sharding}-{optimizer}")


@pytest.mark.slow
def test_sharded_stock_muon_follows_the_curve_of_one(tmp_path: Path, pairs: Path) -> None:
    """torch's Muon takes the norm of a sharded matrix from bfloat16 parts, so weights differ but the curve hardly."""
    work({"directory": tmp_path, "run": {"optimizer": {"name": "muon"}}})
    one, two = ([row["loss"] for row in rows(path) if "loss" in row] for path in (tmp_path, pairs / "stock"))
    assert one == pytest.approx(two, rel=2e-3)


@pytest.mark.slow
def test_sharded_networks_keep_the_fused_loss(tmp_path: Path, pairs: Path) -> None:
    """Split over two processes it is used, and gives the run of one process, fused or not."""
    for fused in (True, False):
        work({"directory": tmp_path / f"{fused}", "run": VALIDATED, "fused": fused})
        assert_close_runs(tmp_path / f"{fused}", pairs / f"fused-{fused}")
    assert_close_runs(pairs / "fused-True", pairs / "fused-False")


@pytest.mark.slow
def test_gradients_are_exchanged_once_per_step_however_many_micro_batches(pairs: Path) -> None:
    """Four of them here. DDP sums all parameters at once; FSDP2 those of two blocks and the rest, a little padded."""
    parameters = sum(p.numel() for p in toy().parameters())
    copied, split = (json.loads((pairs / f"{s}-counted" / COUNTS).read_text()) for s in SHARDINGS)
    large = [size for size in copied["all_reduce"] if size > 2]  # the others count tokens and ask who stops
    assert large == [parameters] * SHORT.steps and not copied["reduce_scatter"]
    assert len(split["reduce_scatter"]) == 3 * SHORT.steps
    assert parameters <= sum(split["reduce_scatter"]) / SHORT.steps < 1.1 * parameters


@pytest.mark.slow
@pytest.mark.parametrize("sharding", SHARDINGS)
def test_two_processes_resume_bit_for_bit(pairs: Path, sharding: str) -> None:
    assert_same_run(pairs / f"{sharding}-whole", pairs / f"{sharding}-cut")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("plain", "other"), [("fsdp-whole", "fsdp-watched"), ("fsdp-whole", "fsdp-late"), ("stock", "stock-late")]
)
def test_sharded_weights_are_the_same_bits_validated_or_not_asked_at_once_or_late(
    pairs: Path, plain: str, other: str
) -> None:
    """Weights gathered for a look at the average must not be those of the next step."""
    one, two = newest(pairs / plain), newest(pairs / other)
    for mine, its in ((one.weights, two.weights), (one.ema, two.ema)):
        assert all(torch.equal(mine[name], its[name]) for name in mine)


@pytest.mark.slow
def test_sharded_checkpoints_are_shards_that_anybody_reads(pairs: Path) -> None:
    """Two files of each kind, none pickled, none with the whole; and the tensors are those of the copied run."""
    (folder,) = (path for path in checkpoints.stored(pairs / "fsdp-adamw")[-1:])
    files = sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())
    name = "shard-{:05d}-model-00001-of-00001.safetensors"
    kinds = ("ema", "optimizer", "weights")
    assert files == sorted([*(f"{kind}/{name.format(n)}" for kind in kinds for n in (1, 2)), "state.json"])
    sizes = [sum(t.numel() for t in load_file(folder / "weights" / name.format(n)).values()) for n in (1, 2)]
    assert sum(sizes) == sum(t.numel() for t in toy().state_dict().values()) and max(sizes) < 0.7 * sum(sizes)
    copied, split = newest(pairs / "ddp-adamw"), newest(pairs / "fsdp-adamw")
    assert copied.optimizer.keys() == split.optimizer.keys()
    for key, state in copied.optimizer.items():
        for kind, value in state.items():
            torch.testing.assert_close(split.optimizer[key][kind], value, rtol=2e-3, atol=2e-4)
    file = folder / "optimizer" / name.format(2)
    content = file.read_bytes()
    try:
        file.write_bytes(content[:-8] + b"12345678")
        with pytest.raises(UserError, match=r"shard-00002.* is truncated or was changed"):
            newest(pairs / "fsdp-adamw")
    finally:
        file.write_bytes(content)


@pytest.mark.slow
def test_a_sharded_checkpoint_continues_in_four_processes(tmp_path: Path, pairs: Path) -> None:
    shutil.copytree(pairs / "fsdp-half", tmp_path / "half")
    finished = worker([{"directory": str(tmp_path / "half"), "run": {"sharding": "fsdp"}}], processes=4)
    assert finished.returncode == 0, finished.stderr
    work({"directory": tmp_path / "one"})
    assert_close_runs(tmp_path / "one", tmp_path / "half")


@pytest.mark.slow
def test_a_sharded_checkpoint_continues_in_one_process(tmp_path: Path, pairs: Path) -> None:
    assert newest(pairs / "fsdp-half").step == 4
    work({"directory": pairs / "fsdp-half"})
    work({"directory": tmp_path})
    assert_close_runs(tmp_path, pairs / "fsdp-half")


@pytest.mark.slow
def test_processes_find_each_other_and_stop_together(tmp_path: Path) -> None:
    """One signal in one process stops both after the same step, and the group is ours to open and close."""
    job = {"directory": str(tmp_path), "signal_at": 2, "signal": int(signal.SIGTERM)}
    stopped = worker([job], processes=2)
    assert "exitcode  : 130" in stopped.stderr, stopped.stderr
    assert newest(tmp_path).step in (2, 3)
    assert newest(tmp_path).state["processes"] == 2


@pytest.mark.slow
@pytest.mark.usefixtures("compiler")
def test_compiled_and_eager_agree(tmp_path: Path) -> None:
    fit(tmp_path / "eager")
    fit(tmp_path / "compiled", run=replace(SHORT, compile=True))
    assert_close_runs(tmp_path / "eager", tmp_path / "compiled")
    assert newest(tmp_path / "compiled").weights.keys() == toy().state_dict().keys()
