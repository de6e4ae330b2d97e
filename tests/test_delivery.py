"""What is built and run outside Python: the image of the server, and what continuous integration installs."""

from __future__ import annotations

import json
import os
import re
import shutil
import stat
import subprocess
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
INSTRUCTIONS = {
    "FROM", "ARG", "ENV", "WORKDIR", "COPY", "RUN", "USER", "EXPOSE", "STOPSIGNAL", "HEALTHCHECK", "ENTRYPOINT",
}  # fmt: skip


def instructions(text: str) -> list[tuple[str, str]]:
    """Each instruction with its arguments, continued lines joined and comments left out."""
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    joined = re.sub(r"\\\n", " ", "\n".join(lines))
    return [(name, rest) for name, _, rest in (line.partition(" ") for line in joined.splitlines() if line)]


def test_the_image_is_built_from_what_is_there_and_runs_as_an_ordinary_user() -> None:
    found = instructions((ROOT / "Containerfile").read_text())
    names = [name for name, _ in found]
    assert set(names) <= INSTRUCTIONS and names[0] == "FROM" and names[-1] == "ENTRYPOINT"
    for name, rest in found:
        if name == "COPY":
            for source in rest.split()[:-1]:
                assert (ROOT / source).exists(), source
        if name == "RUN":
            assert subprocess.run(["sh", "-n", "-c", rest]).returncode == 0, rest
    users = [rest for name, rest in found if name == "USER"]
    assert users == ["simplax"] and any(re.search(r"useradd [^&]*\bsimplax\b", rest) for _, rest in found)
    # nothing is installed or copied once the ordinary user is there
    assert not {"RUN", "COPY"} & set(names[names.index("USER") :])
    (command,) = (rest for name, rest in found if name == "ENTRYPOINT")
    assert json.loads(command)[:2] == ["simplax", "serve"] and "simplax" in PROJECT["scripts"]
    (version,) = re.findall(r"python:(\d+\.\d+)", dict(found)["FROM"])
    assert PROJECT["requires-python"] == f">={version}"


@pytest.mark.parametrize("file", ["Containerfile", "docs/serve.md"])
def test_what_is_installed_can_show_every_bundled_model(file: str) -> None:
    (extras,) = re.findall(r'install (?:.* )?"(?:simplax|\.)\[(\S+)\]"', (ROOT / file).read_text())
    assert {"serve", "sudoku", "text", "molecules"} == set(extras.split(","))
    assert set(extras.split(",")) <= PROJECT["optional-dependencies"].keys()
    assert "serve: $(INSTALLED_MOLECULES)" in (ROOT / "Makefile").read_text()


def programs(path: Path, *, root: bool, works: bool = True, present: tuple[str, ...] = ()) -> tuple[str, str]:
    """What `.ci/programs` says, and what it asked of an apt-get that only takes notes."""
    log = path / "asked"
    log.write_text("")
    scripts = {name: "exit 0" for name in present}
    scripts |= {"id": f"echo {0 if root else 1000}"}
    scripts |= {"apt-get": f'echo "$@" >> {log}; exit {0 if works else 1}'}
    for name, script in scripts.items():
        (path / name).write_text(f"#!/bin/sh\n{script}\n")
        (path / name).chmod(0o755)
    for name in ("bash", "sh", "timeout"):
        (path / name).symlink_to(str(shutil.which(name)))
    done = subprocess.run(
        [path / "bash", ROOT / ".ci" / "programs"],
        env={**os.environ, "PATH": str(path)},
        capture_output=True,
        text=True,
        timeout=20,
    )
    assert done.returncode == 0 and done.stderr == ""
    return done.stdout, log.read_text()


def test_integration_installs_a_browser_and_shells(tmp_path: Path) -> None:
    said, asked = programs(tmp_path, root=True, present=("zsh",))
    assert said == "== installed: chromium fish\n"
    assert asked.startswith("install ") and {"chromium", "fish"} <= set(asked.split())
    assert "zsh" not in asked.split()


@pytest.mark.parametrize(("root", "words"), [(True, "apt-get failed"), (False, "only root may")])
def test_integration_says_what_it_cannot_install(tmp_path: Path, root: bool, words: str) -> None:
    said, _ = programs(tmp_path, root=root, works=False)
    assert said.count("\n") == 1 and "chromium zsh fish" in said and words in said and "skipped" in said


def test_integration_installs_nothing_twice(tmp_path: Path) -> None:
    assert programs(tmp_path, root=True, present=("chromium", "zsh", "fish")) == ("", "")


def test_integration_keeps_pictures_and_says_what_was_skipped() -> None:
    run = (ROOT / ".ci" / "run").read_text()
    assert ".ci/programs\n" in run and "SIMPLAX_TEST_PICTURES" in run and "-rs" in run
    for script in ("run", "programs"):
        assert (ROOT / ".ci" / script).stat().st_mode & stat.S_IXUSR
