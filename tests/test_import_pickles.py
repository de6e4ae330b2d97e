"""Pickles are read as data: plain containers and tensors come out, and nothing in them can run."""

from __future__ import annotations

import collections
import os
import pickle
import struct
import zipfile
from pathlib import Path
from typing import Any

import pytest
import torch

from import_fuzz import campaign
from published_files import LENGTH, ROWS, checkpoint, config, network, stand_in
from simplax.cli import main
from simplax.errors import UserError
from simplax.pretrained.importing.archive import Archive, load_bin
from simplax.pretrained.importing.convert import Request, import_model
from simplax.pretrained.importing.files import read
from simplax.pretrained.importing.pickles import read_pickle
from simplax.pretrained.importing.records import Foreign


@pytest.mark.parametrize("protocol", range(6))
def test_plain_data_are_what_they_were(protocol: int) -> None:
    value = {
        "numbers": [0, -1, 2**40, 2**80, 1.5, float("inf"), True, None],
        "texts": ("", "a", "é\n", b"\x00\xff", bytearray(b"ab")),
        "nested": [[], {}, (1, (2, 3)), {1: {2: 3}}, {"x"}, frozenset([4])],
        "ordered": collections.OrderedDict(a=1, b=2),
        "default": collections.defaultdict(list, {"k": [1]}),
    }
    value["again"] = value["nested"]
    assert read_pickle(pickle.dumps(value, protocol), "x") == value


def test_objects_of_other_packages_are_inert_records() -> None:
    with stand_in("omegaconf.nodes", "AnyNode") as kind:
        node: Any = kind()
        node.value, node.parent = 3, node
        data = pickle.dumps([node], 2)
    (record,) = read_pickle(data, "x")
    assert isinstance(record, Foreign) and str(record.kind) == "'omegaconf.nodes.AnyNode'"
    assert record.state["value"] == 3 and record.state["parent"] is record


class Call:
    """Pickles as the call of any function."""

    def __init__(self, function: Any, *arguments: Any) -> None:
        self.function, self.arguments = function, arguments

    def __reduce__(self) -> Any:
        return self.function, self.arguments


def raw(text: str) -> bytes:
    return text.encode() + b"."


GADGETS = {
    "os.system": raw("cos\nsystem\n(Vtouch pwned\ntR"),
    "posix.system by protocol 4": b"\x80\x04\x8c\x05posix\x8c\x06system\x93\x8c\x0btouch pwned\x85R.",
    "eval": raw("c__builtin__\neval\n(Vopen('pwned', 'w')\ntR"),
    "exec": raw("cbuiltins\nexec\n(Vopen('pwned', 'w')\ntR"),
    "open": raw("cio\nopen\n(Vpwned\nVw\ntR"),
    "getattr": raw("c__builtin__\ngetattr\n(c__builtin__\n__import__\n(Vos\ntRVsystem\ntR"),
    "instance of Popen": b"csubprocess\nPopen\n(Vtouch\nt\x81.",
    "inst": raw("(Vtouch pwned\nios\nsystem\n"),
    "obj": raw("(cos\nsystem\nVtouch pwned\no"),
    "dotted name": b"\x80\x04\x8c\x0ctransformers\x8c\x0futils.os.system\x93\x8c\x0btouch pwned\x85R.",
    "function of a known package": raw("ctorch\nload\n(Vpwned\ntR"),
    "numpy's loader": raw("cnumpy\nload\n(Vpwned\nNI01\ntR"),
    "hub": raw("ctorch.hub\nload\n(Va/b\nVc\ntR"),
    "partial": raw("cfunctools\npartial\n(cos\nsystem\nVtouch pwned\ntR"),
    "runpy": raw("crunpy\nrun_path\n(Vpwned.py\ntR"),
    "nested pickle": raw("cpickle\nloads\n(Vcos\\nsystem\ntR"),
    "state of a class": raw("cos\nsystem\n(dVx\nI1\nsb"),
    "mention alone": raw("cposix\nsystem\n"),
    "unknown function": raw("csomething\nelse\n(tR"),
    "module attribute": raw("cnt\nsystem\n(Vx\ntR"),
    "pip": raw("cpip\nmain\n((lVinstall\natR"),
    "code": raw("ctypes\nFunctionType\n(tR"),
    "marshal": raw("cmarshal\nloads\n(Vx\ntR"),
    "ctypes": raw("cctypes\nCDLL\n(Vlibc.so.6\ntR"),
    "jit": raw("ctorch.jit._script\nunpackage_script_module\n(tR"),
    "import hook": raw("cimportlib\nimport_module\n(Vantigravity\ntR"),
}
NONSENSE = {
    "empty": b"",
    "no stop": b"N",
    "extension registry": b"\x82\x01.",
    "out of band buffer": b"\x97.",
    "text identifier": b"Pabc\n.",
    "wrong identifier": b"]Q.",
    "call of a result": raw("(lI1\ntR"),
    "call without arguments": raw("ccollections\nOrderedDict\nNR"),
    "huge memo index": b"Nr\xff\xff\xff\xff0j\xff\xff\xff\x7f.",
    "huge bytes": b"\x8e" + struct.pack("<Q", 2**62) + b".",
    "huge frame": b"\x80\x04\x95" + struct.pack("<Q", 2**62) + b".",
    "huge number": b"L" + b"9" * 100_000 + b"L\n.",
    "stack that is empty": b"t.",
    "mark that is closed": b"(t1.",
    "negative memo": b"g-1\n.",
    "items of a number": b"I1\nNNs.",
    "two results": b"NN.",
    "unknown opcode": b"\xfe.",
    "stack global of numbers": b"I1\nI2\n\x93.",
    "unicode that is none": b"X\x02\x00\x00\x00\xff\xff.",
    "sparse tensor of nothing": raw("ctorch._utils\n_rebuild_tensor_v2\n(tR"),
    "copies of copies": b"]q\x00(" + b"N" * 3000 + b"e0cbuiltins\nlist\nq\x010" + b"h\x01h\x00\x85R0" * 3000 + b"N.",
}  # fmt: skip


