"""A stand-in for the hub: the part of its HTTP interface that making, filling and fetching a repository needs."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote, urlsplit

Files = dict[str, bytes]


class Hub(ThreadingHTTPServer):
    """Repositories in memory: every commit is a whole set of files; `main` is the newest."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.repositories: dict[str, dict[str, Files]] = {}
        self.requests: list[str] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def commit(self, name: str, changes: Files) -> str:
        commits = self.repositories.setdefault(name, {})
        before = commits[next(reversed(commits))] if commits else {}
        files = {**before, **changes}
        number = hashlib.sha1(f"{name}{len(commits)}{sorted(files)}".encode()).hexdigest()
        commits[number] = files
        return number

    def at(self, name: str, revision: str) -> tuple[str, Files] | None:
        commits = self.repositories.get(name)
        if not commits:
            return None
        number = next(reversed(commits)) if revision == "main" else revision
        return (number, commits[number]) if number in commits else None


class _Handler(BaseHTTPRequestHandler):
    server: Hub

    def log_message(self, *_: Any) -> None:
        pass

    def do_POST(self) -> None:
        path = unquote(urlsplit(self.path).path)
        self.server.requests.append(f"POST {path}")
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if path == "/api/repos/create":
            asked = json.loads(body)
            name = "/".join(part for part in (asked.get("organization"), asked["name"]) if part)
            fresh = name not in self.server.repositories
            self.server.repositories.setdefault(name, {})
            if not fresh:
                return self._json({"error": "exists", "url": f"{self.server.url}/{name}"}, 409)
            self.server.commit(name, {".gitattributes": b""})
            return self._json({"url": f"{self.server.url}/{name}", "id": name})
        if found := re.fullmatch(r"/api/models/([^/]+/[^/]+)/preupload/([^/]+)", path):
            files = [
                {"path": each["path"], "uploadMode": "regular", "shouldIgnore": False, "oid": None}
                for each in json.loads(body)["files"]
            ]
            return self._json({"files": files})
        if found := re.fullmatch(r"/api/models/([^/]+/[^/]+)/commit/([^/]+)", path):
            lines = [json.loads(line) for line in body.splitlines() if line.strip()]
            values = [line["value"] for line in lines if line["key"] == "file"]
            changes = {value["path"]: base64.b64decode(value["content"]) for value in values}
            number = self.server.commit(found[1], changes)
            url = f"{self.server.url}/{found[1]}/commit/{number}"
            return self._json({"success": True, "commitOid": number, "commitUrl": url, "hookOutput": ""})
        return self._json({"valid": True, "error": "", "errors": [], "warnings": []})

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        path = unquote(urlsplit(self.path).path)
        self.server.requests.append(f"{self.command} {path}")
        if found := re.fullmatch(r"/api/models/([^/]+/[^/]+?)(?:/revision/([^/]+))?", path):
            return self._info(found[1], found[2] or "main")
        if found := re.fullmatch(r"/api/models/([^/]+/[^/]+)/tree/([^/]+)", path):
            at = self.server.at(found[1], found[2])
            files = {} if at is None else at[1]
            rows = [
                {"type": "file", "path": name, "size": len(data), "oid": hashlib.sha1(data).hexdigest()}
                for name, data in files.items()
            ]
            return self._json(rows)
        if found := re.fullmatch(r"/([^/]+/[^/]+)/resolve/([^/]+)/(.+)", path):
            return self._file(found[1], found[2], found[3])
        return self._missing("RepoNotFound")

    def _info(self, name: str, revision: str) -> None:
        if name not in self.server.repositories:
            return self._missing("RepoNotFound")
        at = self.server.at(name, revision)
        if at is None:
            return self._missing("RevisionNotFound")
        siblings = [{"rfilename": file} for file in at[1]]
        return self._json({"id": name, "sha": at[0], "siblings": siblings, "tags": [], "private": False})

    def _file(self, name: str, revision: str, file: str) -> None:
        at = self.server.at(name, revision)
        if at is None or file not in at[1]:
            return self._missing("EntryNotFound")
        data = at[1][file]
        headers = {"ETag": f'"{hashlib.sha1(data).hexdigest()}"', "X-Repo-Commit": at[0]}
        return self._send(data, 200, "application/octet-stream", headers)

    def _missing(self, code: str) -> None:
        self._json({"error": code}, 404, {"X-Error-Code": code})

    def _json(self, value: Any, status: int = 200, headers: dict[str, str] | None = None) -> None:
        self._send(json.dumps(value).encode(), status, "application/json", headers or {})

    def _send(self, data: bytes, status: int, kind: str, headers: dict[str, str]) -> None:
        self.send_response(status)
        for key, value in {"Content-Type": kind, "Content-Length": str(len(data)), **headers}.items():
            self.send_header(key, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)


@contextmanager
def serving() -> Iterator[Hub]:
    server = Hub()
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
