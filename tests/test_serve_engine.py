"""Requests denoised together: companions change nothing, every one can end by itself, nothing is left behind."""

from __future__ import annotations

import asyncio
import threading
import time
from pathlib import Path
from typing import Any, cast

import pytest
import torch
from torch import Tensor, nn

from simplax.data.molecules.canonical import parse
from simplax.errors import UserError
from simplax.pretrained.model import Model
from simplax.serve import molecules, text
from simplax.serve.engine import Busy, Engine, Job, Stopped, Work
from simplax.serve.limits import Limits
from simplax.serve.merging import Call, call_together
from simplax.serve.metrics import Metrics
from simplax.serve.plans import Plan
from simplax.serve.schemas import MoleculesRequest, TextRequest
from simplax.serve.served import Served, load
from simplax.serve.streams import events
from simplax.viz.structures import structure
from sudoku_models import FOUR, Arbitrary, model, oracle
from text_study import corpus
from text_study import model as text_model

SECONDS = 60


class Client:
    """One request and what came of it."""

    def __init__(self, engine: Engine, served: Model, sequences: int, work: Work) -> None:
        self.events: list[tuple[str, dict[str, Any]]] = []
        self.ended = threading.Event()
        self.job = Job(served, sequences, work, self._deliver)
        engine.submit(self.job)

    def _deliver(self, name: str, data: dict[str, Any]) -> None:
        self.events.append((name, data))
        if name in ("done", "error"):
            self.ended.set()

    def last(self) -> tuple[str, dict[str, Any]]:
        assert self.ended.wait(SECONDS)
        return self.events[-1]


@pytest.fixture
def engine() -> Any:
    made = Engine(Limits(batch=64, queue=64, seconds=SECONDS), Metrics())
    yield made
    made.stop("over")


def drawing(num: int, steps: int, seed: int, **options: Any) -> Work:
    return lambda job, shared: {
        "tokens": shared.sample(num, num_steps=steps, seeds=seed, **options).tokens.tolist()
    }


def arbitrary() -> Model:
    return model("sudoku4-simplax", lambda config: Arbitrary(config.task.vocab_size))


def test_companions_change_nothing(engine: Engine) -> None:
    """Requests of other sizes, steps, temperatures and concentrations share calls; each gets what it gets alone."""
    served = arbitrary()
    asked: list[dict[str, Any]] = [
        {"num": 1, "steps": 7, "seed": 3},
        {"num": 4, "steps": 5, "seed": 8, "temperature": 0.5},
        {"num": 2, "steps": 7, "seed": 3, "eta": 10.0},
        {"num": 3, "steps": 9, "seed": 1, "top_p": 0.7},
    ]
    clients = [Client(engine, served, one["num"], drawing(**one)) for one in asked]
    engine.start()
    for client, one in zip(clients, asked):
        options = {name: value for name, value in one.items() if name not in ("num", "steps", "seed")}
        alone = served.sample(one["num"], num_steps=one["steps"], seeds=one["seed"], **options)
        assert client.last() == ("done", {"tokens": alone.tokens.tolist()})
    text = engine.metrics.text(engine.counts())
    assert 'simplax_network_batch_bucket{le="8"} 4\n' in text  # ten sequences until the first request ends
    assert "simplax_network_batch_count 9\n" in text  # as many calls as the longest request makes


@pytest.mark.parametrize("carry", ["none", "probabilities", "hidden"])
def test_what_a_network_carries_stays_with_its_request(engine: Engine, carry: str) -> None:
    class Carrying(Arbitrary):
        def __init__(self, size: int) -> None:
            super().__init__(size)
            self.carry = carry

        def forward(  # type: ignore[override]
            self,
            z: Tensor,
            t: Tensor,
            *,
            self_condition: Tensor | None = None,
            carry: Tensor | None = None,
            give_carry: bool = False,
        ) -> Any:
            logits = super().forward(z, t)
            for before in (self_condition, carry):
                if before is not None:
                    logits = logits + (before.flatten(1).argmax(-1) % 5)[:, None, None]
                    logits[..., 0] += before.flatten(1).argmin(-1)[:, None] % 3
            return (logits, logits.clone()) if give_carry else logits

    served = model("sudoku4-simplax", lambda config: Carrying(config.task.vocab_size))
    clients = [Client(engine, served, 2, drawing(2, 6, seed)) for seed in range(3)]
    engine.start()
    for seed, client in enumerate(clients):
        alone = served.sample(2, num_steps=6, seeds=seed)
        assert client.last() == ("done", {"tokens": alone.tokens.tolist()})


