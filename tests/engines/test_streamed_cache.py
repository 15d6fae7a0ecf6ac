"""Where packed parts are, how long they stay, and what becomes of damaged ones."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

import numpy as np
import pytest
from setting import dense
from sources_here import own_problem, placed, rows_like_text, source_of

import batchsvm
from batchsvm.core.loop import DataLostError
from batchsvm.core.options import FitOptions
from batchsvm.core.solution import Status
from batchsvm.core.training import Start, train
from batchsvm.engines.streamed import cache as caches
from batchsvm.engines.streamed.packed import MANIFEST

X, Y = rows_like_text()
W = np.random.default_rng(0).normal(size=(X.shape[1], 1))


@pytest.fixture
def temporary(tmp_path, monkeypatch):
    """The folder in which temporary folders are made."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


# Temporary folders.


def test_a_temporary_folder_goes_away_with_the_data(temporary):
    with placed(source_of(X, Y)) as data:
        [folder] = temporary.iterdir()
        assert data.packed.folder == folder
        assert (folder / "00000.values").exists()
    assert not list(temporary.iterdir())


def test_a_temporary_folder_goes_away_after_an_error(temporary):
    bad = Y.copy()
    bad[-1] = np.nan
    with pytest.raises(ValueError, match="y must be finite"):
        placed(source_of(X, bad), max_memory="50KB")
    assert not list(temporary.iterdir())


def test_a_temporary_folder_goes_away_if_nobody_closes_it(temporary):
    placed(source_of(X, Y))
    import gc

    gc.collect()
    assert not list(temporary.iterdir())


ENDLESS = """
    import signal
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background ignores it
    from batchsvm.core.options import FitOptions
    from batchsvm.core.training import Start, train
    from sources_here import own_problem, placed, rows_like_text, source_of

    data = placed(source_of(*rows_like_text()))
    trained = own_problem(data, lam=1e-6)

    def begun(k, checkpoint):
        if checkpoint.iteration > 0:  # not before: a compiler swallows Ctrl-C
            print("begins", flush=True)

    {how}
"""


@pytest.mark.parametrize("how", ["train", "sleep"])
def test_ctrl_c_leaves_nothing_behind(tmp_path, how):
    options = "FitOptions(tol=0.0, max_epochs=1e9, callback=begun)"
    lines = {
        "train": f"train(data, trained, {options}, Start(0))",
        "sleep": "import time; print('begins', flush=True); time.sleep(100)",
    }
    here = Path(__file__).parent
    paths = [str(Path(batchsvm.__file__).parent.parent), str(here), str(here.parent)]
    code = textwrap.dedent(ENDLESS).replace("{how}", lines[how])
    code = f"import sys; sys.path[:0] = {paths!r}\n{code}"
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        env={**os.environ, "TMPDIR": str(tmp_path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == "begins\n"
    assert [path for path in tmp_path.iterdir() if path.name.startswith(caches.PREFIX)]
    process.send_signal(signal.SIGINT)
    try:
        process.communicate(timeout=60)
    finally:
        process.kill()
        process.wait()
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(caches.PREFIX)]


def test_folders_of_killed_processes_are_removed_and_others_are_not(tmp_path):
    dead, alive = tmp_path / "x-dead", caches.TemporaryFolder(tmp_path, "x-")
    dead.mkdir()
    (dead / caches.LOCK).touch()
    caches.remove_stale(tmp_path, "x-")
    assert list(tmp_path.iterdir()) == [alive.path]
    alive.close()
    assert not list(tmp_path.iterdir())


# Folders that are kept.


def test_kept_parts_are_used_again_at_once(tmp_path, capsys):
    source = source_of(X, Y)
    with placed(source, cache=tmp_path / "kept") as data:
        assert not data.reused
        first = data.scores(W)
    assert source.times_read == [1, 1, 1]
    assert "packed parts" not in capsys.readouterr().err
    with placed(source, cache=tmp_path / "kept") as data:
        assert data.reused
        np.testing.assert_array_equal(data.scores(W), first)
        assert data.labels.classes.tolist() == [-1, 1]
        assert data.mean_norm2 == pytest.approx(1.0)
    assert source.times_read == [1, 1, 1]
    assert "uses the packed parts in" in capsys.readouterr().err
    [folder] = (tmp_path / "kept").iterdir()
    assert (folder / MANIFEST).exists()


def test_words_are_kept_as_labels(tmp_path):
    words = np.where(Y > 0, "spam", "ham")
    for reused in (False, True):
        with placed(source_of(X, words), cache=tmp_path) as data:
            assert data.reused == reused
            assert data.labels.classes.tolist() == ["ham", "spam"]
            low = data.constant_sums(own_problem(data), np.array([-1.0])).losses[0]
    assert low == 2 * (Y > 0).sum()


@pytest.mark.parametrize("change", ["fingerprint", "options", "manifest", "unfinished"])
def test_other_data_are_packed_anew(tmp_path, change):
    source, memory = source_of(X, Y), "4MB"
    placed(source, cache=tmp_path).close()
    [folder] = tmp_path.iterdir()
    if change == "fingerprint":
        source.parts[1].version += 1
    elif change == "options":
        memory = "5MB"
    elif change == "manifest":
        content = json.loads((folder / MANIFEST).read_text())
        content["parts"][0]["rows"] = -3
        (folder / MANIFEST).write_text(json.dumps(content))
    else:
        (folder / MANIFEST).unlink()
    with placed(source, cache=tmp_path, max_memory=memory) as data:
        assert not data.reused
        np.testing.assert_allclose(data.scores(W), X @ W)
    assert source.times_read == [2, 2, 2]


def test_a_folder_under_the_name_of_another_is_not_taken_for_it(tmp_path):
    names = []
    for memory in ("4MB", "5MB"):
        placed(source_of(X, Y), cache=tmp_path, max_memory=memory).close()
        names += [path for path in tmp_path.iterdir() if path not in names]
    shutil.rmtree(names[0])
    names[1].rename(names[0])
    with placed(source_of(X, Y), cache=tmp_path) as data:
        assert not data.reused


def test_packing_that_fails_leaves_no_folder(tmp_path):
    bad = Y.copy()
    bad[-1] = np.nan
    with pytest.raises(ValueError, match="y must be finite"):
        placed(source_of(X, bad), cache=tmp_path)
    assert not list(tmp_path.iterdir())


def test_x_in_memory_is_not_kept(tmp_path):
    with pytest.raises(ValueError, match=r"^cache must be None for X in memory, not '.*'$"):
        placed(X, cache=tmp_path)


def test_a_cache_that_is_no_folder_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match=r"^cache must be a folder, but .*file cannot be made"):
        placed(source_of(X, Y), cache=tmp_path / "file")


