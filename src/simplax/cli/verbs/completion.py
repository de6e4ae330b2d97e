"""`simplax completion bash|zsh|fish`: what a shell offers when the tab key is pressed."""

from __future__ import annotations

import contextlib
import io
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Literal

import tyro

from simplax.cli.output import emit, first_process
from simplax.cli.parsing import Json, run

Words = Mapping[str, list[str]]
"""What may follow each verb: names that it knows, then its options."""


def main(arguments: list[str]) -> None:
    run(completion, arguments, "simplax completion")


def completion(
    shell: Annotated[
        Literal["bash", "zsh", "fish"], tyro.conf.Positional, tyro.conf.arg(help="which shell it is for")
    ],
    /,
    *,
    json: Json = False,
) -> None:
    """Print a script that completes commands, options, recipes, methods, samplers and bundled models.

    For bash: simplax completion bash > ~/.local/share/bash-completion/completions/simplax. For zsh: a file _simplax in
    a directory of $fpath. For fish: ~/.config/fish/completions/simplax.fish. The names are those of the version that
    prints it: do it again after an update.
    """
    words = vocabulary()
    script = SHELLS[shell](words)
    if json:
        emit(True, {"shell": shell, "words": words, "script": script}, str)
    elif first_process():
        sys.stdout.write(script)  # not wrapped to the width of a terminal


def vocabulary() -> dict[str, list[str]]:
    """The words after each verb; the options are read off its help, so that there is no second list of them."""
    from simplax.cli import VERBS
    from simplax.cli.verbs.data import DATA
    from simplax.cli.verbs.evaluate import EVALUATIONS
    from simplax.cli.verbs.figure import FIGURES
    from simplax.cli.verbs.suite import COMMANDS
    from simplax.methods import METHODS
    from simplax.pretrained.model import bundled
    from simplax.recipes import FAMILIES, RECIPES
    from simplax.samplers import SAMPLERS
    from simplax.suites.catalogue import SUITES

    models = list(bundled())
    commands = {"data": list(DATA), "figure": list(FIGURES), "suite": list(COMMANDS)}
    helps = {verb: [[verb, name] for name in names] for verb, names in commands.items()}
    helps["evaluate"] = [["evaluate", "MODEL", name] for name in EVALUATIONS]
    names = {
        **dict.fromkeys(("sample", "infill", "sweep", "frontier", "serve", "export", "push"), models),
        **commands,
        "suite": [*COMMANDS, *SUITES],
        "evaluate": [*models, *EVALUATIONS],
        "train": [*RECIPES, *METHODS],
        "recipes": [*FAMILIES, *RECIPES],
        "samplers": list(SAMPLERS),
        "completion": list(SHELLS),
    }
    return {
        verb: list(dict.fromkeys([*names.get(verb, []), *_options(helps.get(verb, [[verb]]))]))
        for verb in VERBS
    }


def _options(commands: Iterable[list[str]]) -> list[str]:
    """The options that the help of any of the commands lists."""
    from simplax.cli import main as simplax

    text = io.StringIO()
    with contextlib.redirect_stdout(text):
        for command in commands:
            simplax([*command, "--help"])
    plain = re.sub(r"\x1b\[[0-9;]*m", "", text.getvalue())
    # an option begins its line, inside the frame of the help; others are mentioned in sentences
    return sorted({"--help", *re.findall(r"^[│|\s]*(?:-\w, )?(--[a-z][a-z0-9-]*)", plain, re.M)})


def _bash(words: Words) -> str:
    cases = "\n".join(f'    *:{verb}) words="{" ".join(after)}" ;;' for verb, after in words.items())
    return f"""\
# bash completion of simplax
_simplax() {{
  local words
  case "$COMP_CWORD:${{COMP_WORDS[1]}}" in
    1:*) words="{" ".join(words)}" ;;
{cases}
  esac
  COMPREPLY=($(compgen -W "$words" -- "${{COMP_WORDS[COMP_CWORD]}}"))
}}
complete -o default -F _simplax simplax
"""


def _zsh(words: Words) -> str:
    from simplax.cli import VERBS

    verbs = "\n".join(f"      {_quoted(f'{verb}:{VERBS[verb][1]}')}" for verb in words)
    cases = "\n".join(f"    {verb}) compadd -- {' '.join(after)} ;;" for verb, after in words.items())
    return f"""\
#compdef simplax
# zsh completion of simplax
_simplax() {{
  if (( CURRENT == 2 )); then
    local -a verbs=(
{verbs}
    )
    _describe command verbs
    return
  fi
  case $words[2] in
{cases}
  esac
  _files
}}
if [[ $funcstack[1] == _simplax ]]; then _simplax "$@"; else compdef _simplax simplax; fi
"""


def _fish(words: Words) -> str:
    from simplax.cli import VERBS

    lines = ["# fish completion of simplax"]
    for verb, after in words.items():
        about = _quoted(VERBS[verb][1])
        lines.append(f"complete -c simplax -n __fish_use_subcommand -f -a {verb} -d {about}")
        here = f"complete -c simplax -n '__fish_seen_subcommand_from {verb}'"
        names = [word for word in after if not word.startswith("--")]
        lines += [f"{here} -a '{' '.join(names)}'"] if names else []
        lines += [f"{here} -l {word.removeprefix('--')}" for word in after if word.startswith("--")]
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    """One word of a shell."""
    return "'" + text.replace("'", "'\\''") + "'"


SHELLS: dict[str, Callable[[Words], str]] = {"bash": _bash, "zsh": _zsh, "fish": _fish}
