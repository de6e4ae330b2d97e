"""The API against its own OpenAPI document, with requests that schemathesis makes up."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import GenerationMode, checks

from serving import running
from simplax.pretrained.model import bundled

pytestmark = [
    pytest.mark.skipif("sudoku" not in bundled(), reason="no bundled Sudoku model"),
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]
# of each operation, and the seconds that all operations have together; a slow machine sends fewer, one at the least
EXAMPLES, SECONDS = 30, 12.0
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
        assert httpx.get(f"{server.url}/v1/sudoku/puzzle", timeout=60).status_code in (200, 504)
        yield server.url


def operations(url: str) -> list[Any]:
    return [
        found.ok() for found in schemathesis.openapi.from_url(f"{url}/v1/openapi.json").get_all_operations()
    ]


class Enough(Exception):
    """The time is over."""


def sent(operation: Any, mode: GenerationMode, seconds: float, check: Callable[[Any, Any], None]) -> int:
    """How many requests of that kind were made up and checked."""
    end, number, failure = time.monotonic() + seconds, 0, None

    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        derandomize=True,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy(generation_mode=mode))
    def holds(case: Any) -> None:
        nonlocal number, failure
        if failure is None and number and time.monotonic() > end:
            raise Enough  # making requests up takes longer than sending them
        number += 1
        try:
            response = case.call(timeout=60)
            assert response.status_code != 500
            check(case, response)
        except BaseException as error:
            failure = error
            raise

    with suppress(Enough):
        holds()
    if failure is not None:  # also when the time was over before it came a second time
        raise failure
    return number


def test_no_request_is_answered_otherwise_than_documented(url: str) -> None:
    """No 500, no status, header or body that the document does not name, whatever is sent."""
    found = operations(url)
    assert len(found) == 10
    for operation in found:
        share = SECONDS / len(found)
        assert sent(
            operation, GenerationMode.POSITIVE, share, lambda c, r: c.validate_response(r, checks=CHECKS)
        )


def test_what_the_document_forbids_is_refused(url: str) -> None:
    """Values of other types, out of range, unknown or missing, other bodies: each is refused in one sentence."""

    def refused(case: Any, response: Any) -> None:
        case.validate_response(response, checks=CHECKS)
        if case.method == "GET" and response.status_code == 200:
            return  # a parameter that nobody asked for is passed over in an address
        assert response.status_code == 422, (response.status_code, case.as_curl_command())
        error = response.json()["error"]
        assert isinstance(error, str) and "\n" not in error and "Traceback" not in error

    taking = [one for one in operations(url) if one.body or one.query]
    assert len(taking) == 7
    for operation in taking:
        assert sent(operation, GenerationMode.NEGATIVE, SECONDS / len(taking), refused)
