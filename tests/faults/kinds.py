"""Each kind of fault: it happens `count` times, and what came of it is counted."""

from __future__ import annotations

import logging
import random
import shutil
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from processes import Child, Failure, finish

from simplax.errors import UserError
from simplax.io.files import sha256
from simplax.pretrained.model import from_pretrained
from simplax.train import checkpoint as checkpoints

STEPS = 40
SAME, SAID = "went on to the same bits", "one sentence"


def training(run: Path, steps: int = STEPS) -> list[str]:
    settings = {"steps": steps, "save-every": 3, "log-every": 2, "keep": 3, "validate-every": 0}
    flags = [text for name, value in settings.items() for text in (f"--run.{name}", str(value))]
    flags += ["--run.optimizer.decay", "constant", "--device", "cpu"]  # a longer run is then the same, longer
    return ["train", "toy-udlm", "--smoke", "--out", str(run), *flags]


def bits(run: Path) -> tuple[str, str]:
    """Digests of the last weights and their average."""
    found = checkpoints.find(run)
    if found is None:
        raise Failure(f"{run} has no checkpoint")
    return sha256(found / checkpoints.WEIGHTS), sha256(found / checkpoints.AVERAGE)


def reference(place: Path, steps: int = STEPS, *more: str) -> tuple[tuple[str, str], float]:
    """The run that nothing happens to, and how long it takes."""
    began = time.perf_counter()
    code, said = finish([*training(place / "whole", steps), *more], place / "words")
    if code:
        raise Failure(f"the run without a fault ended with {code}: {said}")
    return bits(place / "whole"), time.perf_counter() - began


def kill_training(place: Path, chance: random.Random, count: int) -> Counter[str]:
    expected, seconds = reference(place)
    outcomes: Counter[str] = Counter()
    for number in range(count):
        run, kills = place / f"run-{number}", 0
        for _ in range(6):
            child = Child(training(run), place / "words")
            code = child.kill_after(chance.uniform(0.1, 0.9) * seconds)
            if code == 0:
                break
            kills += 1
            if code != -9:
                raise Failure(f"a run that goes on after a kill ended with {code}: {child.sentence()}")
        finish(training(run), place / "words")
        if bits(run) != expected:
            raise Failure("a killed run ended with other weights")
        outcomes[SAME] += kills
    return outcomes


def text_command(place: Path) -> list[str]:
    """Prepare a small text."""
    source = place / "text.txt"
    if not source.exists():
        words = random.Random(1)
        lines = (" ".join("".join(words.choices("abcdefgh", k=5)) for _ in range(12)) for _ in range(4000))
        source.write_text("\n\n".join(lines))
    return ["data", "text", str(source), "--tokenizer", "characters", "--length", "32"]


def content(folder: Path) -> dict[str, str]:
    skip = {"manifest.json", "lock", ".lock"}
    return {p.name: sha256(p) for p in sorted(folder.iterdir()) if p.is_file() and p.name not in skip}


def kill_data(place: Path, chance: random.Random, count: int) -> Counter[str]:
    began = time.perf_counter()
    code, said = finish([*text_command(place), "--out", str(place / "whole")], place / "words")
    seconds = time.perf_counter() - began
    if code:
        raise Failure(said)
    outcomes: Counter[str] = Counter()
    for number in range(count):
        out = place / f"data-{number}"
        command = [*text_command(place), "--out", str(out)]
        for _ in range(3):
            if Child(command, place / "words").kill_after(chance.uniform(0.05, 0.95) * seconds) == 0:
                break
            outcomes[SAME] += 1
        code, said = finish(command, place / "words")
        if code or content(out) != content(place / "whole"):
            raise Failure(f"killed preparation ended otherwise: {said}")
    return outcomes


