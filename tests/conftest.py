"""What tests of more than one file ask for."""

from __future__ import annotations

import pytest

from simplax.errors import UserError
from simplax.nn.compiling import check_compiler


@pytest.fixture
def compiler() -> None:
    """Skips a test that compiles for a CPU where there is no C++ compiler."""
    try:
        check_compiler("cpu")
    except UserError as error:
        pytest.skip(str(error))
