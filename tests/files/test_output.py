"""Where results go: files are replaced whole, anything else is written to and stays what it is."""

from __future__ import annotations

import os
import socket
import stat
import subprocess
import sys
import threading

import numpy as np
import pytest

import batchsvm
from batchsvm.files import write
from batchsvm.files.atomic import replacing

X, Y = np.array([[1.0, 0.5], [-1.0, 0.0], [0.0, 2.0], [0.0, -1.0]]), np.array([1, -1, 1, -1])
ROWS = "1 1:1 2:0.5\n-1 1:-1\n1 2:2\n-1 2:-1\n"


def reading(fifo):
    """A thread that reads a FIFO to its end, and the list that gets its content."""
    found = []
    thread = threading.Thread(target=lambda: found.append(fifo.read_bytes()), daemon=True)
    thread.start()
    return thread, found


@pytest.mark.parametrize("text", [False, True])
def test_a_fifo_is_written_to(tmp_path, text):
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    thread, found = reading(fifo)
    with replacing(fifo, text=text) as sink:
        sink.write("é" * 100_000 if text else b"bytes" * 100_000)
    thread.join(10)
    assert found == ["é".encode() * 100_000 if text else b"bytes" * 100_000]
    assert stat.S_ISFIFO(os.stat(fifo).st_mode)
    assert os.listdir(tmp_path) == ["fifo"]


@pytest.mark.parametrize("name", ["a.npz", "a.npy", "a.csv", "a.svm.gz", "a.model"])
def test_every_writer_can_write_to_a_fifo(tmp_path, name):
    os.mkfifo(tmp_path / name)
    thread, found = reading(tmp_path / name)
    if name.endswith(".model"):
        batchsvm.fit(X, Y, lam=0.1, random_state=0).save(tmp_path / name)
    else:
        write(tmp_path / name, X, None if name == "a.npy" else Y)
    thread.join(10)
    (tmp_path / "copy").mkdir()
    (tmp_path / "copy" / name).write_bytes(found[0])
    if name.endswith(".model"):
        assert batchsvm.load(tmp_path / "copy" / name).n_features == 2
    else:
        from batchsvm.files import read

        kept = read(tmp_path / "copy" / name).X
        np.testing.assert_array_equal(kept.toarray() if hasattr(kept, "toarray") else kept, X)
    assert stat.S_ISFIFO(os.stat(tmp_path / name).st_mode)


def test_a_socket_is_written_to(tmp_path):
    path, found = tmp_path / "socket", []
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(os.fspath(path))
        server.listen(1)

        def take():
            line, _ = server.accept()
            with line, line.makefile("rb") as source:
                found.append(source.read())

        thread = threading.Thread(target=take, daemon=True)
        thread.start()
        with replacing(path) as sink:
            sink.write(b"bytes" * 1000)
        thread.join(10)
    assert found == [b"bytes" * 1000]
    assert stat.S_ISSOCK(os.stat(path).st_mode)


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="mknod is for root")
@pytest.mark.parametrize("linked", [False, True])
def test_a_full_device_stays_a_device(run, tmp_path, linked):
    full = tmp_path / "full"
    try:
        os.mknod(full, 0o666 | stat.S_IFCHR, os.makedev(1, 7))
        full.open("wb").close()
    except OSError:
        pytest.skip("devices cannot be made or opened here")
    (tmp_path / "link").symlink_to("full")
    (tmp_path / "x").write_text(ROWS)
    status, _, err = run("train", "x", "link" if linked else "full", "--lam", 0.1)
    assert status == 2
    assert err.endswith("full: No space left on device\n") or "link: No space" in err
    assert stat.S_ISCHR(os.stat(full).st_mode)
    assert (tmp_path / "link").is_symlink()


def test_nothing_is_sent_if_the_block_fails(tmp_path):
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    handle = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)

    def fail():
        with replacing(fifo) as sink:
            sink.write(b"half of it")
            raise RuntimeError("half")

    try:
        with pytest.raises(RuntimeError, match="half"):
            fail()
        assert os.read(handle, 100) == b""
    finally:
        os.close(handle)


def test_a_reader_that_goes_away_is_an_error_that_names_the_fifo(tmp_path):
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)

    def give_up():
        os.close(os.open(fifo, os.O_RDONLY))

    threading.Thread(target=give_up, daemon=True).start()
    with pytest.raises(OSError, match="fifo: Broken pipe") as caught, replacing(fifo) as sink:
        sink.write(b"x" * 10_000_000)
    assert not isinstance(caught.value, BrokenPipeError)  # which the command takes for a success


WRITER = """
import os, sys
from batchsvm.files.atomic import replacing
with replacing(sys.argv[1]) as sink:
    sink.write(b"half"); sink.flush()
    print("ready", flush=True)
    sys.stdin.read()
"""


def writer(path):
    """A process that has begun to write a file."""
    process = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdout.readline() == b"ready\n"
    return process


def partials(folder):
    return sorted(name for name in os.listdir(folder) if name.endswith(".partial"))


def test_what_a_killed_writer_left_is_removed_by_the_next(tmp_path):
    path = tmp_path / "model"
    with writer(path) as process:
        process.kill()
    assert len(partials(tmp_path)) == 1
    for other in (".model.x.abcdefgh.partial", "model.partial", ".other.abcdefgh.partial"):
        (tmp_path / other).write_text("not ours")
    with replacing(path) as sink:
        sink.write(b"whole")
    assert path.read_bytes() == b"whole"
    left = [".model.x.abcdefgh.partial", ".other.abcdefgh.partial", "model.partial"]
    assert partials(tmp_path) == left


def test_a_writer_at_work_is_left_alone(tmp_path):
    path = tmp_path / "model"
    with writer(path) as process:
        with replacing(path) as sink:
            sink.write(b"ours")
        assert len(partials(tmp_path)) == 1
        assert path.read_bytes() == b"ours"
        process.communicate(b"")
    assert process.returncode == 0
    assert path.read_bytes() == b"half"
    assert partials(tmp_path) == []


def test_a_link_in_the_place_of_a_stale_file_is_not_followed(tmp_path):
    (tmp_path / "precious").write_text("precious")
    (tmp_path / ".model.abcdefgh.partial").symlink_to("precious")
    with replacing(tmp_path / "model") as sink:
        sink.write(b"whole")
    assert (tmp_path / "precious").read_text() == "precious"
