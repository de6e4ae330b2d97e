"""Every command of the documentation is one that the program understands; cheap ones are run.

A command is read by the parser that users meet, down to settings of recipes and samplers, and stops before it would do
anything. Names in capitals stand for files and runs of the reader's.
"""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from simplax.cli import main, parsing
from simplax.cli.verbs import doctor, train
from simplax.concentration import parse as parse_eta
from simplax.config.run import resolve
from simplax.config.sampling import choose_sampler
from simplax.methods import METHODS
from simplax.recipes import RECIPES, get
from simplax.suites.catalogue import declare
from simplax.suites.declared import Options

ROOT = Path(__file__).parents[1]
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "benchmarks").glob("*.md")),
    *sorted((ROOT / "results").rglob("*.md")),
]
INLINE = re.compile(r"`(?:python -m )?simplax ([a-z][^`\n]*)`")
SHELL = re.compile(r"^```(?:bash|sh|console)\n(.*?)^```", re.M | re.S)
CONTROL = {"|", "||", "&", "&&", ";", ">", ">>", "2>", "do", "done"}


def commands_of(text: str) -> list[list[str]]:
    """The arguments of every `simplax` in the code blocks of a page, whatever starts it."""
    found = []
    for block in SHELL.findall(text):
        for line in block.replace("\\\n", " ").splitlines():
            # one word for what a shell would fill in; a number is a word too
            line = re.sub(r"\$\{?\w+(:-\d+)?\}?", "8", line)
            lexer = shlex.shlex(line, posix=True, punctuation_chars="|&;<>")
            lexer.whitespace_split, lexer.commenters = True, "#"
            words = list(lexer)
            if "torchrun" in words or "python" in words:
                if "simplax" not in words or words[words.index("simplax") - 1] != "-m":
                    continue
                words = words[words.index("simplax") :]
            if words[:1] != ["simplax"]:
                continue
            end = next((place for place, word in enumerate(words) if word in CONTROL), len(words))
            found.append(words[1:end])
    return found


COMMANDS = {
    shlex.join(command): (page, command) for page in PAGES for command in commands_of(page.read_text())
}


class Understood(Exception):
    """Raised in place of doing what was asked."""

    def __init__(self, function: Any, arguments: tuple[Any, ...], options: dict[str, Any]) -> None:
        super().__init__(function.__name__)
        self.function, self.arguments, self.options = function, arguments, options


class Deferred:
    """A call that was read; made, it says what it would have been made with."""

    def __init__(self, call: Any) -> None:
        self.func, self.args, self.keywords = call.func, call.args, dict(call.keywords)

    def __call__(self, **more: Any) -> None:
        raise Understood(self.func, self.args, {**self.keywords, **more})


@pytest.fixture
def understand(monkeypatch: pytest.MonkeyPatch) -> Any:
    real = parsing.read

    def read(*arguments: Any, **groups: Any) -> tuple[Deferred, list[str]]:
        call, unknown = real(*arguments, **groups)
        return Deferred(call), unknown

    for module in (parsing, train, doctor):
        monkeypatch.setattr(module, "read", read)

    def one(command: list[str]) -> Understood | None:
        """What a command asks for; nothing if it is answered while it is read, as a help is."""
        monkeypatch.setenv("SIMPLAX_DEBUG", "1")  # mistakes are raised instead of printed
        try:
            assert main(command) == 0
        except Understood as understood:
            return understood
        return None

    return one


