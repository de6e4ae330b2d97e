"""`simplax serve`."""

from __future__ import annotations

import json as json_module
import os
from importlib.metadata import version
from typing import Annotated

import tyro

from simplax.cli.parsing import Device, Json, run
from simplax.errors import UserError

TOKEN = "SIMPLAX_TOKEN"


def main(arguments: list[str]) -> None:
    run(serve, arguments, "simplax serve")


def serve(
    *,
    model: Annotated[
        tuple[str, ...],
        tyro.conf.arg(
            metavar="MODEL", help="bundled names, runs or exported models; all bundled ones if not given"
        ),
    ] = (),
    host: Annotated[
        str, tyro.conf.arg(help="address to listen on; this machine alone unless you change it")
    ] = "127.0.0.1",
    port: Annotated[int, tyro.conf.arg(help="port to listen on; 0 takes a free one")] = 8000,
    token: Annotated[
        str | None, tyro.conf.arg(help=f"requests need this bearer token; ${TOKEN} if not given")
    ] = None,
    batch: Annotated[int, tyro.conf.arg(help="sequences that are denoised at the same time")] = 32,
    queue: Annotated[int, tyro.conf.arg(help="requests that may wait; more are answered 429")] = 64,
    time_limit: Annotated[float, tyro.conf.arg(help="seconds a request may take, waiting included")] = 120.0,
    grace: Annotated[
        float, tyro.conf.arg(help="seconds that running requests get when the server stops")
    ] = 10.0,
    open: Annotated[bool, tyro.conf.arg(help="open the page in a browser")] = False,
    device: Device = "auto",
    json: Json = False,
) -> None:
    """Serve models over HTTP, with a page to watch them denoise. It ends with Ctrl-C."""
    try:
        from simplax.serve.run import is_loopback, listen, url_of
        from simplax.serve.run import serve as run_server
    except ImportError as error:
        raise UserError(
            f'serving needs the package {error.name}: run `pip install "simplax[serve]"`.'
        ) from error
    from simplax.cli.output import say
    from simplax.serve.limits import Limits
    from simplax.serve.served import load

    if batch < 1 or queue < 1:
        raise UserError(f"--batch and --queue must be at least 1, got {batch} and {queue}.")
    if not time_limit > 0 or not grace >= 0:
        raise UserError(
            f"--time-limit must be positive and --grace not negative, got {time_limit} and {grace}."
        )
    secret = token or os.environ.get(TOKEN) or None
    if secret is not None and not secret.isascii():
        raise UserError("the token may hold ASCII characters only.")
    bound = listen(host, port)
    shelf = load(model, device)
    url = url_of(bound, host)
    if not is_loopback(host) and secret is None:
        say("simplax: everybody who can reach this address can use it; --token asks for a password.")

    def ready() -> None:
        names = [one.name for one in shelf.served]
        if json:
            print(json_module.dumps({"url": url, "models": names, "token": secret is not None}), flush=True)
        else:
            print(f"simplax serves {', '.join(names)} at {url} (Ctrl-C ends it)", flush=True)
        if open:
            import webbrowser

            webbrowser.open(url)

    limits = Limits(batch=batch, queue=queue, seconds=time_limit, grace_seconds=grace)
    run_server(
        shelf,
        bound,
        limits,
        version=version("simplax"),
        token=secret,
        loopback_only=is_loopback(host) and secret is None,
        ready=ready,
    )
