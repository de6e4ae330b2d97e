"""Damaged directories of prepared data: used as far as they are whole, or refused in one sentence."""

from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path
from typing import Any

import torch
from hypothesis import strategies as st

from simplax.data.text import Options, Prepared, prepare
from simplax.data.text.prepared import MANIFEST, described
from simplax.errors import UserError
from simplax.tasks import SequenceTask

_ROWS = "smiles,n,mass\nCCO,a,1.5\nCC,b,2\nC1CC1,a,-3\nCN,b,0\nOCC,a,9\n"
_SETTINGS: dict[str, dict[str, Any]] = {
    "labelled": {"tokenizer": "smiles", "columns": ("smiles",), "labels": ("n", "mass:number"), "split": "2"},
    "lengths": {"tokenizer": "characters", "columns": ("smiles",), "layout": "lengths", "split": "1"},
    "packed": {
        "tokenizer": "characters", "columns": ("smiles",), "layout": "packed", "length": 3, "split": "2",
    },
}  # fmt: skip


def prepared_at(folder: Path) -> Path:
    """One directory of every layout below `folder`."""
    source = folder / "rows.csv"
    source.write_text(_ROWS)
    for name, settings in _SETTINGS.items():
        prepare(Options(str(source), **settings), folder / name)
    return folder


_values = st.one_of(
    st.none(), st.booleans(), st.integers(-3, 70000), st.floats(), st.text(max_size=4), st.just([]), st.just({}),
    st.lists(st.integers(-1, 5), max_size=4), st.just(2**70),
)  # fmt: skip
_changed_bytes = st.tuples(
    st.just("bytes"), st.sampled_from(["manifest.json", "tokenizer.json", ".bin", ".len", ".lab"]),
    st.floats(0, 1), st.binary(max_size=3),
)  # fmt: skip
_cut = st.tuples(
    st.sampled_from(["cut", "removed"]),
    st.sampled_from(["manifest.json", "tokenizer.json", ".bin", ".len", ".lab"]),
    st.floats(0, 1),
    st.just(b""),
)
_said = st.tuples(
    # a digest of its own is what somebody who edits the file on purpose could write; older versions wrote none
    st.sampled_from(["said", "said and signed"]),
    st.integers(0, 400),
    _values,
    st.booleans(),
)


def directories(folder: Path) -> st.SearchStrategy[tuple[Path, tuple[Any, ...]]]:
    return st.tuples(
        st.sampled_from([folder / name for name in _SETTINGS]), st.one_of(_changed_bytes, _cut, _said)
    )


def opened(directory: Path, harm: tuple[Any, ...]) -> str:
    """What a training, a sampling and a check read of a directory that was harmed."""
    with tempfile.TemporaryDirectory() as temporary:
        copy = Path(temporary) / "data"
        shutil.copytree(directory, copy)
        _harm(copy, harm)
        try:
            task = SequenceTask(str(copy))
            for source in (task.train(), task.validation()):
                batch = source.batch(torch.arange(4))
                assert batch.tokens.shape == (4, task.length)
                assert int(batch.tokens.min()) >= 0 and int(batch.tokens.max()) < task.vocab_size
                for place, label in enumerate(task.labels):
                    assert batch.labels is not None
                    if label.size:
                        assert bool((batch.labels[:, place] < label.size).all())
            task.text(batch.tokens)
            Prepared.open(copy).verify()
        except UserError as error:
            assert len(str(error).splitlines()) == 1 and len(str(error)) < 1000
            return "refused"
    return "used"


def _harm(copy: Path, harm: tuple[Any, ...]) -> None:
    kind, what, *rest = harm
    if kind.startswith("said"):
        _say_otherwise(copy / MANIFEST, what, *rest, signed=kind.endswith("signed"))
        return
    paths = [path for path in sorted(copy.iterdir()) if path.name == what or path.suffix == what]
    for path in paths[:1]:
        data = path.read_bytes()
        place = round(rest[0] * len(data))
        if kind == "bytes":
            path.write_bytes(data[:place] + rest[1] + data[place + len(rest[1]) :])
        elif kind == "cut":
            path.write_bytes(data[:place])
        else:
            path.unlink()


def _say_otherwise(path: Path, number: int, value: Any, remove: bool, *, signed: bool) -> None:
    """One entry of the manifest, at whatever depth, replaced or left out."""
    manifest = json.loads(path.read_text())
    del manifest["digest"]
    places = list(_places(manifest))
    holder, key = places[number % len(places)]
    if remove and isinstance(holder, dict):
        del holder[key]
    else:
        holder[key] = value
    written = json.loads(json.dumps(manifest))
    path.write_text(json.dumps({**written, "digest": described(written)} if signed else written))


def _places(value: Any) -> Any:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in list(items):
        yield value, key
        yield from _places(inner)
