"""From the engine's thread to a client: the events of a job, all of them or the last, until the client leaves."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from typing import Any

from fastapi import Request

from simplax.serve.engine import Engine, Job, Stopped
from simplax.serve.plans import Plan

Event = tuple[str, dict[str, Any]]
_LOOK_SECONDS = 0.5  # how often a silent connection is asked whether it is still there
_GONE = "the client left"
_UNREAD, _FEW = 1024, 64  # steps that may wait for a reader, of one sequence; at the least, of many
_SLOW = "the client does not read its steps as fast as they are made"


async def events(engine: Engine, plan: Plan, request: Request, arrived: float) -> AsyncIterator[Event]:
    """The events of the planned job: `queued` while it waits, `step`, and `done` or `error`; the job ends with its
    reader, or with one that leaves too many steps unread. `Busy` or `Stopped` is raised before the
    first event if the engine takes no more. `arrived` is when the request did, by the monotonic clock."""
    loop = asyncio.get_running_loop()
    inbox: asyncio.Queue[Event] = asyncio.Queue()
    delivered = read = 0  # each is changed by one thread alone
    most = max(_FEW, _UNREAD // plan.sequences)

    def deliver(name: str, data: dict[str, Any]) -> None:
        nonlocal delivered
        delivered += 1
        if name == "step" and delivered - read > most:
            job.stop(499, _SLOW)
        elif not loop.is_closed():
            loop.call_soon_threadsafe(inbox.put_nowait, (name, data))

    job = Job(plan.model, plan.sequences, plan.work, deliver, arrived)
    engine.submit(job)
    name, looked = "start", time.monotonic()
    try:
        yield name, plan.start
        while name not in ("done", "error"):
            if time.monotonic() - looked > _LOOK_SECONDS:
                looked = time.monotonic()
                if await request.is_disconnected():
                    return
            try:
                name, data = await asyncio.wait_for(inbox.get(), _LOOK_SECONDS)
                read += 1
            except TimeoutError:
                name, data = "queued", {"ahead": engine.ahead(job)}
            if name == "done":
                data = {**data, "seconds": round(time.monotonic() - arrived, 3)}
            yield name, data
    finally:
        job.stop(499, _GONE)  # nothing happens to a job that has ended


async def last(stream: AsyncIterator[Event]) -> dict[str, Any]:
    """The answer of a job, or `Stopped` if it failed."""
    async for name, data in stream:
        if name == "done":
            return data
        if name == "error":
            raise Stopped(data["status"], data["error"])
    raise Stopped(499, _GONE)


async def encoded(first: Event, rest: AsyncIterator[Event]) -> AsyncIterator[bytes]:
    """Server-sent events: a name, a line of JSON, an empty line."""
    yield _encode(*first)
    async for name, data in rest:
        yield _encode(name, data)


def _encode(name: str, data: dict[str, Any]) -> bytes:
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return f"event: {name}\ndata: {text}\n\n".encode()