# Damage.


def flip(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 64
    path.write_bytes(content)


def cut(path):
    path.write_bytes(path.read_bytes()[:-1])


@pytest.mark.parametrize("damage", [flip, cut, Path.unlink])
@pytest.mark.parametrize("name", ["values", "indices", "lengths", "norms2", "y"])
def test_a_damaged_part_is_made_anew(tmp_path, name, damage):
    source = source_of(X, Y)
    placed(source, cache=tmp_path).close()
    [folder] = tmp_path.iterdir()
    damage(folder / f"00002.{name}")
    with placed(source, cache=tmp_path) as data:
        assert data.reused
        words = rf"00002\.{name} .*; the part was made anew from the source$"
        with pytest.warns(RuntimeWarning, match=words):
            found = data.scores(W)
        np.testing.assert_allclose(found, X @ W)
        np.testing.assert_allclose(data.scores(W), X @ W)  # without another warning
        facts = data.facts(own_problem(data))
        assert facts.losses_at_zero[0] == 1200
    assert source.times_read == [2, 2, 2]
    assert not list(folder.glob(".anew*"))


def test_damage_between_two_reads_is_noticed(tmp_path):
    with placed(source_of(X, Y), cache=tmp_path) as data:
        data.scores(W)
        flip(data.packed.path(1, "values"))
        with pytest.warns(RuntimeWarning, match=r"does not have the checksum that was written"):
            found = data.scores(W)
        np.testing.assert_allclose(found, X @ W)
        np.testing.assert_array_equal(dense(data.sample(np.arange(9))), X[:9].toarray())


def test_a_checksum_that_is_right_does_not_make_indices_right(tmp_path):
    import zlib

    placed(source_of(X, Y), cache=tmp_path).close()
    [folder] = tmp_path.iterdir()
    path = folder / "00000.indices"
    indices = np.fromfile(path, np.int32)
    indices[7] = 10**9
    path.write_bytes(indices.tobytes())
    content = json.loads((folder / MANIFEST).read_text())
    content["parts"][0]["checksums"]["indices"] = zlib.crc32(indices.tobytes())
    (folder / MANIFEST).write_text(json.dumps(content))
    with (
        placed(source_of(X, Y), cache=tmp_path) as data,
        pytest.raises(DataLostError, match="hold no valid rows, and it cannot be made anew"),
    ):
        data.scores(W)


def test_a_part_whose_source_has_changed_is_lost():
    source = source_of(X, Y)
    with placed(source) as data:
        data.packed.path(3, "values").unlink()
        source.parts[2].version += 1
        with pytest.raises(
            DataLostError, match="cannot be made anew: chunk 2: it has changed since"
        ):
            data.scores(W)


@pytest.mark.parametrize("begun", [True, False])
def test_training_ends_with_what_was_certified_if_data_are_lost(begun):
    source = source_of(X, Y)
    seen = []
    with placed(source) as data:
        problem = own_problem(data, lam=1e-3)

        def callback(_, checkpoint):
            seen.append(checkpoint.certificate)
            if len(seen) == (3 if begun else 1):
                data.packed.path(3, "values").unlink()
                source.parts[0].version += 1

        options = FitOptions(tol=1e-9, max_epochs=100.0, callback=callback)
        with pytest.warns(
            RuntimeWarning, match=r"chunk 0: it has changed .*: training ends with the"
        ):
            [found] = train(data, problem, options, Start(0))
    assert found.status is Status.DATA_LOST
    assert found.certificate.gap == pytest.approx(
        min(c.primal for c in seen) - max(c.dual for c in seen)
    )
    assert found.w.any() == begun
    assert found.alpha.shape == (1200,)


def test_data_lost_before_anything_is_certified_are_an_error():
    source = source_of(X, Y)
    with placed(source) as data:
        problem = own_problem(data)
        alpha = np.full((1200, 1), 0.5)
        data.packed.path(3, "values").unlink()
        source.parts[0].version += 1
        with pytest.raises(DataLostError, match="cannot be made anew"):
            train(data, problem, FitOptions(), Start(0, alpha))
