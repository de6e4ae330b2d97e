"""The server as a process: answers, streams, bounds, refusals, and an end in order."""

from __future__ import annotations

import json
import re
import signal
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from serving import JSON, PUZZLE, SOLUTION, Server, running
from simplax.data.sudoku import count_solutions, valid_boards
from simplax.pretrained.model import bundled

pytestmark = pytest.mark.skipif("sudoku" not in bundled(), reason="no bundled Sudoku model")
SOLVE = "/v1/sudoku/solve"
SLOW = {"puzzle": PUZZLE, "steps": 512}


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with running() as started:
        yield started


@pytest.fixture(scope="module")
def client(server: Server) -> Iterator[Any]:
    with httpx.Client(base_url=server.url, timeout=120) as made:
        yield made


def events(response: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    name = ""
    for line in response.iter_lines():
        if line.startswith("event: "):
            name = line.removeprefix("event: ")
        elif line.startswith("data: "):
            yield name, json.loads(line.removeprefix("data: "))


def gauge(client: Any, name: str) -> float:
    (value,) = re.findall(rf"^{name} ([\d.]+)$", client.get("/metrics").text, re.M)
    return float(value)


def until(condition: Any, seconds: float = 20) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.1)
    return False


def test_models_and_health(client: Any) -> None:
    assert client.get("/health").json()["status"] == "ok"
    (sudoku,) = (one for one in client.get("/v1/models").json()["models"] if one["kind"] == "sudoku")
    assert (sudoku["size"], sudoku["length"], sudoku["categories"]) == (9, 81, 9)
    assert "/" not in json.dumps(sudoku)


def test_a_puzzle_is_made_and_solved(client: Any) -> None:
    made = client.get("/v1/sudoku/puzzle", params={"clues": 34, "seed": 5}).json()
    board = np.array([int(digit) for digit in made["puzzle"]])
    assert made["clues"] == np.count_nonzero(board) >= 34 and count_solutions(board) == 1
    assert client.get("/v1/sudoku/puzzle", params={"clues": 34, "seed": 5}).json() == made
    answer = client.post(SOLVE, json={"puzzle": PUZZLE, "attempts": 2}).json()
    boards = np.array([[int(digit) for digit in board] for board in answer["boards"]])
    assert answer["valid"] == valid_boards(boards).tolist() and answer["share"] == np.mean(answer["valid"])
    assert answer["solution"] == SOLUTION and SOLUTION in answer["boards"]
    (own,) = (one for one in client.get("/v1/models").json()["models"] if one["kind"] == "sudoku")
    assert answer["steps"] == answer["calls"] == own["defaults"]["steps"]


def test_a_stream_goes_from_noise_to_the_answer(client: Any) -> None:
    asked = {"puzzle": PUZZLE, "steps": 12, "seed": 4, "belief": True, "sampler": "simplax", "eta": 100}
    with client.stream("POST", f"{SOLVE}/stream", json=asked) as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        found = [one for one in events(response) if one[0] != "queued"]
    assert [name for name, _ in found] == ["start", *["step"] * 13, "done"]
    steps = [data for name, data in found if name == "step"]
    given = [i for i, digit in enumerate(PUZZLE) if digit != "0"]
    for step in steps:
        assert all(step["boards"][0][i] == PUZZLE[i] for i in given)
    times = [step["time"] for step in steps]
    assert times == sorted(times, reverse=True) and (times[0], times[-1]) == (1, 0)
    assert all(
        abs(sum(row) - 1000) <= 9 for step in steps[1:] for (board,) in [step["belief"]] for row in board
    )
    assert steps[-1]["boards"] == found[-1][1]["boards"]
    assert client.post(SOLVE, json=asked).json()["boards"] == found[-1][1]["boards"]  # the seed decides


def test_every_attempt_has_its_belief_and_the_training_eta_is_told(client: Any) -> None:
    asked = {"puzzle": PUZZLE, "steps": 6, "attempts": 3, "belief": True}
    with client.stream("POST", f"{SOLVE}/stream", json=asked) as response:
        steps = [data for name, data in events(response) if name == "step"]
    assert all(np.shape(step["belief"]) == (3, 81, 9) for step in steps[1:])
    first = np.array(steps[1]["belief"])
    assert (first[0] != first[1]).any()  # each begins from its own noise
    # the model's own sampler has no concentration: that of training is told, apart
    assert all(step["eta"] is None and step["trained_eta"] == 0.01 for step in steps)
    with client.stream("POST", f"{SOLVE}/stream", json={**asked, "sampler": "simplax", "eta": 1}) as response:
        steps = [data for name, data in events(response) if name == "step"]
    assert all(step["eta"] == 1 and step["trained_eta"] is None for step in steps)


