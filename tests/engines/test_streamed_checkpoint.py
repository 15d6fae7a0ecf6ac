"""Checkpoints of streamed training: whatever ends a run, the same call goes on with it."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from checkpoints_here import (
    OPTIONS,
    SOURCES,
    Killed,
    assert_same,
    contents,
    header_of,
    lams,
    place,
    stop_in_pass,
    three_classes,
    two_classes,
)
from sources_here import is_mapped

import batchsvm
from batchsvm.core import saving
from batchsvm.core.solution import Status
from batchsvm.engines.streamed.checkpoint_file import (
    BLOCK_BYTES,
    open_checkpoint,
    write_checkpoint,
)
from batchsvm.engines.streamed.trainer import StreamedTrainer


@pytest.fixture(autouse=True)
def _saves_every_pass(monkeypatch):
    monkeypatch.setattr(saving, "SHARE", 1.0)


@pytest.fixture
def file(tmp_path):
    return tmp_path / "run.checkpoint"


# Going on.


@pytest.mark.parametrize("train", SOURCES)
def test_a_run_that_was_ended_goes_on_as_if_nothing_was(train, file, monkeypatch):
    with place(train) as data:
        whole = train(data)
        reads = data.reads
    assert all(solution.status is Status.CONVERGED for solution in whole)
    passes = int(whole[0].history.epoch[-1])
    assert passes >= 5
    for number in (2, 3, passes - 1):
        with monkeypatch.context() as patch, place(train) as data:
            stop_in_pass(patch, number, Killed())
            with pytest.raises(Killed):
                train(data, checkpoint=file)
        assert header_of(file)["passes"] == number - 1
    with place(train) as data:
        assert_same(train(data, checkpoint=file), whole)
        assert data.reads <= reads - (passes - 2) + 1  # one to go on


def test_rows_in_memory_are_those_that_were(file, monkeypatch):
    seen = []
    with place(two_classes) as data:
        two_classes(data, max_epochs=4, checkpoint=file)
        rows = contents(file)[1]["resident_rows"]
        resume = StreamedTrainer.resume

        def watched(self, schedule, own):
            found = resume(self, schedule, own)
            seen.extend(self._resident.kept()[0])
            return found

        monkeypatch.setattr(StreamedTrainer, "resume", watched)
        two_classes(data, max_epochs=4, checkpoint=file)
    assert rows.size > 0
    np.testing.assert_array_equal(np.concatenate([own for _, own in seen]), rows)


def test_alphas_on_the_disk(file):
    with place(two_classes) as data:
        whole = two_classes(data)
    for how in ({"max_epochs": 3}, {}):
        with place(two_classes) as data:
            spending = data.spending
            data.spending = lambda problem, own=spending: own(problem)._replace(alphas=0)
            found = two_classes(data, checkpoint=file, **how)
            assert is_mapped(found[0].dual.parts[0].alpha)
    np.testing.assert_array_equal(found[0].alpha, whole[0].alpha)


def test_ctrl_c_leaves_a_file_to_go_on_from(file, monkeypatch):
    with place(two_classes) as data:
        whole = two_classes(data)
    with monkeypatch.context() as patch, place(two_classes) as data:
        stop_in_pass(patch, 4, KeyboardInterrupt())
        [found] = two_classes(data, checkpoint=file)
    assert found.status is Status.INTERRUPTED
    with place(two_classes) as data:
        assert_same(two_classes(data, checkpoint=file), whole)


def test_a_run_that_has_ended_returns_at_once(file):
    with place(two_classes) as data:
        whole = two_classes(data, checkpoint=file)
        before, reads = file.read_bytes(), data.reads
        again = two_classes(data, checkpoint=file)
        assert data.reads == reads + 1  # the certificate, from scratch
    assert_same(again, whole)
    assert file.read_bytes() == before


@pytest.mark.parametrize("train", [two_classes, three_classes])
def test_tol_and_max_epochs_may_change(train, file):
    with place(train) as data:
        whole = train(data)
    for how in ({"tol": 1e-2}, {"tol": 1e-3, "max_epochs": 2}, {"tol": 1e-3}, {}):
        with place(train) as data:
            found = train(data, checkpoint=file, **how)
    for ours, theirs in zip(found, whole, strict=True):
        assert ours.status is Status.CONVERGED
        assert ours.certificate.dual_below <= theirs.certificate.primal_above
    if train is two_classes:
        np.testing.assert_array_equal(found[0].alpha, whole[0].alpha)


def test_problems_that_are_done_do_not_keep_others_waiting(file):
    with place(lams) as data:
        found = lams(data, tol=1e-3, max_epochs=4, checkpoint=file)
        assert [own.status for own in found] == [Status.CONVERGED, Status.MAX_EPOCHS]
        again = lams(data, tol=1e-9, max_epochs=4, checkpoint=file)
        assert [own.status for own in again] == [Status.MAX_EPOCHS] * 2


def test_the_seed_is_that_of_the_file(file):
    how = {"random_state": None}
    with place(two_classes) as data:
        two_classes(data, max_epochs=3, checkpoint=file, **how)
        seed = header_of(file)["asked"]["random_state"]
        found = two_classes(data, checkpoint=file, **how)
        whole = two_classes(data, **{**how, "random_state": seed})
    np.testing.assert_array_equal(found[0].alpha, whole[0].alpha)


def test_a_certificate_never_comes_from_a_file(file, monkeypatch):
    """Sums are made of the rows, even if a file has the best of histories."""
    with place(two_classes) as data:
        two_classes(data, max_epochs=3, checkpoint=file)
        save = StreamedTrainer.save

        def praised(self, own, note):
            lines = [line.copy() for line in note.records]
            for line in lines:
                line[:, 4:7] = 0.0
            save(self, own, note._replace(records=lines))

        monkeypatch.setattr(StreamedTrainer, "save", praised)
        two_classes(data, max_epochs=4, checkpoint=file)
        monkeypatch.undo()
        [found] = two_classes(data, max_epochs=4, checkpoint=file)
        assert found.status is Status.MAX_EPOCHS
        again = batchsvm.certify(data, None, found.w, found.alpha, lam=OPTIONS["lam"])
    assert found.certificate.gap == pytest.approx(again.gap, rel=1e-9)


# Killed.

KILLS = """
    import os, pathlib, signal, sys, time
    sys.path.insert(0, {tests!r})
    import numpy as np
    from sources_here import placed, rows_like_text, source_of
    import batchsvm
    from batchsvm.core import saving
    from batchsvm.engines.streamed import checkpoint, checkpoint_file
    from batchsvm.engines.streamed.trainer import StreamedTrainer

    saving.SHARE = 1.0
    X, Y = rows_like_text()
    path, options = {path!r}, dict(lam=1e-3, tol=1e-5, random_state=7)

    def fit(**how):
        with placed(source_of(X, Y)) as data:
            found = batchsvm.fit(data, **options, **how)
            return found.alpha.tobytes(), found.certificate

    def die(*_):
        os.kill(os.getpid(), signal.SIGKILL)

    def die_in_pass(number):
        def store(self, part, before=StreamedTrainer._store):
            before(self, part)
            if self._pass == number:
                die()
        StreamedTrainer._store = store

    def die_while_writing(blocks):
        def some(text, arrays, before=checkpoint_file._blocks):
            for count, block in enumerate(before(text, arrays)):
                if count == blocks:
                    die()
                yield block
        checkpoint_file._blocks = some

    def die_after_writing(count):
        def save(*own, before=checkpoint.save, left=[count]):
            before(*own)
            left[0] -= 1
            left[0] or die()
        checkpoint.save = save

    def run(arrange, *how):
        child = os.fork()
        if child == 0:
            arrange(*how)
            fit(checkpoint=path)
            os._exit(0)
        return child

    def ended(child):
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

    whole, certificate = fit()
    ends = [
        (die_while_writing, 0),
        (die_after_writing, 2),
        (die_in_pass, 4),
        (die_while_writing, 4),
        (die_after_writing, 1),
    ]
    for end in ends:
        assert ended(run(*end)) == -signal.SIGKILL, end
    for delay in (0.05, 0.2):  # whatever it does then
        child = run(lambda: None)
        time.sleep(delay)
        os.kill(child, signal.SIGKILL)
        assert ended(child) in (0, -signal.SIGKILL)
    passes = checkpoint_file.open_checkpoint(pathlib.Path(path)).header["passes"]
    alpha, again = fit(checkpoint=path)
    assert alpha == whole
    assert abs(again.gap - certificate.gap) <= 1e-12 * certificate.gap + 1e-15, again.gap
    left = [name for name in os.listdir(os.path.dirname(path)) if name.endswith(".partial")]
    print(passes, len(left))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are forked")
