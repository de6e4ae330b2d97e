"""`python -m simplax`, and what torchrun starts with `-m simplax`."""

from __future__ import annotations

import sys

from simplax.cli import main

if __name__ == "__main__":
    sys.exit(main())