def test_a_request_may_come_while_others_run(engine: Engine) -> None:
    served, more = arbitrary(), []

    def first(job: Job, shared: Model) -> dict[str, Any]:
        def watch(step: int, tokens: Tensor) -> None:
            if step == 3:
                more.append(Client(engine, served, 2, drawing(2, 4, 5)))

        return {"tokens": shared.sample(1, num_steps=8, seeds=0, watch=watch).tokens.tolist()}

    client = Client(engine, served, 1, first)
    engine.start()
    assert client.last()[1]["tokens"] == served.sample(1, num_steps=8, seeds=0).tokens.tolist()
    assert more[0].last()[1]["tokens"] == served.sample(2, num_steps=4, seeds=5).tokens.tolist()


def test_watch_sees_every_step(engine: Engine) -> None:
    served, seen = arbitrary(), []
    drawn = served.sample(2, num_steps=5, seeds=0, trajectory=True, watch=lambda n, z: seen.append((n, z)))
    assert drawn.trajectory is not None and [n for n, _ in seen] == list(range(6))
    assert torch.equal(torch.stack([z for _, z in seen]), drawn.trajectory)


def test_one_failure_is_nobody_elses(engine: Engine) -> None:
    served = oracle("sudoku4-simplax", FOUR)  # it fails where it is not shown a puzzle it knows

    def broken(job: Job, shared: Model) -> dict[str, Any]:
        raise RuntimeError("/secret/path")

    clients = [Client(engine, arbitrary(), 1, work) for work in (broken, drawing(1, 4, 0))]
    clients.append(Client(engine, served, 1, drawing(1, 4, 0)))
    engine.start()
    assert clients[1].last()[0] == "done"
    for client in (clients[0], clients[2]):
        name, data = client.last()
        assert (name, data["status"]) == ("error", 500) and "secret" not in data["error"]


def test_a_stopped_request_ends_at_its_next_call(engine: Engine) -> None:
    steps: list[int] = []

    def work(job: Job, shared: Model) -> dict[str, Any]:
        def watch(step: int, tokens: Tensor) -> None:
            steps.append(step)
            if step == 2:
                job.stop(499, "the client left")

        return {"tokens": shared.sample(1, num_steps=500, seeds=0, watch=watch).tokens.tolist()}

    client = Client(engine, arbitrary(), 1, work)
    engine.start()
    assert client.last() == ("error", {"status": 499, "error": "the client left"})
    assert steps == [0, 1, 2] and engine.counts() == {"waiting": 0, "running": 0, "sequences": 0}


def test_time_and_queue_are_bounded() -> None:
    engine = Engine(Limits(batch=1, queue=2, seconds=0.2), Metrics())
    clients = [Client(engine, arbitrary(), 1, drawing(1, 20_000, 0)) for _ in range(2)]
    with pytest.raises(Busy) as refused:
        engine.submit(clients[0].job)
    assert 1 <= refused.value.seconds <= 60
    engine.start()
    assert [client.last()[1]["status"] for client in clients] == [504, 504]
    engine.stop("The server is stopping.")
    with pytest.raises(Stopped):
        Client(engine, arbitrary(), 1, drawing(1, 1, 0))


def test_the_end_of_the_engine_ends_what_runs(engine: Engine) -> None:
    client = Client(engine, arbitrary(), 1, drawing(1, 20_000, 0))
    engine.start()
    engine.stop("The server is stopping.")
    assert client.last() == ("error", {"status": 503, "error": "The server is stopping."})


