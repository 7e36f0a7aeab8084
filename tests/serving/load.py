"""Many requests from several clients: no errors, and memory that does not grow.

``python -m tests.serving.load RUN`` starts the server, sends the requests and prints what it took.
"""

from __future__ import annotations

import argparse
import http.client
import itertools
import json
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import psutil

from tests.serving.processes import serving

_MOLECULES = (
    "CCO",
    "CC(=O)Nc1ccc(O)cc1",
    "c1ccccc1O",
    "CC(=O)Oc1ccccc1C(=O)O",
    "C1CC",
    "CCN(CC)CC",
)


@dataclass
class Load:
    """What was measured.

    Args:
        requests: The number of requests.
        errors: What went wrong.
        seconds: The wall-clock time of all requests.
        processor: The processor time of the server.
        memory: The resident megabytes of the server after so many requests.
    """

    requests: int
    errors: list[str] = field(default_factory=list)
    seconds: float = 0.0
    processor: float = 0.0
    memory: dict[int, float] = field(default_factory=dict)


def load(folder: Path, requests: int, clients: int, marks: tuple[int, ...], cwd: Path) -> Load:
    """Sends requests of one to four molecules, each tenth as a table, and measures."""
    found, numbers, lock = Load(requests), itertools.count(1), threading.Lock()
    with serving(folder, "--threads", "1", cwd=cwd) as (process, address):
        server = psutil.Process(process.pid)

        def client() -> None:
            connection = http.client.HTTPConnection(urlsplit(address).netloc, timeout=60)
            while True:
                with lock:
                    number = next(numbers)
                    if number in marks:
                        found.memory[number] = server.memory_info().rss / 1e6
                if number > requests:
                    return
                if error := _one(connection, number):
                    found.errors.append(f"request {number}: {error}")

        before, started = sum(server.cpu_times()[:2]), time.monotonic()
        threads = [threading.Thread(target=client) for _ in range(clients)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        found.seconds = time.monotonic() - started
        found.processor = sum(server.cpu_times()[:2]) - before
    return found


def _one(connection: http.client.HTTPConnection, number: int) -> str:
    """Sends one request, and returns what is wrong with its answer."""
    smiles = [_MOLECULES[(number + i) % len(_MOLECULES)] for i in range(1 + number % 4)]
    path, kind, body = "/api/predict", "application/json", json.dumps({"smiles": smiles})
    if number % 10 == 0:
        path, kind, body = "/api/table", "text/csv", "\n".join(["smiles", *smiles])
    try:
        connection.request("POST", path, body, {"Content-Type": kind})
        answer = connection.getresponse()
        text = answer.read()
    except OSError as error:
        return repr(error)
    if answer.status != 200:
        return f"status {answer.status}: {text[:100]!r}"
    rows = json.loads(text)["rows"]
    if [row["smiles"] for row in rows] != smiles:
        return "the rows are those of another request"
    wrong = [row for row in rows if (row["values"] is None) != (row["smiles"] == "C1CC")]
    return f"wrong answers: {wrong}" if wrong else ""


def main() -> None:
    """Prints what was measured."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run_folder", type=Path)
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--clients", type=int, default=8)
    given = parser.parse_args()
    marks = tuple(sorted({max(1, given.requests // 10), given.requests}))
    found = load(given.run_folder.resolve(), given.requests, given.clients, marks, Path.cwd())
    print(f"{found.requests} requests of {given.clients} clients, {len(found.errors)} errors")
    print(f"{found.seconds:.1f} s, {found.requests / found.seconds:.0f} requests per second")
    print(f"{found.processor:.1f} s of processor time")
    for number, memory in found.memory.items():
        print(f"{memory:.0f} MB after {number} requests")
    print(*found.errors[:5], sep="\n")


if __name__ == "__main__":
    main()
