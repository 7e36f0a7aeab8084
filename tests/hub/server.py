"""A small server with the part of the Hugging Face hub's interface that sharing a model needs."""

from __future__ import annotations

import base64
import hashlib
import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any


class Hub:
    """Repositories in memory, served on a port of this machine.

    Attributes:
        files: The content of each file, by repository and name.
        private: Whether each repository is private.
        requests: The method and path of every request.
    """

    def __init__(self) -> None:
        self.files: dict[str, dict[str, bytes]] = {}
        self.private: dict[str, bool] = {}
        self.requests: list[str] = []
        hub = self

        class Handler(_Handler):
            server_hub = hub

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def commit(self, name: str) -> str:
        """The checksum of all files, which stands for their commit."""
        digest = hashlib.sha1()
        for file, content in sorted(self.files[name].items()):
            digest.update(file.encode() + b"\0" + content)
        return digest.hexdigest()

    def __enter__(self) -> Hub:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Handler(BaseHTTPRequestHandler):
    server_hub: Hub
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: Any) -> None:
        pass

    def do_POST(self) -> None:
        hub, path = self.server_hub, self._path()
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if path == "/api/validate-yaml":
            return self._json({"errors": [], "warnings": []})
        if path == "/api/repos/create":
            asked = json.loads(body)
            name = "/".join(filter(None, (asked.get("organization"), asked["name"])))
            if "/" not in name:
                name = f"me/{name}"
            hub.files.setdefault(name, {})
            private = asked.get("private") or asked.get("visibility") == "private"
            hub.private.setdefault(name, bool(private))  # by the version of the client
            return self._json({"url": f"{hub.url}/{name}", "name": name, "id": name})
        name, _, action = path.removeprefix("/api/models/").partition("/main")[0].rpartition("/")
        if name not in hub.files:
            return self._missing()
        if action == "preupload":
            asked = json.loads(body)["files"]
            modes = [
                {"path": f["path"], "uploadMode": "regular", "shouldIgnore": False} for f in asked
            ]
            return self._json({"files": modes})
        assert action == "commit", path
        for line in map(json.loads, body.splitlines()):
            value = line["value"]
            if line["key"] == "file":
                hub.files[name][value["path"]] = base64.b64decode(value["content"])
            elif line["key"] == "deletedFile":
                del hub.files[name][value["path"]]
        commit = hub.commit(name)
        return self._json({"commitOid": commit, "commitUrl": f"{hub.url}/{name}/commit/{commit}"})

    def do_GET(self) -> None:
        hub, path = self.server_hub, self._path()
        if path.startswith("/api/models/"):
            name = "/".join(path.split("/")[3:5])
            if name not in hub.files:
                return self._missing()
            siblings = [{"rfilename": k, "size": len(v)} for k, v in hub.files[name].items()]
            return self._json({"id": name, "sha": hub.commit(name), "siblings": siblings})
        owner, repository, _, _, *rest = path.lstrip("/").split("/")
        name, file = f"{owner}/{repository}", "/".join(rest)
        content = hub.files[name][file]
        etag = hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()
        headers = {"ETag": f'"{etag}"', "X-Repo-Commit": hub.commit(name)}
        self._send(content, headers)
        return None

    do_HEAD = do_GET

    def _path(self) -> str:
        path = self.path.partition("?")[0]
        self.server_hub.requests.append(f"{self.command} {path}")
        return path

    def _missing(self) -> None:
        body = json.dumps({"error": "Repository not found"}).encode()
        self._send(body, {"X-Error-Code": "RepoNotFound"}, 404)

    def _json(self, value: object) -> None:
        self._send(json.dumps(value).encode(), {"Content-Type": "application/json"})

    def _send(self, body: bytes, headers: dict[str, str], code: int = 200) -> None:
        self.send_response(code)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)
