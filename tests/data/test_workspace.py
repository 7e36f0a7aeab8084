from __future__ import annotations

import http.server
import socket
import threading
import time
from pathlib import Path

import pytest

from eigenformer.data import workspace as module
from eigenformer.data.errors import DownloadError
from eigenformer.data.workspace import RawFile, Workspace, download, user_cache_dir
from eigenformer.reporting import Reporter


@pytest.fixture
def address():
    """A web server on this machine: /whole, /short (says more than it sends), /slow."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            if self.path == "/slow":
                time.sleep(5)
                return
            found = self.path in ("/whole", "/short")
            self.send_response(200 if found else 404)
            self.send_header("Content-Length", "10" if self.path == "/short" else "4")
            self.end_headers()
            self.wfile.write(b"data")

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()


def test_a_file_is_fetched(address, tmp_path):
    download(RawFile("a", f"{address}/whole"), tmp_path / "raw" / "a", Reporter())
    assert (tmp_path / "raw" / "a").read_bytes() == b"data"
    assert len(list((tmp_path / "raw").iterdir())) == 1


@pytest.mark.parametrize("page", ["short", "missing"])
def test_a_failed_download_leaves_nothing(address, tmp_path, page):
    with pytest.raises(DownloadError, match="cannot download"):
        download(RawFile("a", f"{address}/{page}"), tmp_path / "a", Reporter())
    assert list(tmp_path.iterdir()) == []


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


@pytest.mark.parametrize("page", ["nobody", "unknown host", "silent"])
def test_without_network_the_message_comes_soon_and_says_what_to_do(
    address, tmp_path, monkeypatch, page
):
    monkeypatch.setattr(module, "TIMEOUT", 1.0)
    url = {
        "nobody": f"http://127.0.0.1:{free_port()}/f.zip",
        "unknown host": "http://nowhere.invalid/f.zip",
        "silent": f"{address}/slow",
    }[page]
    start = time.monotonic()
    with pytest.raises(DownloadError) as caught:
        Workspace(None, tmp_path).fetch("zinc", [[RawFile("f.zip", url)]], Reporter())
    assert time.monotonic() - start < 5
    message = str(caught.value)
    assert url in message
    assert str(tmp_path / "raw" / "zinc" / "f.zip") in message
    assert "--raw-dir" in message
    assert "zinc/f.zip" in message


def test_the_first_complete_layout_is_taken(tmp_path):
    raw, cache = tmp_path / "raw", tmp_path / "cache"
    layouts = [[RawFile("a")], [RawFile("b"), RawFile("../other/c")]]
    (raw / "zinc").mkdir(parents=True)
    (raw / "other").mkdir()
    sources = Workspace(raw, cache)
    assert sources.locate("zinc", layouts) is None
    (raw / "zinc" / "b").touch()
    assert sources.locate("zinc", layouts) is None
    (raw / "other" / "c").touch()
    assert sources.locate("zinc", layouts) == [raw / "zinc" / "b", raw / "zinc" / "../other/c"]
    (raw / "zinc" / "a").touch()
    assert sources.fetch("zinc", layouts, Reporter()) == [raw / "zinc" / "a"]


def test_what_was_downloaded_is_not_downloaded_again(address, tmp_path):
    layouts = [[RawFile("a", f"{address}/whole")]]
    sources = Workspace(None, tmp_path)
    first = sources.fetch("zinc", layouts, Reporter())
    assert first == [tmp_path / "raw" / "zinc" / "a"]
    gone = [[RawFile("a", f"{address}/missing")]]
    assert sources.fetch("zinc", gone, Reporter()) == first


def test_folders_come_from_the_arguments_then_the_environment(tmp_path):
    environment = {"EIGENFORMER_RAW_DIR": str(tmp_path), "EIGENFORMER_CACHE_DIR": "/c"}
    assert Workspace.resolve(environment=environment) == Workspace(tmp_path, Path("/c"))
    assert Workspace.resolve(None, "/d", environment).cache_dir == Path("/d")
    assert Workspace.resolve(environment={"XDG_CACHE_HOME": "/x"}).cache_dir == Path("/x/eigenformer")
    assert user_cache_dir({}) == Path.home() / ".cache" / "eigenformer"
    with pytest.raises(DownloadError, match="the raw folder is not there"):
        Workspace.resolve(tmp_path / "nowhere", environment={})