def kill_export(place: Path, chance: random.Random, count: int) -> Counter[str]:
    reference(place, 6)
    command = ["export", str(place / "whole")]
    began = time.perf_counter()
    finish([*command, str(place / "good")], place / "words")
    seconds = time.perf_counter() - began
    outcomes: Counter[str] = Counter()
    for number in range(3 * count):
        out = place / f"model-{number}"
        code = Child([*command, str(out)], place / "words").kill_after(chance.uniform(0.05, 1.0) * seconds)
        if out.exists():
            if from_pretrained(out).origin["sha256"] != from_pretrained(place / "good").origin["sha256"]:
                raise Failure("half an export is there")
            outcomes["complete"] += 1
        else:
            if code == 0:
                raise Failure("an export that ended well is not there")
            finish([*command, str(out)], place / "words")
            outcomes["absent, and made by the same command"] += 1
    return outcomes


def damages(files: list[Path], chance: random.Random, count: int) -> Iterator[tuple[Path, str]]:
    """Which file is damaged next, and how: all in turn, every third time cut and otherwise one bit flipped."""
    turn = chance.sample(files, len(files))
    for number in range(count):
        through, place = divmod(number, len(turn))
        yield turn[place], "cut" if (through + place) % 3 == 2 else "flipped"


def damage(file: Path, how: str, chance: random.Random) -> None:
    content = bytearray(file.read_bytes())
    if how == "cut":
        del content[chance.randrange(len(content) + 1) :]
    elif content:
        content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
    file.write_bytes(bytes(content))


def files_below(folder: Path) -> list[Path]:
    """All files, as paths below the folder."""
    return sorted(
        path.relative_to(folder)
        for path in folder.rglob("*")
        if path.is_file() and path.name not in ("lock", ".lock")
    )


def damage_run(place: Path, chance: random.Random, count: int) -> Counter[str]:
    """A run cut at two thirds; one of its files is damaged; the same command goes on or says why not."""
    sampled = ["--run.sample-every", "2"]
    expected, _ = reference(place, 9, *sampled)
    finish([*training(place / "part", 6), *sampled], place / "words")
    files = [path for path in files_below(place / "part") if path.parts[0] != "best"]
    outcomes: Counter[str] = Counter()
    for path, how in damages(files, chance, count):
        shutil.rmtree(place / "run", ignore_errors=True)
        shutil.copytree(place / "part", place / "run", symlinks=True)
        damage(place / "run" / path, how, chance)
        code, _ = finish([*training(place / "run", 9), *sampled], place / "words")
        if code == 0 and bits(place / "run") != expected:
            raise Failure(f"{path} {how}: the run went on to other weights")
        outcomes[f"{path.name} {how}: {SAME if code == 0 else SAID}"] += 1
    return outcomes


def damage_export(place: Path, chance: random.Random, count: int) -> Counter[str]:
    reference(place, 6)
    finish(["export", str(place / "whole"), str(place / "good")], place / "words")
    return damage_model(place, chance, count)


def damage_model(place: Path, chance: random.Random, count: int) -> Counter[str]:
    """A model in `place/good`: a copy with a damaged file has the same weights, or is refused."""
    good = from_pretrained(place / "good")
    expected = good.denoiser.state_dict()
    told: list[str] = []
    logging.getLogger("simplax.pretrained.stored").addFilter(lambda record: bool(told.append(record.msg)))
    outcomes: Counter[str] = Counter()
    for path, how in damages(files_below(place / "good"), chance, count):
        shutil.rmtree(place / "model", ignore_errors=True)
        shutil.copytree(place / "good", place / "model")
        damage(place / "model" / path, how, chance)
        told.clear()
        try:
            found = from_pretrained(place / "model")
        except UserError:
            outcomes[f"{path.name} {how}: {SAID}"] += 1
            continue
        except Exception as error:
            raise Failure(f"{path} {how}: {type(error).__name__}: {error}") from error
        weights = found.denoiser.state_dict()
        if weights.keys() != expected.keys() or any(not weights[n].equal(expected[n]) for n in expected):
            raise Failure(f"{path} {how}: other weights were loaded")
        same = found.config == good.config
        if not same and not told:
            raise Failure(f"{path} {how}: another setting, and nobody was warned")
        what = "the same model" if same else "the same weights, another setting, and a warning"
        outcomes[f"{path.name} {how}: {what}"] += 1
    return outcomes
