"""What the streamed engine does with `max_memory`."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest
from sources_here import is_mapped, own_problem, placed, rows_like_text, source_of

import batchsvm
from batchsvm.engines.part_handles import Cut
from batchsvm.engines.streamed.alphas import Alphas
from batchsvm.engines.streamed.memory import (
    ALPHA_SHARE,
    BYTES_PER_ROW,
    RESIDENT_SHARE,
    VECTORS,
    Size,
    chunk_bytes,
    part_bytes,
    read_memory,
    spend,
)


@pytest.mark.parametrize(
    ("words", "size"),
    [
        ("600MB", 600 * 10**6), ("2 GB", 2 * 10**9), ("1.5gib", 3 * 2**29), ("7 kB", 7000),
        ("123", 123), (456, 456), ("2T", 2 * 10**12), (" 1 KiB ", 1024),
    ],
)  # fmt: skip
def test_words_are_bytes(words, size):
    assert read_memory(words) == size


@pytest.mark.parametrize("words", ["", "MB", "-1 GB", "1e9", "5 PB", "six", 0, -5, True, 1.5, [3]])
def test_other_words_are_refused(words):
    with pytest.raises(ValueError, match=r"^max_memory must be a number of bytes or words such as"):
        read_memory(words)


def test_without_words_it_is_a_share_of_the_machine():
    assert 10**8 < read_memory(None) < 10**13


def test_the_budget_is_divided_without_being_exceeded():
    size = Size(rows=10**6, columns=10**5, largest_part=20 * 10**6, longest_part=30_000)
    for budget in (10**8, 2 * 10**8, 10**9):
        found = spend(budget, size, 1)
        assert found.total <= budget
        assert found.parts == 3 * size.largest_part + BYTES_PER_ROW * size.longest_part
        assert found.vectors == VECTORS * 8 * 10**5
        assert found.alphas in (0, 24 * 10**6)
        assert (found.alphas > 0) == (24 * 10**6 <= ALPHA_SHARE * budget)
        assert 0 <= found.resident <= RESIDENT_SHARE * budget
    assert spend(10**9, size, 1).resident == RESIDENT_SHARE * 10**9
    words = r"^max_memory must be at least 71.9 MB for 1 problems over 100,000 columns \(8 MB\) and"
    with pytest.raises(ValueError, match=words):
        spend(5 * 10**7, size, 1)


def test_three_parts_and_some_chunks_fit_into_the_budget():
    for budget in (10**7, 10**9, 10**11):
        assert 3 * part_bytes(budget) <= 0.65 * budget
        assert 6 * chunk_bytes(budget) <= 0.5 * budget or budget < 10**7


def test_too_little_memory_is_refused_before_training():
    X, y = rows_like_text(d=3000)
    with placed(source_of(X, y), max_memory="100KB") as data:
        problem = own_problem(data)
        trainer = data.trainer(problem)
        with pytest.raises(ValueError, match=r"^max_memory must be at least .* not 100 KB$"):
            data.spending(problem)
        assert trainer.facts.rows == 1200


def test_dual_points_that_are_too_large_lie_on_the_disk(tmp_path):
    cut = Cut(10, [np.array([0, 3, 4]), np.array([1, 2, 5, 6, 7, 8, 9])])
    here, there = Alphas(cut, 2), Alphas(cut, 2, tmp_path)
    assert is_mapped(there._values)
    assert not is_mapped(here._values)
    for alphas in (here, there):
        assert not alphas.dual().fetch().any()
        alphas.of_part(0)[:, 1] = [1.0, 2.0, 3.0]
        np.testing.assert_array_equal(np.flatnonzero(alphas.dual().fetch()[:, 1]), [0, 3, 4])
        assert not alphas.dual().only(0).fetch().any()
    other = Alphas(cut, 2, tmp_path)
    other.of_part(1)[:] = 5.0
    there.set_to(other, np.array([True, False]))
    np.testing.assert_array_equal(there.dual().fetch()[:, 0], [0, 5, 5, 0, 0, *[5] * 5])
    np.testing.assert_array_equal(there.dual().fetch()[[0, 3, 4], 1], [1, 2, 3])
    assert not list(tmp_path.iterdir())  # nobody sees the files


PEAK = """
    import threading, time
    import numpy as np, scipy.sparse as sp
    from batchsvm.core.options import FitOptions
    from batchsvm.core.training import Start, train
    from batchsvm.engines import streamed
    from sources_here import own_problem
    from batchsvm.files.source import Chunk

    def anonymous():
        for line in open("/proc/self/status"):
            if line.startswith("RssAnon"):
                return int(line.split()[1]) * 1024

    class Part:
        def __init__(self, number): self.number, self.name = number, f"part {number}"
        def fingerprint(self): return self.name
        def chunks(self, max_bytes):
            rng = np.random.default_rng(self.number)
            rows = max(1, min(20_000, max_bytes // 480))
            for start in range(0, 20_000, rows):
                n = min(rows, 20_000 - start)
                indices = np.sort(rng.integers(0, 166, (n, 60), dtype=np.int32) , axis=1)
                indices = indices * 60 + np.arange(60, dtype=np.int32)
                indices.sort(axis=1)
                values = rng.random((n, 60), dtype=np.float32) / 5
                entries = values.ravel(), indices.ravel(), 60 * np.arange(n + 1)
                X = sp.csr_array(entries, shape=(n, 10_020))
                yield Chunk(X, np.where(values[:, 0] > values[:, 1], 1.0, -1.0), None)

    class Source:
        name = "rows"
        def __init__(self, parts): self.parts = [Part(j) for j in range(parts)]
        def one_pass(self, max_bytes):
            for part in self.parts: yield part, part.chunks(max_bytes)

    def fit(parts, **options):
        with streamed.place(Source(parts), **options) as data:
            problem = own_problem(data, lam=1e-4)
            found = train(data, problem, FitOptions(tol=0.0, max_epochs=3.0), Start(0))
            return sum(data.packed.loaded_bytes(p) for p in range(len(data.packed.parts)))

    fit(1, max_memory="20MB")  # compiles
    peak, before, stop = [0], anonymous(), []
    def watch():
        while not stop:
            peak[0] = max(peak[0], anonymous())
            time.sleep(0.002)
    watcher = threading.Thread(target=watch)
    watcher.start()
    size = fit(10, max_memory="20MB")
    stop.append(1)
    watcher.join()
    print(size, peak[0] - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="asks Linux for the memory")
def test_memory_stays_within_the_budget():
    here = Path(__file__).parent
    paths = [str(Path(batchsvm.__file__).parent.parent), str(here), str(here.parent)]
    code = f"import sys; sys.path[:0] = {paths!r}\n" + textwrap.dedent(PEAK)
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300)
    assert ran.returncode == 0, ran.stderr
    size, peak = map(int, ran.stdout.split())
    assert size > 5 * 20 * 10**6
    assert peak <= 20 * 10**6