def test_calls_of_different_shape_are_not_mixed() -> None:
    seen: list[int] = []

    class Counting(nn.Module):
        def forward(self, z: Tensor, t: Tensor, given: Tensor | None = None) -> Tensor:
            seen.append(len(z))
            return z.float() + t[:, None]

    network = Counting()

    def call(rows: int, length: int, given: bool) -> Call:
        z = torch.arange(rows * length).reshape(rows, length)
        return Call(network, z, torch.full((rows,), 0.5), {"given": z > 0} if given else {})

    keys = [call(2, 3, True).key(), call(1, 3, True).key(), call(1, 4, True).key(), call(1, 3, False).key()]
    assert keys[0] == keys[1] and len(set(keys)) == 3
    assert Call(network, object(), None, {}).key() != Call(network, object(), None, {}).key()
    parts = [call(2, 3, True), call(1, 3, True)]
    together = call_together(parts)
    assert seen == [3]
    for part, result in zip(parts, together):
        assert torch.equal(result, part.state.float() + 0.5)


def test_molecules_are_drawn_once_they_can_be_read(engine: Engine) -> None:
    pytest.importorskip("rdkit", reason="the molecules extra is not installed")
    served = Served("tiny", "molecules", model("qm9-simplax"))
    planned = molecules.plan(served, MoleculesRequest(num=3, steps=4, seed=2))
    client = Client(engine, planned.model, planned.sequences, planned.work)
    engine.start()
    name, data = client.last()
    drawn = served.model.sample(3, num_steps=4, seeds=2)
    assert name == "done" and data["strings"] == served.model.config.task.text(drawn.tokens)
    assert data["valid"] == [parse(text) is not None for text in data["strings"]]
    frames = [data["strings"] for name, data in client.events if name == "step"]
    assert len(frames) == 5 and frames[-1] == data["strings"]
    picture = structure("CCO")
    assert picture is not None and "<svg" in picture and structure("C(") is None


def test_several_models_of_one_name_are_told_apart(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        model("sudoku4-simplax").save_pretrained(tmp_path / folder / "mine")
    shelf = load([str(tmp_path / "a" / "mine"), str(tmp_path / "b" / "mine")], "cpu")
    assert [one.name for one in shelf.served] == ["mine", "mine-2"]
    assert str(tmp_path) not in str([one.info() for one in shelf.served])
    assert shelf.find("sudoku", None).name == "mine" and shelf.find("sudoku", "mine-2").name == "mine-2"
    with pytest.raises(UserError, match="no model of text"):
        shelf.find("text", None)
    with pytest.raises(UserError, match="neither Sudoku, text nor molecules"):
        model("toy-simplax").save_pretrained(tmp_path / "toy")
        load([str(tmp_path / "toy")], "cpu")


def test_gaps_for_a_model_that_writes_from_left_to_right_are_the_clients_mistake(tmp_path: Path) -> None:
    served = Served("ar", "text", text_model(corpus(tmp_path), "ar"))
    with pytest.raises(UserError, match="from left to right"):
        text.plan(served, TextRequest(text="the <gap:3> sat"))
    assert text.plan(served, TextRequest(text="the cat <gap:3>")).sequences == 1


def test_a_reader_that_stands_still_ends_its_job(engine: Engine) -> None:
    """Steps that nobody reads are not piled up: the job ends, and what was made before is still there."""
    served = arbitrary()

    def work(job: Job, shared: Model) -> dict[str, Any]:
        for number in range(1000):
            job.emit("step", {"number": number})
        return drawing(8, 5, seed=0)(job, shared)

    class Connected:
        async def is_disconnected(self) -> bool:
            return False

    async def stalled() -> list[tuple[str, dict[str, Any]]]:
        stream = events(engine, Plan(served, 8, {}, work), cast(Any, Connected()), time.monotonic())
        found = [await anext(stream)]
        engine.start()
        while engine.counts()["running"] or engine.counts()["waiting"]:
            await asyncio.sleep(0.01)
        return [*found, *[event async for event in stream]]

    found = asyncio.run(stalled())
    steps = [data["number"] for name, data in found if name == "step"]
    assert steps == list(range(len(steps))) and 100 < len(steps) <= 130
    assert found[-1][0] == "error" and found[-1][1]["status"] == 499