def test_a_process_that_is_killed(file):
    script = KILLS.format(tests=str(Path(__file__).parent), path=str(file))
    command = [sys.executable, "-c", textwrap.dedent(script)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    passes, left = map(int, done.stdout.split())
    assert passes >= 4  # each of them has gone on from the one before
    assert left == 0  # what they were writing is removed by the next


# Writing.


def test_a_disk_that_is_full_does_not_end_training(file, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("batchsvm.engines.streamed.checkpoint.write_checkpoint", full)
    with place(two_classes) as data:
        with pytest.warns(RuntimeWarning, match="the checkpoint cannot be written") as seen:
            [found] = two_classes(data, checkpoint=file)
        assert len(seen) == 1
    assert found.status is Status.CONVERGED


def test_writing_takes_a_share_of_the_time(monkeypatch):
    class Trainer:
        on_pass, unsaved, saved = None, True, 0

        def save(self, own, note):
            self.saved += 1
            clock[0] += 2.0

    clock, trainer = [100.0], Trainer()
    monkeypatch.setattr(saving, "SHARE", 0.1)
    monkeypatch.setattr(saving, "perf_counter", lambda: clock[0])
    saver = saving.Saver(trainer, None, lambda: None)
    for _ in range(100):
        trainer.on_pass()
        clock[0] += 5.0
    assert trainer.saved == 25  # the first at once, then one for 18 s of training, in steps of 5 s
    saver.save()
    assert trainer.saved == 26
    trainer.unsaved = False
    saver.save()
    assert trainer.saved == 26


def test_arrays_are_written_and_read_without_a_copy(file):
    large = np.arange(4 * BLOCK_BYTES, dtype=np.float64).reshape(2, -1)
    back = np.empty_like(large)
    tracemalloc.start()
    try:
        write_checkpoint(file, {}, [("large", large)])
        with open_checkpoint(file) as saved:
            saved.read_into("large", back)
        assert tracemalloc.get_traced_memory()[1] < 3 * BLOCK_BYTES
    finally:
        tracemalloc.stop()
    np.testing.assert_array_equal(back, large)


def test_what_is_open_stays_what_it_is(file):
    with place(two_classes) as data:
        two_classes(data, max_epochs=3, checkpoint=file)
        [whole] = two_classes(data)
        # Each pass replaces the file that this one goes on from.
        [found] = two_classes(data, checkpoint=file)
    np.testing.assert_array_equal(found.alpha, whole.alpha)
    assert header_of(file)["passes"] == whole.history.epoch[-1]
