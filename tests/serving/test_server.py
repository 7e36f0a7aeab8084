"""``eigenformer serve`` as a process: it starts, answers, and stops when it is told to."""

from __future__ import annotations

import builtins
import signal
import socket
import sys
import time

import pytest

from eigenformer.cli import main
from eigenformer.model_folder import save_model
from eigenformer.serving import server
from eigenformer.serving.server import address_of, is_loopback, listen
from tests.serving.processes import ask, serving
from tests.serving.samples import card


@pytest.fixture(scope="package")
def folder(tiny, tmp_path_factory):
    out = tmp_path_factory.mktemp("served") / "tiny"
    save_model(out, tiny.model, card(tiny))
    return out


@pytest.mark.parametrize(
    "number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.slow)]
)
def test_it_answers_and_stops(folder, number, tmp_path):
    with serving(folder, "--threads", "1", cwd=tmp_path) as (process, address):
        assert address.startswith("http://127.0.0.1:")
        assert "authentication" not in process.said
        status, text = ask(address, "/api/predict", {"smiles": ["CCO", "C1CC"]})
        assert (status, '"predicted_logp"' in text, "invalid SMILES" in text) == (200, True, True)
        assert ask(address, "/", Host="evil.example")[0] == 421
        idle = socket.create_connection(address.removeprefix("http://").split(":"))
        long = "C" * 300  # work that is under way when the signal comes
        busy = socket.create_connection(address.removeprefix("http://").split(":"))
        body = '{"smiles": [' + ",".join([f'"{long}"'] * 2000) + "]}"
        busy.sendall(
            f"POST /api/predict HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\n\r\n{body}".encode()
        )
        time.sleep(0.3)
        started = time.monotonic()
        process.send_signal(number)
        output, _ = process.communicate(timeout=30)
        assert time.monotonic() - started < 10
        assert (process.returncode, output) == (130, "eigenformer serve: stopped\n")
        answer = busy.recv(1000).decode()
        assert "503 Service Unavailable" in answer
        idle.close()
        busy.close()


def _started(*arguments):
    """What the command would serve, without serving it."""
    calls = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(server, "serve", lambda *given: calls.append(given))
        assert main(["serve", *map(str, arguments), "--port", "0"]) == 0
    ((service, listening, ready),) = calls
    ready()
    listening.close()
    service.close()
    return service


def test_other_addresses_are_warned_about(folder, capsys):
    _started(folder)
    said = capsys.readouterr()
    assert said.err == ""
    assert said.out.startswith("tiny: http://127.0.0.1:")
    _started(folder, "--host", "0.0.0.0")
    said = capsys.readouterr()
    assert "there is no authentication: everyone who can reach this address" in said.err
    assert said.out.startswith("tiny: http://0.0.0.0:")


def test_options(folder):
    service = _started(folder)
    assert (service.level, service.trained.limits.atoms) == (0.9, 500)
    service = _started(folder, "--interval", "80%", "--limits", "atoms=1k", "requests=3")
    assert (service.level, service.trained.limits.atoms) == (0.8, 1000)
    assert service.trained.limits.requests == 3


def test_mistakes_are_one_sentence(folder, tmp_path, capsys):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        assert main(["serve", str(folder), "--port", port]) == 2
    assert f"127.0.0.1, port {port}: Address already in use" in capsys.readouterr().err
    for arguments, message in (
        ([str(folder), "--host", "no.such.name.invalid"], "no.such.name.invalid, port 8000: "),
        ([str(folder), "--interval", "0.99"], "interval: 0.99 needs 99 graphs"),
        ([str(folder), "--interval", "0"], "must be between 0 and 1"),
        ([str(folder), "--novelty"], "cannot say what is new to it"),
        ([str(tmp_path)], "no model here"),
        ([str(folder), "--limits", "request_row=3"], "the nearest is 'request_rows'"),
    ):
        assert main(["serve", *arguments]) == 2
        assert message in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["serve", str(folder), "--port", "70000"])
    assert "expected a port between 0 and 65535, got '70000'" in capsys.readouterr().err


def test_a_package_that_is_missing_is_named(folder, monkeypatch, capsys):
    for name in [name for name in sys.modules if name.startswith("eigenformer.serving.")]:
        monkeypatch.delitem(sys.modules, name)
    real = builtins.__import__

    def without(name, *rest):
        if name.partition(".")[0] == "uvicorn":
            raise ImportError("No module named 'uvicorn'", name="uvicorn")
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    assert main(["serve", str(folder)]) == 2
    assert "install them with  pip install 'eigenformer[serve]'" in capsys.readouterr().err


def test_addresses():
    with listen("localhost", 0) as listening:
        assert is_loopback(listening)
        assert address_of(listening) == f"http://127.0.0.1:{listening.getsockname()[1]}"
    with listen("0.0.0.0", 0) as listening:
        assert not is_loopback(listening)