@pytest.mark.parametrize("data", GADGETS.values(), ids=list(GADGETS))
def test_gadgets_run_nothing(data: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match="nothing was run") as caught:
        read_pickle(data, "file")
    assert "\n" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("data", NONSENSE.values(), ids=list(NONSENSE))
def test_nonsense_is_told_in_one_sentence(data: bytes) -> None:
    with pytest.raises(UserError, match="is damaged"):
        read_pickle(data, "file")


def test_keys_whose_hash_takes_forever_are_left_out() -> None:
    """A tuple of itself, a hundred deep: its hash would visit 2^100 places."""
    nested = b")" + b"2\x86" * 100
    assert read_pickle(b"}" + nested + b"Ns.", "x") == {}
    assert read_pickle(b"\x8f(" + nested + b"\x90.", "x") == set()
    assert read_pickle(b"ccollections\nOrderedDict\n]" + nested + b"N\x86a\x85R.", "x") == {}


def archived(path: Path, data: bytes, **options: Any) -> Path:
    with zipfile.ZipFile(path, "w", **options) as archive:
        archive.writestr("archive/data.pkl", data)
        archive.writestr("archive/data/0", b"\x00" * 16)
    return path


def tensor(shape: str, stride: str, offset: int = 0, count: int = 4, key: str = "0") -> bytes:
    storage = f"((Vstorage\nctorch\nFloatStorage\nV{key}\nVcpu\nI{count}\ntQ"
    return raw(f"(dVw\nctorch._utils\n_rebuild_tensor_v2\n{storage}I{offset}\n{shape}{stride}I00\nNtRs")


def test_tensors_are_read_and_kept_within_their_storage(tmp_path: Path) -> None:
    pair = "(I2\nI2\nt"
    good = load_bin(archived(tmp_path / "good", tensor(pair, "(I2\nI1\nt")))
    assert good["w"].shape == (2, 2) and good["w"].dtype == torch.float32
    for name, data in {
        "too long": tensor("(I3\nI2\nt", "(I2\nI1\nt"),
        "expanded": tensor("(I1000000000\nI1000000000\nt", "(I0\nI0\nt"),
        "beyond": tensor(pair, "(I2\nI1\nt", offset=1),
        "negative": tensor(pair, "(I-2\nI1\nt", offset=3),
        "fewer strides": tensor(pair, "(I2\nt"),
        "more than there is": tensor(pair, "(I2\nI1\nt", count=10**12),
        "missing": tensor(pair, "(I2\nI1\nt", key="../../etc/passwd"),
    }.items():
        with pytest.raises(UserError, match="is damaged"):
            load_bin(archived(tmp_path / name, data))


