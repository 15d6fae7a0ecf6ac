"""Data sets by name, and downloads that are resumed, checked, and whole or not there."""

from __future__ import annotations

import bz2
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest

from batchsvm import datasets
from batchsvm.files.download import DownloadError, fetch

CONTENT = bytes(np.random.default_rng(0).integers(0, 256, 400_000, dtype=np.uint8))


class Handler(BaseHTTPRequestHandler):
    """A server that can break off, knows ranges, and notes what was asked."""

    def log_message(self, *args):
        pass

    def do_GET(self):
        server = self.server
        server.asked.append(self.headers.get("Range"))
        if self.path == "/missing":
            self.send_error(404)
            return
        start = 0
        wanted = self.headers.get("Range")
        if wanted and server.ranges and self.headers.get("If-Range") == server.tag:
            start = int(wanted.removeprefix("bytes=").removesuffix("-"))
        if start >= len(server.content):
            self.send_error(416)
            return
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(server.content) - start))
        self.send_header("ETag", server.tag)
        self.end_headers()
        stop = len(server.content) if server.breaks_at is None else server.breaks_at
        self.wfile.write(server.content[start:stop])


@pytest.fixture
def server():
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.content, server.tag, server.ranges = CONTENT, '"one"', True
        server.breaks_at, server.asked = None, []
        server.url = f"http://127.0.0.1:{server.server_address[1]}/"
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_download_is_whole_and_noted(server, tmp_path):
    shares = []
    target = fetch(server.url + "file", tmp_path / "file", progress=shares.append)
    assert target.read_bytes() == CONTENT
    assert names(tmp_path) == ["file", "file.sha256"]
    assert shares[-1] == 1.0
    fetch(server.url + "file", target)
    assert len(server.asked) == 1
    target.write_bytes(CONTENT[:-1])
    with pytest.raises(DownloadError, match="it has changed or is another file"):
        fetch(server.url + "file", target)


@pytest.mark.parametrize("ranges", [True, False])
def test_a_broken_transfer_is_resumed(server, tmp_path, ranges):
    server.ranges, server.breaks_at = ranges, 150_000
    with pytest.raises(DownloadError, match="150,000 bytes are kept for the next try"):
        fetch(server.url + "file", tmp_path / "file")
    assert not (tmp_path / "file").exists()
    server.breaks_at = None
    fetch(server.url + "file", tmp_path / "file")
    assert (tmp_path / "file").read_bytes() == CONTENT
    assert server.asked == [None, "bytes=150000-"]
    assert names(tmp_path) == ["file", "file.sha256"]


def test_a_file_that_changed_on_the_server_is_fetched_anew(server, tmp_path):
    server.breaks_at = 150_000
    with pytest.raises(DownloadError):
        fetch(server.url + "file", tmp_path / "file")
    server.breaks_at, server.content, server.tag = None, CONTENT[::-1], '"two"'
    assert fetch(server.url + "file", tmp_path / "file").read_bytes() == CONTENT[::-1]


def test_a_partial_file_that_is_too_long_is_thrown_away(server, tmp_path):
    server.breaks_at = 150_000
    with pytest.raises(DownloadError):
        fetch(server.url + "file", tmp_path / "file")
    server.breaks_at = None
    (tmp_path / "file.partial").write_bytes(bytes(500_000))
    assert fetch(server.url + "file", tmp_path / "file").read_bytes() == CONTENT


def test_what_is_not_the_file_expected_is_not_kept(server, tmp_path):
    with pytest.raises(DownloadError, match=r"has SHA-256 .*, not 00; it was not kept"):
        fetch(server.url + "file", tmp_path / "file", sha256="00")
    assert names(tmp_path) == []
    with pytest.raises(DownloadError, match="missing: Not Found"):
        fetch(server.url + "missing", tmp_path / "file")
    with pytest.raises(DownloadError, match="refused"):
        fetch("http://127.0.0.1:9/file", tmp_path / "file")


def test_get_from_a_collection(server, tmp_path, monkeypatch):
    monkeypatch.delenv("BATCHSVM_DATA", raising=False)
    monkeypatch.setattr(datasets, "cache_folder", lambda: tmp_path)
    server.content = bz2.compress(b"1 1:1\n2 2:1\n")
    assert datasets.where("rcv1") == "LIBSVM collection"
    found = datasets.get("rcv1", collection=server.url)
    assert found == ((tmp_path / "rcv1_train.binary.bz2",), "LIBSVM collection")
    assert datasets.get("rcv1", collection=server.url).source == "cache"
    assert datasets.where("rcv1") == "cache"
    with pytest.raises(ValueError, match="has 2 rows and 2 columns, not 20,242 and 47,236"):
        datasets.read_original("rcv1", found.paths[0])


def test_get_from_a_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("BATCHSVM_DATA", str(tmp_path))
    with pytest.raises(DownloadError, match=r"has no arxiv\.train\.svm\.bz2"):
        datasets.get("arxiv")
    for part in ("train", "test"):
        (tmp_path / f"arxiv.{part}.svm.bz2").write_bytes(bz2.compress(b"1 1:1\n"))
    with pytest.raises(DownloadError, match="it has changed or is another file"):
        datasets.get("arxiv")
    monkeypatch.delenv("BATCHSVM_DATA")
    with pytest.raises(DownloadError, match="set BATCHSVM_DATA"):
        datasets.get("arxiv")
    with pytest.raises(ValueError, match=r"name must be one of cov, .*, not 'nothing'"):
        datasets.get("nothing")


def test_small_sets_are_made(tmp_path):
    found = datasets.get("tiny-text", tmp_path)
    data = datasets.load("tiny-text")
    X, y = datasets.read_libsvm(found.paths[0], data.X.shape[1])
    assert (X != data.X).nnz == 0
    np.testing.assert_array_equal(y, data.y)