def test_puzzles_with_the_fewest_clues(client: Any) -> None:
    for clues in (17, 20):
        made = client.get("/v1/sudoku/puzzle", params={"clues": clues, "seed": 3}).json()
        board = np.array([int(digit) for digit in made["puzzle"]])
        assert made["clues"] == np.count_nonzero(board) == clues and count_solutions(board) == 1
    document = client.get("/v1/openapi.json").json()["paths"]["/v1/sudoku/puzzle"]["get"]["parameters"]
    (least,) = (one["schema"]["minimum"] for one in document if one["name"] == "clues")
    assert f"FEWEST = {least}," in client.get("/sudoku.js").text  # the slider of the page
    refused = client.get("/v1/sudoku/puzzle", params={"clues": 16})
    assert refused.status_code == 422 and refused.json()["error"].startswith("clues: ")


def test_text_goes_on_and_gaps_are_filled(client: Any) -> None:
    asked = {"text": "We must <gap:5> the people.", "steps": 4, "num": 2, "belief": True}
    with client.stream("POST", "/v1/text/sample/stream", json=asked) as response:
        found = [one for one in events(response) if one[0] != "queued"]
    answer = found[-1][1]
    assert all(text.startswith("We must ") and text.endswith(" the people.") for text in answer["texts"])
    assert all(text == f"We must{gap[0]} the people." for text, gap in zip(answer["texts"], answer["gaps"]))
    words: list[list[str]] = [[""] * found[0][1]["length"] for _ in range(2)]
    for name, data in found:
        for row, cells in zip(words, data["changed"] if name == "step" else []):
            for place, word in cells:
                row[place] = word
    assert ["".join(row) for row in words] == answer["texts"]
    prompt = client.post("/v1/text/sample", json={"text": "We must", "steps": 2}).json()
    assert prompt["texts"][0].startswith("We must") and prompt["gaps"] == [[]]


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({}, "puzzle: field required."),
        ({"puzzle": "12"}, "Line 1 has 2 cells"),
        ({"puzzle": "1" * 81}, "contradictory"),
        ({"puzzle": "x" + PUZZLE[1:]}, "use the digits 1 to 9"),
        ({"puzzle": PUZZLE[:4] + "1" + PUZZLE[5:]}, "no solution"),
        ({"puzzle": "0" * 16}, "give 81 cells"),
        ({"puzzle": PUZZLE, "steps": 0}, "steps: "),
        ({"puzzle": PUZZLE, "steps": 100_000}, "steps: "),
        ({"puzzle": PUZZLE, "attempts": 17}, "attempts: "),
        ({"puzzle": PUZZLE, "eta": "a lot"}, "is not a concentration"),
        ({"puzzle": PUZZLE, "eta": -1}, "must not be negative"),
        ({"puzzle": PUZZLE, "sampler": "simplex"}, "did you mean simplax?"),
        ({"puzzle": PUZZLE, "eta": 1e300}, "eta is at most"),
        ({"puzzle": PUZZLE, "temperature": 0}, "temperature: "),
        ({"puzzle": PUZZLE, "model": "sudokuu"}, "did you mean sudoku?"),
        ({"puzzle": PUZZLE, "model": "../../etc"}, "there is no sudoku model"),
        ({"puzzle": PUZZLE, "speed": 3}, "speed: "),
    ],
)
def test_bad_input_is_one_sentence(client: Any, body: dict[str, Any], words: str) -> None:
    for path in (SOLVE, f"{SOLVE}/stream"):
        answer = client.post(path, json=body)
        assert answer.status_code == 422 and words in answer.json()["error"], answer.text
        assert "\n" not in answer.json()["error"] and answer.json().keys() == {"error"}


def test_other_refusals(client: Any) -> None:
    refused = {
        422: client.post(SOLVE, content=b"\xff", headers=JSON),
        413: client.post(SOLVE, content=b"x" * 70_000, headers=JSON),
        404: client.get("/../../etc/passwd"),
        405: client.get(SOLVE),
        421: client.get("/health", headers={"host": "elsewhere.example:80"}),
    }
    assert {status: answer.status_code for status, answer in refused.items()} == {s: s for s in refused}
    assert all(answer.json().keys() == {"error"} for answer in refused.values())
    assert "/" not in refused[404].json()["error"]
    assert client.post("/v1/molecules/sample", json={}).status_code in (200, 422)


def test_headers_keep_the_page_to_itself(client: Any) -> None:
    page = client.get("/")
    policy = page.headers["content-security-policy"]
    assert "default-src 'none'" in policy and "unsafe" not in policy and "http" not in policy
    assert not re.search(r"\son\w+=|<script>|style=|https?://", page.text)
    names = re.findall(r'(?:src|href)="([^"]+)"', page.text)
    assert names and all(client.get(f"/{name}").status_code == 200 for name in names)
    for script in [name for name in names if name.endswith(".js")]:
        for module in re.findall(r'from "\./([^"]+)"', client.get(f"/{script}").text):
            assert client.get(f"/{module}").headers["content-type"].startswith("text/javascript")


