"""Every parser on files that no program wrote: one sentence or the documents, never a traceback or half an output."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fuzzed_files import (
    SQUEEZE,
    TOKENIZERS,
    archives,
    damaged,
    files,
    molecules,
    preparations,
    readings,
    words,
)
from prepared_damage import directories, opened, prepared_at
from real_damage import real, real_files
from simplax.data.molecules.packages import csv_columns
from simplax.data.molecules.tokens import smiles_tokens
from simplax.data.text import Options, prepare
from simplax.data.text.compressed import expand
from simplax.data.text.documents import START
from simplax.data.text.sources import Reading, open_source
from simplax.data.text.survey import COLLECTED
from simplax.data.text.tokenizers import END, load_tokenizer
from simplax.errors import UserError


def one_sentence(error: UserError) -> str:
    assert len(str(error).splitlines()) == 1 and len(str(error)) < 1000
    return "refused"


def parse(file: tuple[str, bytes], reading: Reading) -> str:
    """Read it whole, and again from the middle: the same pieces, which are those of the outline. What became of it."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / file[0]
        path.write_bytes(file[1])
        try:
            source = open_source(str(path), Reading(**{**vars(reading), "scratch": Path(folder) / "s"}))
            pieces = list(source.read())
        except UserError as error:
            return one_sentence(error)
        outline = list(source.outline())
        assert [extent.after for extent in outline if extent.last] == [p.after for p in pieces if p.last]
        middle = pieces[len(pieces) // 2 - 1].after if len(pieces) > 1 else START
        rest = pieces[len(pieces) // 2 :] if len(pieces) > 1 else pieces
        again = list(source.read(middle))
        assert [np.asarray(p.content).tolist() for p in again] == [
            np.asarray(p.content).tolist() for p in rest
        ]
        return "read"


def make(file: tuple[str, bytes], asked: dict[str, Any]) -> str:
    """Prepared data that is whole, or nothing at all."""
    with tempfile.TemporaryDirectory() as folder:
        path, out = Path(folder) / file[0], Path(folder) / "out"
        path.write_bytes(file[1])
        try:
            found = prepare(Options(str(path), **asked), out)
        except UserError as error:
            assert not out.exists()
            return one_sentence(error)
        found.verify()
        assert {path.suffix for path in out.iterdir()} <= {".json", ".bin", ".len", ".lab", ""}
        assert not (out / "state.json").exists()
        shards = found.rows("train")
        tokens = shards.take(np.arange(shards.rows))[0]
        assert tokens.shape[1] == found.length and int(tokens.max()) < found.vocab_size
        assert len(shards.take_labels(np.arange(shards.rows))) == shards.rows
        found.tokenizer.decode(tokens[0].tolist())
        return "prepared"


def squeezed(ending: str, data: bytes) -> str:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"x.txt{ending}"
        path.write_bytes(data)
        try:
            expand(path, Path(folder) / "s")
        except UserError as error:
            assert not [file for file in (Path(folder) / "s").rglob("*") if file.is_file()]
            return one_sentence(error)
        return "expanded"


def published_csv(ending: str, data: bytes) -> str:
    """The reader of files of molecules."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"x.csv{ending}"
        path.write_bytes(data)
        try:
            list(csv_columns(path, "SMILES"))
        except UserError as error:
            return one_sentence(error)
    return "read"


def spelled(name: str, text: str) -> str:
    """The symbols of a string are the string again, encoded and decoded."""
    try:
        if name in COLLECTED:
            symbols, size = COLLECTED[name].look(text)
            tokenizer = COLLECTED[name].build(symbols, True)
            ids = tokenizer.encode_batch([text])[0].tolist()
            assert len(ids) == size and tokenizer.decode([tokenizer.vocab_size - 1]) == END
            if name in ("characters", "smiles", "selfies"):
                assert tokenizer.decode(ids) == text
        else:
            tokens = smiles_tokens(*name.split("-"))
            assert tokens.decode(tokens.encode([text]).tolist()) == [text]
    except UserError as error:
        return one_sentence(error)
    return "encoded"


def loaded(data: bytes) -> str:
    """A file of a tokenizer."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "tokenizer.json"
        path.write_bytes(data)
        try:
            tokenizer = load_tokenizer(path)
            tokenizer.decode(range(tokenizer.vocab_size))
        except UserError as error:
            return one_sentence(error)
    return "loaded"


def over(examples: st.SearchStrategy[Any], check: Callable[..., str]) -> Callable[[], None]:
    """`check` on every example; hypothesis wants no result."""

    @given(examples)
    def checked(example: tuple[Any, ...]) -> None:
        check(*example)

    return checked


_SPELLED = (*TOKENIZERS, "qm9-atoms", "qm9-characters", "moses-atoms", "moses-characters")
_symbols = st.lists(molecules, max_size=4).map("".join)
parsing = st.tuples(files(), readings)
making = st.tuples(files(), preparations)


def _table_of_molecules(header: list[str], rows: list[str]) -> bytes:
    return (",".join(header) + "\n" + "\n".join(rows)).encode()


_columns = st.lists(st.sampled_from(["SMILES", "smiles", "SPLIT", "x", '"']), min_size=1, max_size=3)
tables_of_molecules = st.sampled_from(["", "", *SQUEEZE]).flatmap(
    lambda ending: st.tuples(
        st.just(ending),
        damaged(
            damaged(
                st.builds(
                    _table_of_molecules,
                    st.one_of(st.just(["SMILES"]), _columns),
                    st.lists(molecules, max_size=5),
                )
            ).map(SQUEEZE.get(ending, bytes))
        ),
    )
)
spelling = st.tuples(
    st.sampled_from(_SPELLED), st.one_of(words, _symbols, st.text("CN[]()=#1%0 é", max_size=9))
)
few = settings(max_examples=300, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))


def tokenizer_files(folder: Path) -> st.SearchStrategy[tuple[bytes]]:
    """Files of tokenizers of ours, damaged."""
    texts = [path.read_bytes() for path in sorted(folder.glob("*/tokenizer.json"))]
    return st.tuples(st.one_of(damaged(st.sampled_from(texts)), st.binary(max_size=40)))


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return prepared_at(tmp_path_factory.mktemp("prepared"))


def test_any_file_is_read_or_refused() -> None:
    few(over(parsing, parse))()


def test_any_file_is_prepared_whole_or_not_at_all() -> None:
    settings(few, max_examples=120)(over(making, make))()


def test_whole_files_that_were_damaged_are_read_as_plain_readers_do_or_refused() -> None:
    settings(few, max_examples=600)(over(real_files, real))()


def test_any_compressed_file_is_expanded_whole_or_not_at_all() -> None:
    few(over(archives, squeezed))()


def test_any_table_of_molecules_is_read_or_refused() -> None:
    few(over(tables_of_molecules, published_csv))()


def test_any_string_is_its_symbols_again_or_refused() -> None:
    few(over(spelling, spelled))()


def test_any_tokenizer_file_is_loaded_or_refused(prepared: Path) -> None:
    few(over(tokenizer_files(prepared), loaded))()


def test_prepared_directories_that_were_changed_are_used_or_refused(prepared: Path) -> None:
    settings(few, max_examples=150)(over(directories(prepared), opened))()
