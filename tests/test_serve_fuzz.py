"""The API against its own OpenAPI document, with requests that schemathesis makes up."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import checks

from serving import running
from simplax.pretrained.model import bundled

pytestmark = [
    pytest.mark.skipif("sudoku" not in bundled(), reason="no bundled Sudoku model"),
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]
EXAMPLES = 8
# what the document says of answers; a text in the shape of a puzzle need not be one, and 504 is an answer
CHECKS = [
    getattr(checks, name)
    for name in (
        "status_code_conformance",
        "content_type_conformance",
        "response_schema_conformance",
        "response_headers_conformance",
    )
]


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with running("--time-limit", "1") as server:
        yield server.url


def test_no_request_is_answered_otherwise_than_documented(url: str) -> None:
    """No 500, no status, header or body that the document does not name, whatever is sent."""
    operations = [
        found.ok() for found in schemathesis.openapi.from_url(f"{url}/v1/openapi.json").get_all_operations()
    ]
    assert len(operations) == 10
    for operation in operations:

        @settings(
            max_examples=EXAMPLES,
            deadline=None,
            derandomize=True,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(case=operation.as_strategy())
        def holds(case: Any) -> None:
            response = case.call(timeout=60)
            case.validate_response(response, checks=CHECKS)
            assert response.status_code != 500

        holds()