def test_archives_that_would_grow_are_refused(tmp_path: Path) -> None:
    bomb = archived(tmp_path / "bomb", b"N" * 10_000_000, compression=zipfile.ZIP_DEFLATED)
    assert bomb.stat().st_size < 20_000
    with pytest.raises(UserError, match="compressed"):
        Archive(bomb).content()
    (tmp_path / "text").write_text("hello")
    with pytest.raises(UserError, match="not a checkpoint of torch"):
        Archive(tmp_path / "text").content()
    os.mkfifo(tmp_path / "pipe")  # opening it would wait for a writer
    with pytest.raises(UserError, match="neither a file nor a directory"):
        read(tmp_path / "pipe")
    for wrong in ("nothing", "."):
        with pytest.raises(UserError):
            Archive(tmp_path / wrong).content()


def test_a_checkpoint_with_a_call_in_it_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    checkpoint(tmp_path / "evil.ckpt", network(), callbacks={"x": Call(os.system, "touch pwned")})
    before = set(tmp_path.iterdir())
    assert main(["import", "evil.ckpt", "--from", "udlm", "--out", "model"]) == 2
    complaint = capsys.readouterr().err
    assert complaint.count("\n") == 1 and "posix.system" in complaint and "nothing was run" in complaint
    assert set(tmp_path.iterdir()) == before


@torch.no_grad()
def test_an_imitation_is_imported_with_raw_and_averaged_weights(tmp_path: Path) -> None:
    denoiser = network()
    path = checkpoint(tmp_path / "last.ckpt", denoiser)
    z, t = torch.randint(ROWS, (2, LENGTH)), torch.tensor([0.2, 0.9])
    raw_model = import_model(path, "udlm", Request(weights="raw")).model
    torch.testing.assert_close(raw_model.denoiser(z, t), denoiser(z, t))
    found = read(path)
    assert found.kind == "ema" and found.ema_decay == 0.99
    torch.testing.assert_close(
        found.tensors["vocab_embed.embedding"], 2 * denoiser.state_dict()["vocab_embed.embedding"]
    )
    assert found.settings.get("model", "computed") is None  # would have to be evaluated


@torch.no_grad()
@pytest.mark.parametrize("mask", [ROWS - 1, 3])
def test_a_mask_anywhere_gives_the_same_law_over_the_other_ids(mask: int, tmp_path: Path) -> None:
    denoiser = network()
    settings = config(parameterization="subs", diffusion="absorbing_state", time_conditioning=True)
    path = checkpoint(tmp_path / "last.ckpt", denoiser, settings)
    model = import_model(path, "mdlm", Request(weights="raw", mask_id=mask)).model
    z, t = torch.randint(ROWS, (2, LENGTH)), torch.tensor([0.2, 0.9])
    theirs = denoiser(z, t)
    theirs[..., mask] = -torch.inf
    size = model.config.task.vocab_size
    mine = model.denoiser(torch.where(z == mask, size, z), t)
    torch.testing.assert_close(mine.softmax(-1), theirs.softmax(-1)[..., :size])
    assert not bool((model.sample(4, num_steps=3, seeds=1).tokens == mask).any())


def test_a_few_thousand_damaged_files() -> None:
    result = campaign(1800, seed=1, seconds=None)
    assert result["failures"] == [] and result["forbidden_events"] == {}
    assert all(counter.get("refused") and counter.get("imported") for counter in result["counts"].values())


@pytest.mark.slow
def test_many_damaged_files() -> None:
    result = campaign(10_000, seed=2)
    assert result["failures"] == [] and result["forbidden_events"] == {}


def test_the_machine_agrees_with_torch_on_what_torch_saves(tmp_path: Path) -> None:
    """Views, shared storages, every dtype: the same tensors as the library's own loader."""
    base = torch.arange(24, dtype=torch.float32).reshape(4, 6)
    value = {
        "base": base,
        "view": base[1:, ::2],
        "transposed": base.T,
        "scalar": torch.tensor(3.0),
        "empty": torch.zeros(0, 3),
        **{
            str(dtype): torch.ones(3, dtype=dtype)
            for dtype in (torch.float64, torch.bfloat16, torch.int8, torch.bool)
        },
    }
    path = tmp_path / "x.bin"
    torch.save(value, path)
    mine = load_bin(path)
    for name, tensor_ in torch.load(path, weights_only=True).items():
        assert mine[name].dtype == tensor_.dtype and torch.equal(mine[name], tensor_), name
