"""Damaged and hostile files by the thousand: each is imported or refused in one sentence, and nothing else happens.

python tests/import_fuzz.py --cases 100000 --out results/import/fuzz.json
"""

from __future__ import annotations

import argparse
import collections
import io
import json
import pickletools
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from published_files import LENGTH, ROWS, checkpoint, network
from simplax.config import codec
from simplax.config.run import FAMILIES, RunConfig, SamplingDefaults, Unconditional, to_json
from simplax.errors import UserError
from simplax.io.manifest import environment
from simplax.methods import UDLM, Curriculum
from simplax.methods.distillation import Distillation
from simplax.nn import Architecture, Denoiser
from simplax.nn.lora import Lora
from simplax.objectives.bridge import FiniteStep
from simplax.pretrained import from_pretrained
from simplax.pretrained.importing.convert import import_model
from simplax.tasks import TextTask
from simplax.train.optimizer import Optimizer
from simplax.train.run import Run

# events of the interpreter that reading a file has no business with; `import` and `exec` would be code of the file
FORBIDDEN = (
    "exec", "compile", "import", "pickle.find_class", "subprocess.Popen", "socket.", "ctypes.", "shutil.", "os.system",
    "os.exec", "os.fork", "os.spawn", "os.posix_spawn", "os.remove", "os.rename", "os.mkdir", "os.rmdir", "os.putenv",
    "os.kill", "os.link", "os.symlink", "os.chmod", "os.truncate", "pty.", "webbrowser.", "sys.settrace",
)  # fmt: skip
SECONDS = 20.0
NUMBERS = [
    0,
    1,
    -1,
    2,
    127,
    128,
    255,
    256,
    2**31 - 1,
    2**31,
    2**63 - 1,
    2**63,
    -(2**63),
    10**30,
    1e308,
    float("nan"),
]
WORDS: list[Any] = [
    "",
    "a",
    "${eval:1}",
    "__import__('os').system('touch pwned')",
    "../../x",
    "\x00",
    "é" * 99,
    None,
]
GADGETS = [
    b"cos\nsystem\n(X\x0b\x00\x00\x00touch pwnedtR0",
    b"cposix\nsystem\n(X\x0b\x00\x00\x00touch pwnedtR",
    b"c__builtin__\neval\n(X\x0c\x00\x00\x00open('pwned',tR",
    b"cbuiltins\ngetattr\n(cos\nX\x06\x00\x00\x00systemtR",
    b"(X\x0b\x00\x00\x00touch pwnedios\nsystem\n",
    b"(cos\nsystem\nX\x0b\x00\x00\x00touch pwnedo",
    b"csubprocess\nPopen\n(]X\x05\x00\x00\x00touchatR",
    b"\x8c\x02os\x8c\x06system\x93\x8c\x0btouch pwned\x85R",
    b"ctorch.hub\nload\n(X\x01\x00\x00\x00atR",
    b"ctorch\nload\n(X\x01\x00\x00\x00atR",
    b"\x82\x01", b"\x97", b"\x98", b"r\xff\xff\xff\xff", b"j\xff\xff\xff\xff", b"\x95\xff\xff\xff\xff\xff\xff\xff\x7f",
    b"\x8e\xff\xff\xff\xff\xff\xff\xff\x7f", b"B\xff\xff\xff\x7f", b"\x8b\xff\xff\xff\x7f", b"L" + b"9" * 5000 + b"L\n",
    b"(2" * 50 + b"t" * 50, b"2\x86" * 60, b")\x85" * 500, b"}" + b"2\x86" * 60 + b"Ns",
]  # fmt: skip

Case = Callable[[random.Random], None]


class Hang(BaseException):
    """A case took longer than anybody waits."""


