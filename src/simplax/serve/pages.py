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
    """A route for each file below `page`, and `/` for its index."""
    routes = []
    for file in sorted(files("simplax.serve").joinpath("page").iterdir(), key=lambda file: file.name):
        kind = _TYPES.get(file.name.rsplit(".", 1)[-1])
        if kind is not None:
            path = "/" if file.name == "index.html" else f"/{file.name}"
            routes.append(_route(path, file.read_bytes(), kind))
    return routes


def _route(path: str, content: bytes, kind: str) -> Route:
    async def serve(request: object) -> Response:
        return Response(content, media_type=kind, headers={"cache-control": "no-cache"})

    return Route(path, serve, methods=["GET"])
