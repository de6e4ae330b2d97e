"""What stands before every route: who may ask, how large and how slow a body may be, what headers go with an answer."""

from __future__ import annotations

import asyncio
import hmac
import json
import logging
from collections.abc import Collection
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from simplax.serve.engine import FAILED
from simplax.serve.limits import Limits
from simplax.serve.metrics import Metrics

logger = logging.getLogger(__name__)
_LOOPBACK = {"localhost", "127.0.0.1", "[::1]"}
_HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}
_ALWAYS = [(name.encode(), value.encode()) for name, value in _HEADERS.items()]


class Refused(Exception):
    """An answer instead of a route's."""

    def __init__(self, status: int, error: str, headers: dict[str, str] | None = None) -> None:
        super().__init__(error)
        self.status, self.error, self.headers = status, error, headers or {}


class Guard:
    """The outermost layer of the application.

    With a `token` every path but `open_paths` needs it. `loopback_only` refuses requests that reached this machine
    under another name than its own: a page elsewhere could otherwise point its own name here and use the server.
    """

    def __init__(
        self,
        app: ASGIApp,
        limits: Limits,
        metrics: Metrics,
        *,
        token: str | None,
        loopback_only: bool,
        open_paths: Collection[str],
        known_paths: Collection[str],
    ) -> None:
        self._app, self._limits, self._metrics = app, limits, metrics
        self._token, self._loopback_only = token, loopback_only
        self._open, self._known = set(open_paths), set(known_paths)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        status = 0

        async def answer(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message.get("headers", ()), *_ALWAYS]
            await send(message)

        try:
            self._admit(scope)
            body = await self._body(scope, receive)
            if body is not None:
                await self._app(scope, _replayed(body, receive), answer)
        except Refused as refusal:
            await _say(answer, refusal)
        except Exception:
            logger.exception("a request failed")
            if not status:
                await _say(answer, Refused(500, FAILED))
        finally:
            route = scope["path"] if scope["path"] in self._known else "other"
            self._metrics.request(route, status or 499)

    def _admit(self, scope: Scope) -> None:
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        host = headers.get("host", "").rsplit(":", 1)[0] if "]" not in headers.get("host", "") else "[::1]"
        if self._loopback_only and host not in _LOOPBACK:
            raise Refused(421, "This server answers on this machine only: call it by 127.0.0.1 or localhost.")
        if self._token is None or scope["path"] in self._open:
            return
        given = headers.get("authorization", "")
        if not hmac.compare_digest(given.encode("latin-1"), f"Bearer {self._token}".encode()):
            message = "This server needs its token: send the header Authorization: Bearer TOKEN."
            raise Refused(401, message, {"www-authenticate": "Bearer"})

    async def _body(self, scope: Scope, receive: Receive) -> bytes | None:
        """The whole body, which is small; None if the client left."""
        most, parts, size = self._limits.body, [], 0
        try:
            async with asyncio.timeout(self._limits.upload_seconds):
                while True:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        return None
                    parts.append(message.get("body", b""))
                    size += len(parts[-1])
                    if size > most:
                        raise Refused(413, f"The body is larger than {most:,} bytes: send less.")
                    if not message.get("more_body", False):
                        return b"".join(parts)
        except TimeoutError:
            raise Refused(408, "The body did not arrive in time: send it at once.") from None


def _replayed(body: bytes, receive: Receive) -> Receive:
    """What the application reads: the body that has arrived, then what the connection says."""
    first: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def read() -> Message:
        return first.pop() if first else await receive()

    return read


async def _say(send: Send, refusal: Refused) -> None:
    body = json.dumps({"error": refusal.error}).encode()
    headers: dict[str, Any] = {"content-type": "application/json", "content-length": str(len(body))}
    lines = [(n.encode(), v.encode("latin-1")) for n, v in {**headers, **refusal.headers}.items()]
    await send({"type": "http.response.start", "status": refusal.status, "headers": lines})
    await send({"type": "http.response.body", "body": body})
