"""The server process: a socket, the application on it, and an end that lets running requests finish."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import signal
import socket
from collections.abc import Callable
from contextlib import suppress

import uvicorn

from simplax.errors import UserError
from simplax.serve.app import STOPPING, make_app
from simplax.serve.limits import Limits
from simplax.serve.served import Shelf

_POLL_SECONDS = 0.1


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens there; port 0 takes a free one."""
    if not 0 <= port < 65536:
        raise UserError(f"--port must lie between 0 and 65535, got {port}.")
    try:
        family, kind, number, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except OSError:
        raise UserError(
            f"the host {host!r} is not known here: say 127.0.0.1, or an address of this machine."
        ) from None
    bound = socket.socket(family, kind, number)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind(address)
    except OSError as error:
        bound.close()
        raise UserError(
            f"port {port} of {host} cannot be used ({error.strerror}): choose another --port."
        ) from None
    return bound


def is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def url_of(bound: socket.socket, host: str) -> str:
    port = bound.getsockname()[1]
    return f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"


def serve(
    shelf: Shelf,
    bound: socket.socket,
    limits: Limits,
    *,
    version: str,
    token: str | None,
    loopback_only: bool,
    ready: Callable[[], None],
) -> None:
    """Answer until SIGINT or SIGTERM; `ready` is called once requests are taken."""
    logging.basicConfig(format="%(asctime)s %(message)s", level=logging.WARNING)
    app, engine = make_app(shelf, limits, version=version, token=token, loopback_only=loopback_only)
    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        server_header=False,
        date_header=False,
        timeout_keep_alive=15,
        timeout_graceful_shutdown=round(limits.grace_seconds) + 2,
        h11_max_incomplete_event_size=32_768,
    )
    server = uvicorn.Server(config)

    async def live() -> None:
        running = asyncio.create_task(server.serve(sockets=[bound]))
        while not server.started and not running.done():
            await asyncio.sleep(_POLL_SECONDS)
        if server.started:
            ready()
        while not server.should_exit and not running.done():
            await asyncio.sleep(_POLL_SECONDS)
        engine.drain(STOPPING)
        try:
            await asyncio.wait_for(asyncio.shield(running), limits.grace_seconds)
        except TimeoutError:
            await asyncio.to_thread(engine.stop, STOPPING)
            await running

    # once it has ended in order, uvicorn raises the signal again for whoever was there before it
    signal.signal(signal.SIGTERM, lambda *_: None)
    with suppress(KeyboardInterrupt):
        asyncio.run(live())
