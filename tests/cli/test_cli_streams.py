"""The command as a process: Ctrl-C while it starts, and streams that are closed or full."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import time

import pytest

ROWS = "1 1:1 2:0.5\n-1 1:-1\n1 2:2\n-1 2:-1\n"
COMMAND = [sys.executable, "-c", "from batchsvm.cli import main; main()"]


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "x").write_text(ROWS)
    (tmp_path / "many").write_text(ROWS * 20_000)
    return tmp_path


def shell(folder, line):
    """A line of bash in which `batchsvm` is the command."""
    prefix = (
        f"batchsvm() {{ '{sys.executable}' -c 'from batchsvm.cli import main; main()' \"$@\"; }}; "
    )
    return subprocess.run(
        ["bash", "-c", prefix + line], cwd=folder, capture_output=True, text=True, timeout=120
    )


# A module that raises KeyboardInterrupt when it is imported, as Ctrl-C at that moment would.
STRUCK = """
import sys
class Strike:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            raise KeyboardInterrupt
sys.meta_path.insert(0, Strike())
from batchsvm.cli import main
main(["train", "x", "m"])
"""


@pytest.mark.parametrize(
    "module", ["click", "batchsvm.cli.wording", "batchsvm.cli.train", "numpy", "numba",
               "scipy.sparse", "batchsvm.models.fitting", "batchsvm.engines.cpu"]
)  # fmt: skip
def test_ctrl_c_during_an_import_is_one_line(folder, module):
    done = subprocess.run(
        [sys.executable, "-c", STRUCK.format(module=module)],
        cwd=folder, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "batchsvm: interrupted\n")
    assert not (folder / "m").exists()


def test_ctrl_c_is_not_lost_where_pyarrow_imports_pandas(folder):
    pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    (folder / "x.csv").write_text("a,b,label\n" + "1,2,1\n-1,3,0\n" * 20)
    arguments = '"x.csv", "m", "--label", "label"'
    script = STRUCK.format(module="pandas").replace('"x", "m"', arguments)
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=folder, capture_output=True, text=True, timeout=120
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "batchsvm: interrupted\n")
    assert not (folder / "m").exists()


def test_the_command_is_there_before_numba_and_scipy():
    script = "import sys, batchsvm.cli; print({'numba', 'numpy', 'scipy'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout == "set()\n"


def interrupted_after(folder, seconds):
    """Exit status and stderr of a `train` that got SIGINT so long after our own code began."""
    started = f"print(flush=True); {COMMAND[2]}"
    process = subprocess.Popen(
        [sys.executable, "-c", started, "train", "many", "m", "--lam", "1e-9", "--tol", "0"],
        cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    process.stdout.readline()
    time.sleep(seconds)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=120)
    return process.returncode, err


@pytest.mark.parametrize("seconds", [0.1, 0.4])
def test_ctrl_c_while_it_starts(folder, seconds):
    status, err = interrupted_after(folder, seconds)
    assert "Traceback" not in err
    # Ctrl-C after the first certificate ends the training with a model, whose gap is above tol.
    assert status in (130, 1)
    assert status == 1 or err.splitlines()[-1] == "batchsvm: interrupted"


@pytest.mark.parametrize(
    ("line", "status"),
    [
        ("batchsvm plan x | true; exit ${PIPESTATUS[0]}", 0),
        ("batchsvm train many m --lam 1 | true; exit ${PIPESTATUS[0]}", 0),
        ("batchsvm predict m many | head -n 1; exit ${PIPESTATUS[0]}", 0),
        ("batchsvm plan x >&-", 0),
        ("batchsvm plan x 2>&-", 0),
        ("batchsvm plan nothing 2>&-", 2),
        ("batchsvm train x m2 --lam 1 >&- 2>&-", 0),
        ("{ batchsvm plan nothing 3>&1 1>&2 2>&3 3>&- | true; }; exit ${PIPESTATUS[0]}", 2),
        ("batchsvm --help | true; exit ${PIPESTATUS[0]}", 0),
    ],
)
def test_a_closed_stream_is_no_drama(folder, line, status):
    if "predict" in line:
        shell(folder, "batchsvm train x m --lam 1")
    done = shell(folder, line)
    assert "Traceback" not in done.stderr + done.stdout
    assert "Exception ignored" not in done.stderr
    assert "BrokenPipe" not in done.stderr
    assert done.returncode == status


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="mknod is for root")
def test_a_full_stdout_is_one_line(folder):
    try:
        os.mknod(folder / "full", 0o666 | stat.S_IFCHR, os.makedev(1, 7))
        (folder / "full").open("wb").close()
    except OSError:
        pytest.skip("devices cannot be made or opened here")
    done = shell(folder, "batchsvm plan x > full")
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "No space left on device" in done.stderr
