"""Checkpoints that are whole or absent, and that say so when somebody damaged them.

    RUN/latest                              the name of the newest checkpoint
    RUN/best                                a link to the best one, if the run validates
    RUN/checkpoints/step-000000123/         weights.safetensors, ema.safetensors, optimizer.pt, state.json

Where the network is split over processes, the first three are directories (weights, ema, optimizer) of files that each
process wrote of its own share; they are read by any number of processes, also by one.

A checkpoint is written to a temporary sibling and renamed when every byte is on disk, so a kill at any moment leaves
the previous ones as they were.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from json import dumps, loads
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from simplax.errors import UserError
from simplax.io.environment import versions
from simplax.io.files import combined, sha256, sync, write_json, write_tensors, write_text
from simplax.train import shards

FORMAT = "simplax-checkpoint-1"
WEIGHTS, AVERAGE, OPTIMIZER, STATE = "weights.safetensors", "ema.safetensors", "optimizer.pt", "state.json"
MANIFEST = "manifest.json"  # beside the weights of an export
ADAPTER = "adapter_model.safetensors"  # instead of weights, where adapters were exported alone
_TEMPORARY = ".tmp-"


@dataclass(frozen=True)
class Checkpoint:
    """`weights` and `ema` are whole state dicts on the CPU; `state` is the plain content of state.json."""

    step: int
    weights: dict[str, Tensor]
    ema: dict[str, Tensor]
    optimizer: dict[str, dict[str, Tensor]]
    state: dict[str, Any]


class Pending:
    """A checkpoint under way: files go to `folder`, and `publish` makes it the newest of its run.

    The first process creates and publishes it, all of them may write.
    """

    def __init__(self, run: Path, step: int) -> None:
        self.run, self.step = run, step
        self.final = run / "checkpoints" / _name(step)
        self.folder = self.final.with_name(f"{_TEMPORARY}{self.final.name}")

    def create(self) -> None:
        with self.reported():
            self.folder.parent.mkdir(parents=True, exist_ok=True)
            _clean(self.folder.parent)
            self.folder.mkdir()

    @contextmanager
    def reported(self) -> Iterator[None]:
        """One sentence for whatever keeps a checkpoint from being written."""
        try:
            yield
        except (OSError, SafetensorError, RuntimeError) as error:
            reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
            raise UserError(
                f"could not save {self.final} ({reason}): make room or allow writing there, then resume; earlier "
                "checkpoints are intact."
            ) from error

    def publish(
        self,
        state: dict[str, Any],
        hashes: dict[str, str],
        *,
        keep: int,
        keep_every: int = 0,
        best: bool = False,
    ) -> Path:
        """Describe the files, rename the directory, point `latest` (and `best`) at it, and drop older ones."""
        with self.reported():
            head = {"format": FORMAT, "step": self.step, "versions": versions(), "sha256": hashes}
            told = loads(dumps({**head, **state}))  # as it will be read
            write_json(self.folder / STATE, {**told, "digest": _digest(told)})
            _replace_directory(self.folder, self.final)
            write_text(self.run / "latest", self.final.name + "\n")
            if best:
                _link(self.run / "best", self.final)
        _prune(self.run, self.step, keep, keep_every)
        return self.final


def save(run: Path, checkpoint: Checkpoint, *, keep: int, keep_every: int = 0, best: bool = False) -> Path:
    """Write a checkpoint, point `latest` (and `best`) at it, and drop all but the `keep` newest and the best.

    Those of every multiple of `keep_every` steps stay too.
    """
    pending = Pending(run, checkpoint.step)
    pending.create()
    with pending.reported():
        write_tensors(pending.folder / WEIGHTS, checkpoint.weights)
        write_tensors(pending.folder / AVERAGE, checkpoint.ema)
        _write_optimizer(pending.folder / OPTIMIZER, checkpoint.optimizer)
        hashes = {name: sha256(pending.folder / name) for name in (WEIGHTS, AVERAGE, OPTIMIZER)}
    return pending.publish(checkpoint.state, hashes, keep=keep, keep_every=keep_every, best=best)


def _write_optimizer(path: Path, state: dict[str, dict[str, Tensor]]) -> None:
    torch.save(state, path)
    sync(path)


def _replace_directory(temporary: Path, final: Path) -> None:
    """A directory of that name exists when a run was resumed from an older checkpoint."""
    if final.exists():
        final.rename(final.with_name(f"{_TEMPORARY}replaced-{final.name}"))
    temporary.rename(final)
    sync(final.parent)


def _link(link: Path, target: Path) -> None:
    temporary = link.with_name(".best.tmp")
    temporary.unlink(missing_ok=True)
    temporary.symlink_to(os.path.relpath(target, link.parent), target_is_directory=True)
    os.replace(temporary, link)


def _clean(folder: Path) -> None:
    """Remove what a killed save, or a replaced checkpoint, left behind."""
    for leftover in folder.glob(f"{_TEMPORARY}*"):
        shutil.rmtree(leftover, ignore_errors=True)


def _prune(run: Path, step: int, keep: int, keep_every: int = 0) -> None:
    best = (run / "best").resolve() if (run / "best").is_symlink() else None
    older = [path for path in stored(run) if _step(path) <= step]
    for path in older[: max(0, len(older) - keep)]:
        if path.resolve() != best and not (keep_every and _step(path) % keep_every == 0):
            shutil.rmtree(path, ignore_errors=True)
    _clean(run / "checkpoints")


def stored(run: Path) -> list[Path]:
    """All checkpoints of a run, oldest first, intact or not."""
    folders = (run / "checkpoints").glob("step-*")
    return sorted(path for path in folders if path.is_dir() and path.name[5:].isdigit())


def _name(step: int) -> str:
    return f"step-{step:09d}"


def _step(path: Path) -> int:
    return int(path.name.removeprefix("step-"))


def nothing_saved(run: Path) -> bool:
    """Whether a run has no checkpoint yet, intact or not."""
    return not (run / "latest").exists() and not stored(run)


def at_step(run: Path, step: int) -> Path:
    """The checkpoint of one step of a run."""
    path = run / "checkpoints" / _name(step)
    if not path.is_dir():
        kept = ", ".join(str(_step(one)) for one in stored(run)) or "none"
        raise UserError(
            f"{run} has no checkpoint of step {step}: it has {kept}; run.keep_every keeps more of them."
        )
    return path


def find(run: Path, *, allow_older: bool = False, only: Collection[str] | None = None) -> Path | None:
    """The newest checkpoint, verified, or None before the first; an older intact one only with `allow_older`."""
    if nothing_saved(run):
        return None
    last = _last(run)
    try:
        last = newest(run)
        verify(last, only)
        return last
    except UserError:
        if not allow_older:
            raise
    for path in reversed([path for path in stored(run) if path.name < last.name]):
        try:
            verify(path, only)
            return path
        except UserError:
            continue
    raise UserError(f"no checkpoint in {run} is intact: start a new run in another directory.")


def newest(run: Path) -> Path:
    """The newest checkpoint of a run that has saved one, whether it is intact or not."""
    pointer = run / "latest"
    return run / "checkpoints" / _pointed(pointer) if pointer.exists() else _last(run)


def _last(run: Path) -> Path:
    available = stored(run)
    return available[-1] if available else run / "checkpoints"


def _pointed(pointer: Path) -> str:
    name = pointer.read_text(encoding="utf-8", errors="replace").strip()
    if not name.removeprefix("step-").isdecimal():
        raise UserError(f"{pointer} is damaged: remove it to go on from the newest checkpoint.")
    return name


def verify(path: Path, only: Collection[str] | None = None) -> dict[str, Any]:
    """The state of a checkpoint whose files are all there and unchanged; with `only`, these of them."""
    state = read_state(path)
    wanted = None if only is None else {_stem(name) for name in only}
    for name, expected in state["sha256"].items():
        if not (path / name).is_file():
            raise UserError(f"{path / name} is missing: {_ADVICE}.")
        if (wanted is None or _stem(name) in wanted) and sha256(path / name) != expected:
            raise UserError(f"{path / name} is truncated or was changed after it was saved: {_ADVICE}.")
    return state


def read_state(path: Path) -> dict[str, Any]:
    """What state.json says of a checkpoint, without a look at its tensors."""
    if not path.is_dir():
        raise UserError(f"the checkpoint {path} is missing: {_ADVICE}.")
    try:
        state = loads((path / STATE).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UserError(f"{path} is not a checkpoint, it has no {STATE}: {_ADVICE}.") from None
    except ValueError:
        raise UserError(f"{path / STATE} is damaged: {_ADVICE}.") from None
    if not isinstance(state, dict) or state.get("format") != FORMAT:
        raise UserError(f"{path} was not written by this version of simplax: {_ADVICE}.")
    if missing := _NEEDED.keys() - state.keys():
        raise UserError(f"{path / STATE} is damaged, it lacks {min(missing)}: {_ADVICE}.")
    digest = state.pop("digest", None)
    if digest is not None and digest != _digest(state):
        raise UserError(f"{path / STATE} is damaged: {_ADVICE}.")
    if any(not isinstance(state[name], kind) for name, kind in _NEEDED.items()):
        raise UserError(f"{path / STATE} is damaged: {_ADVICE}.")
    return state


def _digest(state: dict[str, Any]) -> str:
    """Of what state.json says: a flipped byte in a number would otherwise pass for a number."""
    return hashlib.sha256(dumps(state, sort_keys=True).encode()).hexdigest()


_NEEDED: dict[str, type] = {"step": int, "sha256": dict, "progress": dict, "ema_updates": int, "config": dict}
_ADVICE = "restore it, or resume from an older checkpoint with --allow-older"


def load(path: Path, *, verified: bool = False) -> Checkpoint:
    """A checkpoint from its directory; the optimizer's file is read without unpickling code.

    `verified` spares hashing its files when that was done a moment ago.
    """
    state = read_state(path) if verified else verify(path)
    weights, ema = (load_tensors(part(path, name)) for name in (WEIGHTS, AVERAGE))
    optimizer: dict[str, dict[str, Tensor]] = {}
    if split(path):
        for name, value in shards.read_whole(part(path, OPTIMIZER)).items():
            parameter, _, key = name.rpartition("/")
            optimizer.setdefault(parameter, {})[key] = value
    else:
        optimizer = torch.load(path / OPTIMIZER, map_location="cpu", weights_only=True)
    return Checkpoint(state["step"], weights, ema, optimizer, state)


def split(path: Path) -> bool:
    """Whether a checkpoint was written by the processes of a sharded run, each its share."""
    return (path / _stem(WEIGHTS)).is_dir()


def part(path: Path, name: str) -> Path:
    """Where one kind of tensors of a checkpoint is: a file, or a directory of shards."""
    return path / _stem(name) if split(path) else path / name


def weights_digest(path: Path, state: dict[str, Any]) -> str:
    """What `sha256` says of the weights of a verified checkpoint, without reading them once more."""
    digests: dict[str, str] = state["sha256"]
    if not split(path):
        return digests[WEIGHTS]
    folder = f"{_stem(WEIGHTS)}/"
    return combined({name.removeprefix(folder): v for name, v in digests.items() if name.startswith(folder)})


def _stem(name: str) -> str:
    return name.partition("/")[0].partition(".")[0]


def check_digest(file: Path) -> str:
    """The digest of weights; they are refused if the manifest beside them, if any, was written for others."""
    found = sha256(file)
    try:
        expected = loads((file.parent / MANIFEST).read_text(encoding="utf-8"))["model"]["sha256"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return found
    if found != expected:
        raise UserError(
            f"{file} is damaged or was changed: its digest is not the one in {MANIFEST}; export the model again."
        )
    return found


def load_tensors(path: Path) -> dict[str, Tensor]:
    """The tensors of a safetensors file, or of a directory of shards."""
    if path.is_dir():
        return shards.read_whole(path)
    try:
        return load_file(path)
    except FileNotFoundError:
        raise UserError(f"{path} does not exist: give a run or a model directory.") from None
    except (SafetensorError, OSError) as error:
        raise UserError(f"{path} is not a readable safetensors file: {str(error).splitlines()[0]}.") from None