class Watch:
    """What the interpreter was asked for while a case ran."""

    def __init__(self) -> None:
        self.armed, self.seen = False, collections.Counter[str]()
        sys.addaudithook(self.hook)

    def hook(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self.armed:
            return
        writes = event == "open" and any(letter in str(arguments[1] or "r") for letter in "wax+")
        if writes or event.startswith(FORBIDDEN):
            detail = {"import": 0, "compile": 1}.get(event)
            self.seen[event if detail is None else f"{event} {arguments[detail]}"] += 1


class Bench:
    """Valid files of every kind in a directory, and ways to damage them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        denoiser = network()
        self.checkpoint = checkpoint(folder / "good.ckpt", denoiser).read_bytes()
        with zipfile.ZipFile(io.BytesIO(self.checkpoint)) as archive:
            self.entries = {name: archive.read(name) for name in archive.namelist()}
        self.root = next(name for name in self.entries if name.endswith("data.pkl"))
        self.starts = [position for _, _, position in pickletools.genops(self.entries[self.root])]
        state = {f"backbone.{name}": value.clone() for name, value in denoiser.state_dict().items()}
        self.hugging = folder / "hugging"
        self.hugging.mkdir()
        save_file(state, self.hugging / "model.safetensors")
        self.tensors = (self.hugging / "model.safetensors").read_bytes()
        self.config = {
            "model_type": "udlm", "vocab_size": ROWS, "model_length": LENGTH, "n_heads": 2, "n_blocks": 1,
            "hidden_dim": 8, "cond_dim": 4, "dropout": 0.1, "time_conditioning": True, "cfg": False,
        }  # fmt: skip
        (self.hugging / "config.json").write_text(json.dumps(self.config))
        self.binary = folder / "binary"
        self.binary.mkdir()
        torch.save(state, self.binary / "pytorch_model.bin")
        self.plain = (self.binary / "pytorch_model.bin").read_bytes()
        (self.binary / "config.json").write_text(json.dumps(self.config))
        self.own = folder / "own"
        self.own.mkdir()
        save_file(denoiser.state_dict(), self.own / "weights.safetensors")
        run = Run(steps=1, batch_size=1)
        task = TextTask("synthetic", LENGTH, ROWS)
        self.settings = to_json(RunConfig("own", task, UDLM(), Architecture(8, 1, 2, cond_dim=4), run))
        (self.own / "config.json").write_text(json.dumps(self.settings))
        self._make_adapter(denoiser)
        self.targets: dict[str, Case] = {
            "pickles": self.pickle,
            "archives": self.archive,
            "bins": self.bin,
            "safetensors": self.safetensors,
            "foreign configs": self.foreign_config,
            "own configs": self.own_config,
            "adapters": self.adapters,
        }

    def _make_adapter(self, denoiser: Denoiser) -> None:
        """A model that stays whole, and adapters for one of its layers, as `simplax export --adapter` writes them."""
        self.base, self.adapter = self.folder / "base", self.folder / "adapter"
        shutil.copytree(self.own, self.base)
        self.adapter.mkdir()
        layer = "base_model.model.blocks.0.attn_out.lora_"
        factors = {f"{layer}A.weight": torch.ones(2, 8), f"{layer}B.weight": torch.ones(8, 2)}
        save_file(factors, self.adapter / "adapter_model.safetensors")
        self.factors = (self.adapter / "adapter_model.safetensors").read_bytes()
        self.adapter_settings = {**self.settings, "lora": {"rank": 2, "alpha": 4.0}}
        (self.adapter / "config.json").write_text(json.dumps(self.adapter_settings))
        self.said = {"model": {"name": "own", "weights": "ema", "base": {"path": str(self.base)}}}
        (self.adapter / "manifest.json").write_text(json.dumps(self.said))

    def pickle(self, dice: random.Random) -> None:
        path = self._zip(self.entries | {self.root: self.mutated_pickle(dice)})
        import_model(path, "udlm")

    def archive(self, dice: random.Random) -> None:
        path = self.folder / "case.ckpt"
        path.write_bytes(mutated_bytes(self.checkpoint, dice))
        import_model(path, "udlm")

    def bin(self, dice: random.Random) -> None:
        """A state dict alone."""
        (self.binary / "pytorch_model.bin").write_bytes(mutated_bytes(self.plain, dice))
        import_model(self.binary, "udlm")

    def safetensors(self, dice: random.Random) -> None:
        (self.hugging / "config.json").write_text(json.dumps(self.config))
        (self.hugging / "model.safetensors").write_bytes(self.mutated_safetensors(dice, self.tensors))
        import_model(self.hugging, "udlm")

    def foreign_config(self, dice: random.Random) -> None:
        (self.hugging / "model.safetensors").write_bytes(self.tensors)
        (self.hugging / "config.json").write_bytes(mutated_json(self.config, dice))
        import_model(self.hugging, "udlm")

    def own_config(self, dice: random.Random) -> None:
        (self.own / "config.json").write_bytes(mutated_json(self.settings, dice))
        from_pretrained(self.own, device="cpu")

    def adapters(self, dice: random.Random) -> None:
        kind = dice.randrange(3)
        tensors = self.mutated_safetensors(dice, self.factors) if kind == 0 else self.factors
        (self.adapter / "adapter_model.safetensors").write_bytes(tensors)
        config = (
            mutated_json(self.adapter_settings, dice)
            if kind == 1
            else json.dumps(self.adapter_settings).encode()
        )
        (self.adapter / "config.json").write_bytes(config)
        said = mutated_json(self.said, dice) if kind == 2 else json.dumps(self.said).encode()
        (self.adapter / "manifest.json").write_bytes(said)
        from_pretrained(self.adapter, device="cpu", base=None if dice.random() < 0.5 else self.base)

    def _zip(self, entries: dict[str, bytes]) -> Path:
        path = self.folder / "case.ckpt"
        with zipfile.ZipFile(path, "w") as archive:
            for name, data in entries.items():
                archive.writestr(name, data)
        return path

    def mutated_pickle(self, dice: random.Random) -> bytes:
        data = self.entries[self.root]
        if dice.random() < 0.25:
            return mutated_bytes(data, dice)
        for _ in range(dice.randint(1, 4)):
            a, b = sorted(dice.choices(self.starts, k=2))
            piece = dice.choice([b"", dice.choice(GADGETS), data[a : a + dice.randint(1, 60)]])
            if dice.random() < 0.5:  # keep what is there and put something in between
                b = a
            data = data[:a] + piece + data[min(b, a + dice.randint(0, 200)) :]
        return data

    def mutated_safetensors(self, dice: random.Random, data: bytes) -> bytes:
        if dice.random() < 0.3:
            return mutated_bytes(data, dice)
        size = int.from_bytes(data[:8], "little")
        header, body = json.loads(data[8 : 8 + size]), data[8 + size :]
        text = mutated_json(header, dice)
        length = (
            len(text) if dice.random() < 0.8 else dice.choice([0, 1, 2**31, 2**63, 2**64 - 1, len(text) + 3])
        )
        return length.to_bytes(8, "little") + text + body


def mutated_bytes(data: bytes, dice: random.Random) -> bytes:
    changed = bytearray(data)
    for _ in range(dice.choice([1, 1, 2, 8, 32])):
        place = dice.randrange(len(changed)) if changed else 0
        kind = dice.randrange(5)
        if kind == 0 and changed:
            changed[place] = dice.randrange(256)
        elif kind == 1:
            changed[place:place] = dice.randbytes(dice.randint(1, 8))
        elif kind == 2:
            del changed[place : place + dice.randint(1, 40)]
        elif kind == 3:
            changed[place:place] = dice.choice(GADGETS)
        elif dice.random() < 0.2:
            del changed[place:]
    return bytes(changed)


def mutated_json(data: Any, dice: random.Random) -> bytes:
    changed = json.loads(json.dumps(data))
    for _ in range(dice.choice([1, 1, 1, 2, 4])):
        _mutate_tree(changed, dice)
    text = json.dumps(changed).encode()
    if dice.random() < 0.1:
        text = b"[" * 100_000 if dice.random() < 0.02 else mutated_bytes(text, dice)
    return text


def _mutate_tree(node: Any, dice: random.Random) -> None:
    """Change, remove or add one entry somewhere."""
    while True:
        keys = list(node) if isinstance(node, dict) else list(range(len(node)))
        if not keys:
            return
        key = dice.choice(keys)
        inner = node[key]
        if isinstance(inner, dict | list) and inner and dice.random() < 0.8:
            node = inner
            continue
        value = dice.choice([dice.choice(NUMBERS), dice.choice(WORDS), {}, [], [[]], True, False])
        action = dice.randrange(4)
        if action == 0:
            del node[key]
        elif action == 1 and isinstance(node, dict):
            node[str(dice.choice(WORDS))] = value
        elif action == 2 and isinstance(inner, int | float) and not isinstance(inner, bool):
            node[key] = inner + dice.choice([-1, 1, 7])
        else:
            node[key] = value
        return


def attempt(case: Case, dice: random.Random) -> str:
    """`imported`, `refused`, or what went wrong."""
    try:
        case(dice)
        return "imported"
    except UserError as error:
        return "refused" if "\n" not in str(error) and len(str(error)) < 2000 else "a long complaint"
    except Hang:
        return "a hang"
    except BaseException as error:
        return f"{type(error).__name__}: {str(error)[:80]}"


def campaign(
    cases: int, seed: int = 0, seconds: float | None = SECONDS, only: str | None = None
) -> dict[str, Any]:
    """Damage `cases` files, spread over the kinds, or of one kind only; count what came of them."""
    folder = Path(tempfile.mkdtemp(prefix="simplax-fuzz-"))
    try:
        bench = Bench(folder)
        if only is not None:
            bench.targets = {only: bench.targets[only]}
        return _campaign(bench, cases, seed, seconds, Watch())
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _campaign(bench: Bench, cases: int, seed: int, seconds: float | None, watch: Watch) -> dict[str, Any]:
    def alarm(*_: Any) -> None:
        raise Hang

    # what the library imports and evaluates late, on first use, is imported and evaluated now
    for encoding in ("cp437", "raw_unicode_escape", "unicode_escape", "latin1", "ascii", "utf-8", "idna"):
        "a".encode(encoding)
    groups = (
        RunConfig,
        Run,
        SamplingDefaults,
        Unconditional,
        Optimizer,
        FiniteStep,
        Curriculum,
        Lora,
        Distillation,
    )
    for member in (*groups, *(member for family in FAMILIES.values() for member in family.values())):
        codec._hints(member if isinstance(member, type) else type(member))
    import_model(bench.folder / "good.ckpt", "udlm")
    import_model(bench.hugging, "udlm")
    from_pretrained(bench.own, device="cpu")
    from_pretrained(bench.adapter, device="cpu")
    counts: dict[str, collections.Counter[str]] = {name: collections.Counter() for name in bench.targets}
    failures: list[dict[str, Any]] = []
    slowest = 0.0
    for number in range(cases):
        name = list(bench.targets)[number % len(bench.targets)]
        if seconds is not None:
            signal.signal(signal.SIGALRM, alarm)
            signal.setitimer(signal.ITIMER_REAL, seconds)
        start = time.perf_counter()
        before = watch.seen.total()
        result = attempt(_watched(bench.targets[name], watch), random.Random(f"{seed}-{number}"))
        slowest = max(slowest, time.perf_counter() - start)
        if seconds is not None:
            signal.setitimer(signal.ITIMER_REAL, 0)
        counts[name][result] += 1
        if result not in ("imported", "refused") or watch.seen.total() > before:
            failures.append({"case": number, "target": name, "result": result})
    return {
        "cases": cases,
        "seed": seed,
        "counts": {name: dict(counter) for name, counter in counts.items()},
        "forbidden_events": dict(watch.seen),
        "failures": failures[:100],
        "slowest_seconds": round(slowest, 3),
    }


def _watched(case: Case, watch: Watch) -> Case:
    """The case with the interpreter watched from the moment the damaged file is being read."""

    def run(dice: random.Random) -> None:
        global import_model, from_pretrained
        plain = (import_model, from_pretrained)

        def armed(function: Callable[..., Any]) -> Callable[..., Any]:
            def call(*arguments: Any, **options: Any) -> Any:
                watch.armed = True
                try:
                    return function(*arguments, **options)
                finally:
                    watch.armed = False

            return call

        import_model, from_pretrained = armed(plain[0]), armed(plain[1])
        try:
            case(dice)
        finally:
            import_model, from_pretrained = plain

    return run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--cases", type=int, default=3000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", help="one kind of file, for instance adapters")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    used = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (16 << 30, used[1]))
    start = time.perf_counter()
    result = campaign(options.cases, options.seed, only=options.only)
    command = f"python tests/import_fuzz.py --cases {options.cases} --seed {options.seed}"
    command += f" --only {options.only}" if options.only else ""
    record = {
        **environment(),
        "command": command,
        "seconds": round(time.perf_counter() - start),
        "result": result,
    }
    text = json.dumps(record, indent=2)
    print(text)
    if options.out is not None:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(text + "\n")


if __name__ == "__main__":
    main()
