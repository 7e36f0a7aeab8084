from __future__ import annotations

import hashlib
import http.server
import json
import socket
import threading
import time
from pathlib import Path

import pytest

from eigenformer.data import workspace as module
from eigenformer.data.errors import DamagedError, DownloadError
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


DATA = hashlib.sha256(b"data").hexdigest()


def test_a_download_with_another_checksum_than_the_published_one_is_refused(address, tmp_path):
    layouts = [[RawFile("a", f"{address}/whole", "0" * 64)]]
    sources, path = Workspace(None, tmp_path), tmp_path / "raw" / "zinc" / "a"
    with pytest.raises(DownloadError, match="received another file: its SHA-256 is not 0000"):
        sources.fetch("zinc", layouts)
    assert list(path.parent.iterdir()) == []
    layouts = [[RawFile("a", f"{address}/whole", DATA)]]
    assert sources.fetch("zinc", layouts) == [path]
    assert [file.name for file in path.parent.iterdir()] == ["a"]
    path.write_bytes(b"dat4")
    with pytest.raises(DamagedError, match=f"a: not the official file: .* not {DATA}"):
        sources.fetch("zinc", layouts)


def test_a_download_without_a_published_checksum_is_recorded_and_checked(address, tmp_path):
    layouts = [[RawFile("a", f"{address}/whole")]]
    sources, path = Workspace(None, tmp_path), tmp_path / "raw" / "zinc" / "a"
    sources.fetch("zinc", layouts)
    record = path.with_name("a.sha256.json")
    assert json.loads(record.read_text()) == {"file": "a", "sha256": DATA, "size": 4}
    assert sources.fetch("zinc", layouts) == [path]
    path.write_bytes(b"dat4")
    with pytest.raises(DamagedError, match=r"a: not the file .* first used .*a\.sha256\.json"):
        sources.fetch("zinc", layouts)
    path.unlink()  # downloaded again, it must still be the same
    assert sources.fetch("zinc", layouts) == [path]
    record.write_text("[" * 100_000)
    with pytest.raises(DamagedError, match=r"a\.sha256\.json: not a checksum record"):
        sources.fetch("zinc", layouts)


def test_the_users_own_folder_is_not_written_to(tmp_path):
    raw = tmp_path / "own" / "zinc"
    raw.mkdir(parents=True)
    (raw / "a").write_bytes(b"data")
    sources = Workspace(tmp_path / "own", tmp_path / "cache")
    assert sources.fetch("zinc", [[RawFile("a", "http://nowhere.invalid")]])
    assert [file.name for file in raw.iterdir()] == ["a"]


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
        Workspace(None, tmp_path).fetch("zinc", [[RawFile("f.zip", url)]])
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
    assert sources.fetch("zinc", layouts) == [raw / "zinc" / "a"]


def test_what_was_downloaded_is_not_downloaded_again(address, tmp_path):
    layouts = [[RawFile("a", f"{address}/whole")]]
    sources = Workspace(None, tmp_path)
    first = sources.fetch("zinc", layouts)
    assert first == [tmp_path / "raw" / "zinc" / "a"]
    gone = [[RawFile("a", f"{address}/missing")]]
    assert sources.fetch("zinc", gone) == first


def test_folders_come_from_the_arguments_then_the_environment(tmp_path):
    environment = {"EIGENFORMER_RAW_DIR": str(tmp_path), "EIGENFORMER_CACHE_DIR": "/c"}
    assert Workspace.resolve(environment=environment) == Workspace(tmp_path, Path("/c"))
    assert Workspace.resolve(None, "/d", environment=environment).cache_dir == Path("/d")
    assert Workspace.resolve(environment={"XDG_CACHE_HOME": "/x"}).cache_dir == Path(
        "/x/eigenformer"
    )
    assert user_cache_dir({}) == Path.home() / ".cache" / "eigenformer"
    with pytest.raises(DownloadError, match="the raw folder does not exist"):
        Workspace.resolve(tmp_path / "nowhere", environment={})
