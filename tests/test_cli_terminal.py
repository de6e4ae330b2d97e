"""How the command line looks on a terminal, in a pipe and at the tab key."""

from __future__ import annotations

import json
import os
import pty
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from simplax.cli import VERBS, main
from simplax.cli.output import table
from simplax.cli.verbs.completion import SHELLS
from simplax.io.progress import per_second, progress
from simplax.methods import METHODS
from simplax.recipes import RECIPES

LISTINGS = [
    [],
    ["methods"],
    ["recipes"],
    ["recipes", "toy"],
    ["samplers"],
    ["samplers", "psi"],
    ["suite", "list"],
]
LISTINGS += [[verb, "--help"] for verb in VERBS if verb != "train"] + [["suite", "run", "--help"]]
ROOT = Path(__file__).parents[1]
SUDOKU = [str(ROOT / "results" / "sudoku" / f"{name}.json") for name in ("simplax-carry", "udlm", "mdlm")]
TABLES = [
    ["compare", *SUDOKU],
    ["compare", str(ROOT / "results" / "text")],
    *(
        ["suite", "show", name, "--out", str(ROOT / "results" / "suites" / name)]
        for name in ("sudoku", "molecules")
    ),
    ["evaluate", "sudoku", "sudoku", "--clues", "30", "0", "--num", "3", "--steps", "2", "--device", "cpu"],
    ["evaluate", "sudoku", "revision", "--num", "2", "--steps", "3", "--device", "cpu"],
]
SCRIPT = f"""
import json
from simplax.cli import main
from simplax.cli.output import emit
from simplax.cli.verbs.frontier import _shown
for words in {LISTINGS + TABLES}:
    main(words)
stored = json.load(open({str(ROOT / "results" / "text" / "frontier.json")!r}))["result"]
rows = [stored["data"], *stored["controls"], *stored["points"]]
emit(False, {{}}, lambda: _shown(rows, stored["matches"], "a scorer", "A protocol.", []))
"""


def on_a_terminal(columns: int, **environment: str) -> str:
    """What one process prints whose output is a real terminal of that width."""
    master, slave = pty.openpty()
    kept = {key: value for key, value in os.environ.items() if key not in ("NO_COLOR", "FORCE_COLOR")}
    started = subprocess.Popen(
        [sys.executable, "-c", SCRIPT],
        stdout=slave,
        stderr=subprocess.DEVNULL,
        env={**kept, "COLUMNS": str(columns), "TERM": "xterm-256color", **environment},
    )
    os.close(slave)
    pieces = []
    while True:
        try:
            piece = os.read(master, 65536)
        except OSError:  # Linux ends a terminal whose other side is closed with an error
            break
        if not piece:
            break
        pieces.append(piece)
    os.close(master)
    assert started.wait() == 0
    return b"".join(pieces).decode()


COLOUR = re.compile(r"\x1b\[(?:\d+;)*(?:3|4|9|10)\d")  # foreground and background, not bold


@pytest.mark.slow
def test_tables_fit_eighty_columns_and_no_color_is_heeded() -> None:
    printed = on_a_terminal(80, NO_COLOR="1")
    assert not COLOUR.search(printed)
    lines = re.sub(r"\x1b\[[0-9;]*m", "", printed).splitlines()
    assert "geodesic" in printed and "toy-simplax" in printed
    assert not [line for line in lines if len(line) > 80]
    assert not [line for line in lines if "…" in line]  # wrapped, never cut off
    # every table is there, and what does not fit beside the others is below them
    for words in (
        "solved, 40 clues",
        "PPL (entropy)",
        "valid, no clues",
        "puzzles/s",
        "answers",
        "caught by",
    ):
        assert words in printed, words
    assert "(41.64 to 45.98)" in printed


def test_a_table_is_continued_below_with_the_names_of_its_rows() -> None:
    from rich.console import Console

    columns = ["set", *(f"measure {number}" for number in range(9))]
    rows = [[name, *(f"{number}.25 (0.5 to {number}.75)" for number in range(9))] for name in ("one", "two")]
    for width in (40, 80, 300):
        console = Console(width=width, highlight=False)
        with console.capture() as captured:
            console.print(table(columns, rows, names=1))
        lines = captured.get().splitlines()
        assert max(map(len, lines)) <= width
        pieces = captured.get().count("set")
        assert (pieces == 1) == (width == 300)
        for name in ("one", "two"):
            assert sum(line.startswith(name) for line in lines) == pieces
        for number in range(9):  # nothing is lost
            assert sum(line.count(f"{number}.75)") for line in lines) == 2


def test_rates_are_said_in_the_unit_that_suits_them() -> None:
    said = {None: "", 0.0: "", 1234.5: "1,234/s", 12.3456: "12.3/s", 0.05: "3/min", 0.001: "3.6/h"}
    assert {rate: per_second(rate) for rate in said} == said