def check_values(asked: Understood) -> None:
    """What the parser leaves to the command: names of recipes and suites, their settings, samplers, concentrations."""
    options, name = asked.options, asked.function.__name__
    if name == "train" and options["data"] is None:
        resolve(get(asked.arguments[0]), None, options["changes"])
    elif name == "train":
        assert asked.arguments[0] in {**METHODS, **RECIPES}
    elif name in ("run_", "show_"):
        declare(asked.arguments[0], Options())
    elif name == "doctor" and asked.arguments[0] is not None:
        resolve(get(asked.arguments[0]), None, options["changes"])
    etas = options.get("eta")
    for eta in etas if isinstance(etas, list | tuple) else [etas]:
        if isinstance(eta, str):
            parse_eta(eta)
    chosen = options.get("sampler")
    if getattr(chosen, "name", None) is None and not getattr(chosen, "settings", ()):
        return
    fits = []
    for method in METHODS.values():
        try:
            fits.append(choose_sampler(method(), method().sampler(), chosen.name, chosen.settings))
        except ValueError:
            continue
    assert fits, f"no method has a sampler with these settings: {chosen}"


def test_commands_are_found() -> None:
    assert len(COMMANDS) > 130
    assert {command[0] for _, command in COMMANDS.values()} >= {
        "train",
        "sample",
        "solve",
        "evaluate",
        "suite",
    }
    text = '```bash\nsimplax a \\\n  --b "c d" | head  # why\ntorchrun -m simplax -- e $f &\npip install simplax\n```'
    assert commands_of(text) == [["a", "--b", "c d"], ["--", "e", "8"]]


@pytest.mark.parametrize("written", COMMANDS)
def test_every_command_is_understood(written: str, understand: Any) -> None:
    page, command = COMMANDS[written]
    try:
        asked = understand(command)
        if asked is not None:
            check_values(asked)
    except (ValueError, OSError) as error:
        pytest.fail(f"{page.relative_to(ROOT)}: simplax {written}: {error}")


def test_a_command_with_a_mistake_is_not_understood(understand: Any) -> None:
    for wrong in ("sample MODEL --nmu 3", "solve P --steps many", "nothing"):
        with pytest.raises(ValueError):
            understand(wrong.split())
    wrong_values = ["train toy-udlm --run.steps many", "train no-such-recipe", "sample M --sampler.kapa 0"]
    for wrong in [*wrong_values, "suite run no-such-suite"]:
        with pytest.raises((ValueError, AssertionError)):
            check_values(understand(wrong.split()))


# done in seconds, with no file but those of the repository
CHEAP = re.compile(
    r"(samplers|methods|recipes|suite list|suite show sudoku|completion|licences|doctor$"
    r"|infill text-mini|train sudoku4-simplax --help|solve [.\d]{81})(\s|$)"
)


@pytest.mark.parametrize("written", [written for written in COMMANDS if CHEAP.match(written)])
def test_cheap_commands_run(
    written: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "results").symlink_to(ROOT / "results")
    monkeypatch.chdir(tmp_path)
    assert main(COMMANDS[written][1]) == 0
    assert capsys.readouterr().out.strip()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_scripts_that_pages_name_exist(page: Path) -> None:
    for block in SHELL.findall(page.read_text()):
        for script in re.findall(r"\bpython ((?:benchmarks|examples|tests)/\S+\.py)", block):
            assert (ROOT / script).is_file(), script


def mentions() -> dict[str, list[str]]:
    """Commands named in running text, without what the reader fills in, and the options named with them."""
    found: dict[str, list[str]] = {}
    for page in PAGES:
        if page.is_relative_to(ROOT / "results"):
            continue
        text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.M | re.S)
        for span in INLINE.findall(text):
            words = span.split()
            end = next((place for place, word in enumerate(words) if word.startswith("--")), len(words))
            # the model comes before what is measured; elsewhere names come last and the help needs none
            keep = [word for word in words[:end] if words[0] == "evaluate" or word.islower()]
            options = [word for word in words[end:] if word.startswith("--")]
            found.setdefault(" ".join(keep), []).extend(options)
    return found


MENTIONS = mentions()


@pytest.mark.parametrize("command", MENTIONS)
def test_commands_and_options_that_text_names_exist(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*command.split(), "--help"]) == 0
    shown = capsys.readouterr().out
    for option in MENTIONS[command]:
        assert option in shown, option
