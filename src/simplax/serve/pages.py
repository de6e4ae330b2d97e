"""The files of the page, read once from the package."""

from __future__ import annotations

from importlib.resources import files

from starlette.responses import Response
from starlette.routing import Route

_TYPES = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}


def page_routes() -> list[Route]:
    """A route for each file of the page, and `/` for its index."""
    routes = []
    # what pages on disk have as well
    shared = [files("simplax.viz").joinpath(name) for name in ("transport.js", "rules.js")]
    for file in (*files("simplax.serve").joinpath("page").iterdir(), *shared):
        kind = _TYPES.get(file.name.rsplit(".", 1)[-1])
        if kind is not None:
            path = "/" if file.name == "index.html" else f"/{file.name}"
            routes.append(_route(path, file.read_bytes(), kind))
    return routes


def _route(path: str, content: bytes, kind: str) -> Route:
    async def serve(request: object) -> Response:
        return Response(content, media_type=kind, headers={"cache-control": "no-cache"})

    return Route(path, serve, methods=["GET"])
