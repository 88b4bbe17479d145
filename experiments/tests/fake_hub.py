"""A hub of models and data sets on this machine: as much of its interface as its own client asks for."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

COMMIT = "0123456789abcdef0123456789abcdef01234567"
KINDS = ("models", "datasets")


class Handler(BaseHTTPRequestHandler):
    """Repositories lie as ``<root>/<models or datasets>/<org>/<name>``; one with a file ``.gated`` refuses all."""

    root: Path
    asked: list[str]
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: Any) -> None:
        pass

    def do_HEAD(self) -> None:
        self.answer(body=False)

    def do_GET(self) -> None:
        self.answer(body=True)

    def do_POST(self) -> None:
        self.answer(body=True)

    def answer(self, *, body: bool) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        sent = self.rfile.read(length)
        path = unquote(urlsplit(self.path).path)
        self.asked.append(path)
        parts = path.strip("/").split("/")
        if parts[0] == "api" and len(parts) >= 4 and parts[1] in KINDS:
            self.api(parts[1], "/".join(parts[2:4]), parts[4:], sent)
            return
        kind, rest = ("datasets", parts[1:]) if parts[0] == "datasets" else ("models", parts)
        if len(rest) > 4 and rest[2] == "resolve":
            self.file(self.root / kind / rest[0] / rest[1], "/".join(rest[4:]), body)
        else:
            self.say(404, {"error": "no such page"})

    def api(self, kind: str, name: str, rest: list[str], sent: bytes) -> None:
        folder = self.root / kind / name
        if not folder.is_dir():
            self.say(404, {"error": "Repository not found"}, {"X-Error-Code": "RepoNotFound"})
        elif (folder / ".gated").exists():
            self.say(403, {"error": "gated"}, {"X-Error-Code": "GatedRepo"})
        elif rest[:1] == ["auth-check"]:
            self.say(200, {})
        elif rest[:1] == ["tree"]:
            self.say(200, self.files(folder, "/".join(rest[2:])))
        elif rest[:1] == ["paths-info"]:
            wanted = json.loads(sent)["paths"] if sent.startswith(b"{") else []
            self.say(200, [one for one in self.files(folder) if one["path"] in wanted])
        else:
            siblings = [{"rfilename": one["path"], "size": one["size"]} for one in self.files(folder)]
            about = {"id": name, "sha": COMMIT, "siblings": siblings, "private": False, "gated": False, "tags": []}
            self.say(200, {**about, "downloads": 0, "likes": 0, "disabled": False})

    def files(self, folder: Path, inside: str = "") -> list[dict[str, Any]]:
        found = [path for path in sorted((folder / inside).rglob("*")) if path.is_file()]
        return [
            {
                "type": "file",
                "path": path.relative_to(folder).as_posix(),
                "size": path.stat().st_size,
                "oid": hashlib.sha1(path.read_bytes()).hexdigest(),
            }
            for path in found
        ]

    def file(self, folder: Path, inside: str, body: bool) -> None:
        path = folder / inside
        if (folder / ".gated").exists():
            self.say(403, {"error": "gated"}, {"X-Error-Code": "GatedRepo"})
        elif not path.is_file():
            self.say(404, {"error": "no such file"}, {"X-Error-Code": "EntryNotFound", "X-Repo-Commit": COMMIT})
        else:
            data = path.read_bytes()
            self.send_response(200)
            self.send_header("ETag", f'"{hashlib.sha1(data).hexdigest()}"')
            self.send_header("X-Repo-Commit", COMMIT)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            if body:
                self.wfile.write(data)

    def say(self, status: int, value: Any, headers: dict[str, str] | None = None) -> None:
        data = json.dumps(value).encode()
        self.send_response(status)
        for key, text in (headers or {}).items():
            self.send_header(key, text)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)


@contextmanager
def fake_hub(root: Path) -> Generator[tuple[str, list[str]]]:
    """The address of a hub with the repositories below ``root``, and every path that is asked for."""
    asked: list[str] = []
    handler = type("Own", (Handler,), {"root": root, "asked": asked})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", asked
    finally:
        server.shutdown()
        server.server_close()
