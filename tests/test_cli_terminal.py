"""How the command line looks on a terminal, in a pipe and at the tab key."""

from __future__ import annotations

import json
import os
import pty
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from simplax.cli import VERBS, main
from simplax.cli.verbs.completion import SHELLS
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
LISTINGS += [[verb, "--help"] for verb in ("sample", "data", "evaluate", "figure", "suite")]
SCRIPT = f"from simplax.cli import main\nfor words in {LISTINGS}: main(words)"


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
    sentences = re.compile(r"[A-Z].*\.$")  # paragraphs of a help are left to the terminal to wrap
    assert not [line for line in lines if len(line) > 80 and not sentences.match(line)]
    assert not [line for line in lines if "…" in line]  # wrapped, never cut off


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