def test_bars_have_the_rate_and_the_time_left(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")  # as on a terminal
    monkeypatch.setenv("COLUMNS", "100")
    for rate in (True, False):
        with progress("counting", 100, show=True, rate=rate) as done:
            for number in (1, 20, 40, 100):
                time.sleep(0.02)
                done(number)
        assert ("/s" in capsys.readouterr().err) == rate


def test_pipes_get_no_escapes(capsys: pytest.CaptureFixture[str]) -> None:
    for words in LISTINGS:
        main(words)
    assert "\x1b" not in capsys.readouterr().out


def test_simplax_alone_says_what_to_do_next(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    printed = capsys.readouterr().out
    for command in re.findall(r"^  simplax (\w+)", printed, re.M):
        assert command in VERBS
    assert {"demo", "train", "sample"} <= set(re.findall(r"^  simplax (\w+)", printed, re.M))


@pytest.fixture(scope="module")
def scripts() -> dict[str, str]:
    from simplax.cli.verbs.completion import vocabulary

    words = vocabulary()
    return {shell: write(words) for shell, write in SHELLS.items()}


def offered(script: str, *words: str) -> list[str]:
    """What a real bash offers for the last of the words."""
    ask = f'{script}\nCOMP_WORDS=(simplax "$@"); COMP_CWORD=$#; _simplax; printf "%s\\n" "${{COMPREPLY[@]}}"'
    done = subprocess.run(["bash", "-c", ask, "bash", *words], capture_output=True, text=True, check=True)
    assert not done.stderr
    return done.stdout.split()


def test_bash_completes_commands_names_and_options(scripts: dict[str, str]) -> None:
    script = scripts["bash"]
    assert offered(script, "") == list(VERBS)
    assert set(offered(script, "s")) == {verb for verb in VERBS if verb.startswith("s")}
    assert set(offered(script, "train", "toy-")) == {name for name in RECIPES if name.startswith("toy-")}
    assert set(METHODS) <= set(offered(script, "train", ""))
    assert offered(script, "sample", "sud") == ["sudoku"]
    assert offered(script, "sample", "sudoku", "--tempe") == ["--temperature"]
    assert offered(script, "data", "sequences", "--tokeni") == ["--tokenizer"]
    assert "--json" in offered(script, "methods", "--")
    assert offered(script, "nonsense", "") == []


def test_offered_options_exist(scripts: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sample", "--help"]) == 0
    listed = capsys.readouterr().out
    for option in offered(scripts["bash"], "sample", "--"):
        assert option in listed


FISH = """
for line in $argv
    complete -C $line | string split --fields 1 \\t
    echo =
end
"""
# A zsh completes only at its own prompt, so another one types into it. All matches are listed, none is inserted.
ZSH = r"""
zmodload zsh/zpty
zpty shell zsh -f -i
zpty -w shell "stty columns 500 rows 500; fpath=($1 \$fpath); autoload -Uz compinit; compinit -u -d $1/dump"
zpty -w shell 'all() { compstate[insert]=; compstate[list]="list force" }; LISTMAX=10000'
zpty -w shell "bindkey '^I' complete-word; bindkey '^X' kill-whole-line"
for line in $argv[2,-1]; do
  zpty -w shell 'comppostfuncs=(all); print REA""DY'
  zpty -r -m shell text '*READY*'
  zpty -n -w shell "$line"$'\t\C-x'
  zpty -w shell 'print DO""NE'
  zpty -r -m shell text '*DONE*'
  print -r -- "$text"
  print =
done
"""
LINES = ["s", "train toy-", "sample sud", "sample sudoku --tempe", "data sequences --tokeni"]


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_complete_commands_names_and_options(
    scripts: dict[str, str], shell: str, tmp_path: Path
) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    command = tmp_path / "bin" / "simplax"  # fish offers nothing for a command that does not exist
    place = {"zsh": tmp_path / "_simplax", "fish": tmp_path / "fish" / "completions" / "simplax.fish"}[shell]
    for path in (command, place):
        path.parent.mkdir(parents=True, exist_ok=True)
    command.write_text("#!/bin/sh\n")
    command.chmod(0o755)
    place.write_text(scripts[shell])
    (tmp_path / "ask").write_text({"zsh": ZSH, "fish": FISH}[shell])
    words = [str(tmp_path)] if shell == "zsh" else []
    done = subprocess.run(
        [shell, *(["-f"] if shell == "zsh" else []), tmp_path / "ask", *words]
        + [f"simplax {line}" for line in LINES],
        capture_output=True,
        text=True,
        timeout=120,
        stdin=subprocess.DEVNULL,
        cwd=tmp_path,
        env={
            "PATH": f"{command.parent}:{os.environ['PATH']}",
            "HOME": str(tmp_path),
            "XDG_CONFIG_HOME": str(tmp_path),
            "XDG_DATA_HOME": str(tmp_path),
            "TERM": "xterm",
        },
    )
    assert not done.stderr
    plain = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", " ", done.stdout)
    answers = [set(re.findall(r"[\w-]+", text)) for text in plain.split("\n=")]
    for line, found in zip(LINES, answers):
        *before, beginning = line.split()
        known = set(VERBS) if not before else set(offered(scripts["bash"], *before, beginning))
        wanted = {word for word in known if word.startswith(beginning)}
        assert wanted and wanted <= found, (line, found)
        assert not found & ({*RECIPES} - wanted), (line, found)


def test_completion_by_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", "fish", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["script"].startswith("# fish") and set(told["words"]) == set(VERBS)
    assert main(["completion", "tcsh"]) == 2
    assert "bash" in capsys.readouterr().err
