"""The API against its own OpenAPI document, with requests that schemathesis makes up."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

pytest.importorskip("uvicorn", reason="the serve extra is not installed")
schemathesis = pytest.importorskip("schemathesis", reason="schemathesis is not installed")

from hypothesis import HealthCheck, Phase, settings

from serving import running
from simplax.pretrained.model import bundled

pytestmark = [
    pytest.mark.skipif("sudoku" not in bundled(), reason="no bundled Sudoku model"),
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]
EXAMPLES = 25


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with running("--time-limit", "2") as server:
        yield server.url


@pytest.fixture
def document(url: str) -> object:
    return schemathesis.openapi.from_url(f"{url}/v1/openapi.json")


schema = schemathesis.pytest.from_fixture("document")


@schema.parametrize()
@settings(
    max_examples=EXAMPLES,
    deadline=None,
    derandomize=True,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)
def test_no_request_is_answered_otherwise_than_documented(case: object) -> None:
    """No 500, no status, header or body that the document does not name, whatever is sent."""
    case.call_and_validate(timeout=60)  # type: ignore[attr-defined]