def test_work_ends_when_the_client_leaves(client: Any, server: Server) -> None:
    with client.stream("POST", f"{SOLVE}/stream", json=SLOW) as response:
        found = events(response)
        while next(found)[0] != "step":
            pass
        assert gauge(client, "simplax_requests_running") >= 1
    assert until(lambda: gauge(client, "simplax_requests_running") == 0)
    with pytest.raises(httpx.ReadTimeout), httpx.Client(base_url=server.url, timeout=1.5) as short:
        short.post(SOLVE, json=SLOW)
    assert until(lambda: gauge(client, "simplax_requests_running") == 0)


def test_requests_share_network_calls(client: Any) -> None:
    def count(name: str) -> float:
        return gauge(client, f"simplax_network_batch_{name}")

    calls, rows = count("count"), count("sum")
    with ThreadPoolExecutor(8) as pool:
        asked = [
            {"puzzle": PUZZLE, "steps": 30 + 5 * (i % 2), "seed": i, "sampler": "simplax", "eta": i}
            for i in range(8)
        ]
        statuses = list(pool.map(lambda body: client.post(SOLVE, json=body).status_code, asked))
    assert statuses == [200] * 8
    assert count("sum") - rows == 4 * 30 + 4 * 35
    assert count("count") - calls < (4 * 30 + 4 * 35) / 2


@pytest.mark.slow
def test_too_many_requests_are_told_when_to_come_back() -> None:
    with running("--model", "sudoku", "--batch", "1", "--queue", "1", "--token", "secret") as started:
        headers = {"authorization": "Bearer secret"}
        with httpx.Client(base_url=started.url, timeout=120, headers=headers) as client:
            with client.stream("POST", f"{SOLVE}/stream", json=SLOW) as first:
                running_one = events(first)
                while next(running_one)[0] != "step":
                    pass
                with client.stream("POST", f"{SOLVE}/stream", json=SLOW) as second:
                    waiting = events(second)
                    assert next(waiting)[0] == "start" and next(waiting) == ("queued", {"ahead": 0})
                    third = client.post(SOLVE, json=SLOW)
                    assert third.status_code == 429 and int(third.headers["retry-after"]) >= 1
                    assert client.post(f"{SOLVE}/stream", json=SLOW).status_code == 429
            _needs_its_token(client)
            _slow_bodies_are_refused(started)
            _ends_in_order(client, started)


def _needs_its_token(client: Any) -> None:
    for words in ({}, {"authorization": "Bearer wrong"}, {"authorization": "secret"}):
        plain = httpx.Client(base_url=client.base_url, headers=words)
        for path in ("/v1/models", "/metrics", "/v1/openapi.json"):
            assert plain.get(path).status_code == 401
        answer = plain.post(SOLVE, json={"puzzle": PUZZLE})
        assert answer.status_code == 401 and answer.headers["www-authenticate"] == "Bearer"
        assert plain.get("/health").status_code == plain.get("/").status_code == 200
    assert client.get("/v1/models").status_code == 200


def _slow_bodies_are_refused(server: Server) -> None:
    """A client that promises a body and sends none is let go."""
    host, port = server.url.removeprefix("http://").split(":")
    head = (
        f"POST {SOLVE} HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer secret\r\nContent-Length: 50\r\n\r\n"
    )
    with socket.create_connection((host, int(port)), timeout=30) as connection:
        connection.sendall(head.encode())
        assert b" 408 " in connection.recv(1000).split(b"\r\n")[0]


def _ends_in_order(client: Any, server: Server) -> None:
    """What runs when the server is told to stop is finished, nothing new is taken, and the status is 0."""
    asked = {"puzzle": PUZZLE, "steps": 60}
    with client.stream("POST", f"{SOLVE}/stream", json=asked) as response:
        found = []
        for name, _ in events(response):
            found.append(name)
            if len(found) == 4:
                server.process.send_signal(signal.SIGTERM)
    assert found[-1] == "done" and found.count("step") == 61
    assert server.process.wait(30) == 0


@pytest.mark.slow
def test_a_stop_does_not_wait_for_ever(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with running("--model", "sudoku", "--grace", "0.5", log=log) as started:
        with httpx.stream("POST", f"{started.url}{SOLVE}/stream", json=SLOW, timeout=120) as response:
            found = []
            for name, data in events(response):
                if name == "step" and found[-1][0] != "step":
                    started.process.send_signal(signal.SIGINT)
                found.append((name, data))
        assert found[-1] == ("error", {"status": 503, "error": "The server is stopping: try again later."})
        assert started.process.wait(30) == 0
    assert "Traceback" not in log.read_text()


@pytest.mark.slow
def test_a_killed_server_breaks_the_stream_and_nothing_else() -> None:
    with running("--model", "sudoku") as started:
        with (
            pytest.raises(httpx.TransportError),
            httpx.stream("POST", f"{started.url}{SOLVE}/stream", json=SLOW, timeout=120) as response,
        ):
            for name, _ in events(response):
                if name == "step":
                    started.kill()
        port = started.url.rsplit(":", 1)[1]
        with running("--model", "sudoku", "--port", port) as again:  # the port is free at once
            assert httpx.get(f"{again.url}/health").status_code == 200
