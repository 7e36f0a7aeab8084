"""The server in a process of its own, as a user starts it."""

from __future__ import annotations

import http.client
import json
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tests.training.samples import start


@contextmanager
def serving(*arguments: object, cwd: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The process and its address; what it printed before is in ``process.said``."""
    process = start("serve", *arguments, "--port", "0", cwd=cwd)
    try:
        assert process.stdout is not None
        said = ""
        for line in process.stdout:
            said += line
            if found := re.search(r": (http://\S+)  \(stop with Ctrl-C\)", line):
                break
        else:
            raise AssertionError(said)
        process.said = said  # type: ignore[attr-defined]
        yield process, found[1]
    finally:
        process.kill()
        process.communicate()


def ask(address: str, path: str, body: Any = None, **headers: str) -> tuple[int, str]:
    """The status and the text of an answer; ``body`` is sent as JSON."""
    connection = http.client.HTTPConnection(urlsplit(address).netloc, timeout=30)
    try:
        method = "GET" if body is None else "POST"
        sent = None if body is None else json.dumps(body)
        connection.request(method, path, sent, {"Content-Type": "application/json", **headers})
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()
