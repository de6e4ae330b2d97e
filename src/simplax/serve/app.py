"""The application: routes, and the one form that every refusal has."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Annotated, Any

from fastapi import FastAPI, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, PlainTextResponse, StreamingResponse
from starlette.exceptions import HTTPException

from simplax.errors import UserError
from simplax.serve import molecules, sudoku, text
from simplax.serve.engine import Busy, Engine, Stopped
from simplax.serve.guard import Guard
from simplax.serve.limits import MOST_SEED, Limits
from simplax.serve.metrics import Metrics
from simplax.serve.pages import page_routes
from simplax.serve.plans import Plan
from simplax.serve.schemas import (
    Health,
    Models,
    MoleculesAnswer,
    MoleculesRequest,
    Problem,
    Puzzle,
    SudokuAnswer,
    SudokuRequest,
    TextAnswer,
    TextRequest,
)
from simplax.serve.search import Search
from simplax.serve.served import Shelf
from simplax.serve.streams import encoded, events, last

STOPPING = "The server is stopping: try again later."
_STREAM = (
    "Server-sent events: `start`, `queued` while the request waits, a `step` for each step, then `done` with the "
    "answer of the route without `/stream`, or `error` with `status` and `error`."
)
_REFUSALS: dict[int | str, dict[str, Any]] = {
    status: {"model": Problem, "description": what}
    for status, what in {
        401: "the token is missing or wrong",
        408: "the body did not arrive in time",
        413: "the body is too large",
        422: "something in the request cannot be used",
        429: "too many requests wait; the header Retry-After says when to try again",
        503: "the server is stopping",
        504: "it took too long",
    }.items()
}
_EVENT = {
    "type": "object",
    "required": ["event", "data"],
    "properties": {
        "event": {"enum": ["start", "queued", "step", "done", "error"]},
        "data": {"type": "string", "contentMediaType": "application/json"},
    },
}
_EVENTS: dict[int | str, dict[str, Any]] = {
    200: {"content": {"text/event-stream": {"schema": _EVENT}}, "description": _STREAM}
}


def make_app(
    shelf: Shelf,
    limits: Limits,
    *,
    version: str,
    token: str | None = None,
    loopback_only: bool = True,
) -> tuple[Guard, Engine]:
    """The application around `shelf`, and the engine it runs while it lives."""
    metrics = Metrics()
    engine, search = Engine(limits, metrics), Search(limits)

    @asynccontextmanager
    async def life(app: FastAPI) -> AsyncIterator[None]:
        engine.start()
        if any(one.kind == "sudoku" for one in shelf.served):
            search.warm()
        yield
        search.close()
        await asyncio.to_thread(engine.stop, STOPPING)

    app = FastAPI(
        title="simplax",
        version=version,
        summary="Denoise Sudoku boards, texts and molecules, and watch.",
        docs_url=None,  # its page would be fetched from elsewhere
        redoc_url=None,
        openapi_url="/v1/openapi.json",
        lifespan=life,
    )
    _about(app, shelf, metrics, engine, version)
    _sudoku(app, shelf, engine, search)
    _text(app, shelf, engine)
    _molecules(app, shelf, engine)
    _complaints(app)
    pages = page_routes()
    app.router.routes.extend(pages)
    public = {route.path for route in pages}
    known = {getattr(route, "path", "") for route in app.routes}
    guard = Guard(
        app,
        limits,
        metrics,
        token=token,
        loopback_only=loopback_only,
        open_paths=public | {"/health"},
        known_paths=known,
    )
    return guard, engine


def _about(app: FastAPI, shelf: Shelf, metrics: Metrics, engine: Engine, version: str) -> None:
    @app.get("/health", tags=["about"])
    async def health() -> Health:
        """Whether the server answers."""
        return Health(version=version)

    @app.get("/metrics", tags=["about"], response_class=PlainTextResponse, responses=_some(401))
    async def prometheus() -> PlainTextResponse:
        """Counters for Prometheus."""
        return PlainTextResponse(
            metrics.text(engine.counts()), media_type="text/plain; version=0.0.4; charset=utf-8"
        )

    @app.get("/v1/models", tags=["about"], responses=_some(401))
    async def models() -> Models:
        """The models of this server, and how each is sampled by default."""
        return Models(models=[one.info() for one in shelf.served])


def _sudoku(app: FastAPI, shelf: Shelf, engine: Engine, search: Search) -> None:
    async def planned(asked: SudokuRequest, request: Request) -> Plan:
        served, board = shelf.find("sudoku", asked.model), sudoku.read_board(asked.puzzle)
        solution = await search.run(request, sudoku.known_solution, board)
        return sudoku.plan(served, asked, board, solution)

    _routes(app, engine, "sudoku/solve", "sudoku", SudokuRequest, SudokuAnswer, planned, "Fill in a board.")

    @app.get("/v1/sudoku/puzzle", tags=["sudoku"], responses=_some(401, 422, 429, 503, 504))
    async def puzzle(
        request: Request,
        clues: Annotated[int, Query(ge=sudoku.FEWEST_CLUES, le=sudoku.MOST_CLUES)] = 30,
        seed: Annotated[int, Query(ge=0, le=MOST_SEED)] = 0,
    ) -> Puzzle:
        """A puzzle with one solution and that many clues, or a few more if there is none with so few."""
        return await search.run(request, sudoku.make_puzzle, clues, seed)


def _text(app: FastAPI, shelf: Shelf, engine: Engine) -> None:
    async def planned(asked: TextRequest, request: Request) -> Plan:
        return text.plan(shelf.find("text", asked.model), asked)

    what = "Go on with a text, or fill in its gaps."
    _routes(app, engine, "text/sample", "text", TextRequest, TextAnswer, planned, what)


def _molecules(app: FastAPI, shelf: Shelf, engine: Engine) -> None:
    async def planned(asked: MoleculesRequest, request: Request) -> Plan:
        return molecules.plan(shelf.find("molecules", asked.model), asked)

    what = "Draw molecules."
    _routes(app, engine, "molecules/sample", "molecules", MoleculesRequest, MoleculesAnswer, planned, what)


def _routes(
    app: FastAPI,
    engine: Engine,
    path: str,
    tag: str,
    asks: type[Any],
    answers: type[Any],
    planned: Callable[[Any, Request], Awaitable[Plan]],
    what: str,
) -> None:
    """`/v1/PATH`, which answers when all is done, and `/v1/PATH/stream`, which shows every step."""

    async def whole(asked: Any, request: Request) -> Any:
        arrived = time.monotonic()
        return await last(events(engine, await planned(asked, request), request, arrived))

    async def stream(asked: Any, request: Request) -> StreamingResponse:
        arrived = time.monotonic()
        flow = events(engine, await planned(asked, request), request, arrived)
        first = await anext(flow)  # a full queue is answered 429, not with a stream
        headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
        return StreamingResponse(encoded(first, flow), media_type="text/event-stream", headers=headers)

    for function in (whole, stream):
        function.__annotations__["asked"] = asks
    app.post(
        f"/v1/{path}",
        tags=[tag],
        summary=what,
        response_model=answers,
        responses=_REFUSALS,
        operation_id=tag,
    )(whole)
    app.post(
        f"/v1/{path}/stream",
        tags=[tag],
        summary=f"{what[:-1]}, and watch.",
        response_class=StreamingResponse,
        responses={**_REFUSALS, **_EVENTS},
        operation_id=f"{tag}_stream",
    )(stream)


def _some(*statuses: int) -> dict[int | str, dict[str, Any]]:
    return {status: _REFUSALS[status] for status in statuses}


def _complaints(app: FastAPI) -> None:
    """Every refusal is `{"error": a sentence}`; nothing of the inside is shown."""

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> JSONResponse:
        return _problem(422, _sentence(error))

    @app.exception_handler(UserError)
    async def mistaken(request: Request, error: UserError) -> JSONResponse:
        return _problem(422, str(error))

    @app.exception_handler(Busy)
    async def busy(request: Request, error: Busy) -> JSONResponse:
        message = f"Too many requests are waiting: try again in {error.seconds} s."
        return _problem(429, message, {"retry-after": str(error.seconds)})

    @app.exception_handler(Stopped)
    async def stopped(request: Request, error: Stopped) -> JSONResponse:
        return _problem(error.status, str(error))

    @app.exception_handler(HTTPException)
    async def other(request: Request, error: HTTPException) -> JSONResponse:
        if error.status_code == 400:  # bytes that are no text; other bodies are told apart as 422 already
            return _problem(422, "The body is not JSON.")
        known = {404: "There is nothing at this address.", 405: "This address does not take that method."}
        message = known.get(error.status_code, f"{error.detail}.")
        return _problem(error.status_code, message, dict(error.headers or {}))


def _problem(status: int, error: str, headers: dict[str, str] | None = None) -> JSONResponse:
    return JSONResponse({"error": error}, status, headers)


def _sentence(error: RequestValidationError) -> str:
    """The first complaint of pydantic as a sentence, without what was sent."""
    first = error.errors()[0]
    if first["type"] == "json_invalid":
        return "The body is not JSON."
    places = [str(part) for part in first["loc"] if part not in ("body", "query")]
    field = places[0] if places else "The body"
    words = str(first["msg"]).removeprefix("Value error, ")
    return f"{field}: {words[:1].lower()}{words[1:]}."
