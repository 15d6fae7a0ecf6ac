"""Training on a cluster: the optimum of the cpu engine, the same bits, a dual that never falls,
sums by the workers, and rows from sources and from Ray."""

from __future__ import annotations

from math import inf

import numpy as np
import pytest
from rows import LAM, place, problem_of, rows, serial

import batchsvm
from batchsvm.core.options import FitOptions
from batchsvm.core.parallel import StopFlag
from batchsvm.core.problem import make_problem
from batchsvm.core.training import Start, train
from batchsvm.engines import place_on
from batchsvm.files.formats import write
from batchsvm.files.sources import open_source
from batchsvm.losses import LOSSES

pytestmark = pytest.mark.usefixtures("_cluster")


def test_the_optimum_is_that_of_the_cpu_engine():
    X, y = rows()
    expected = batchsvm.fit(X, y, lam=LAM, tol=1e-4, random_state=0)
    for deterministic in (True, False):
        with place(X, workers=3, deterministic=deterministic) as data:
            assert data.deterministic is deterministic
            found = batchsvm.fit(data, y, lam=LAM, tol=1e-4, random_state=0, max_epochs=10**4)
        assert found.status.converged
        bounds = found.certificate.bound + expected.certificate.bound
        assert abs(found.certificate.primal - expected.certificate.primal) <= bounds


def test_the_same_seed_gives_the_same_bits_on_other_workers():
    X, y = rows()
    found = []
    for seed in (3, 3, 4):
        with place(X, workers=3) as data:
            solution = batchsvm.fit(
                data, y, lam=LAM, tol=0.0, max_epochs=5, random_state=seed, warn=False
            )
            found.append((solution.w, solution.alpha, solution.history.gap))
    for first, second, other in zip(*found, strict=True):
        np.testing.assert_array_equal(first, second)
        assert not np.array_equal(first, other)


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge", "logistic"])
def test_the_dual_never_falls_even_if_all_workers_have_the_same_rows(loss):
    """Then their steps overshoot most; the conjugates are linear, quadratic, and neither."""
    X, y = rows(n=60)
    X, y = np.tile(X, (4, 1)), np.tile(y, 4)
    duals = []
    with place(X, workers=4) as data:
        batchsvm.fit(
            data, y, loss, lam=LAM, tol=0.0, max_epochs=20, random_state=0, warn=False,
            checkpoints=range(20, 10**5, 20),
            callback=lambda seen: duals.append(seen.certificate.dual) and False,
        )  # fmt: skip
    assert len(duals) > 100
    assert np.all(np.diff(duals) >= -1e-13)
    assert duals[-1] > duals[0] + 0.05


@pytest.mark.parametrize("workers", [2, 5])
def test_sums_by_the_workers_are_those_by_the_driver(workers):
    X, y = rows()
    W = np.random.default_rng(1).normal(size=(X.shape[1], 1))
    with place(X, workers=workers) as data:
        problem = problem_of(data, y)
        called, call = [], data.workers.call
        data.workers.call = lambda p, method, *a, **k: (
            called.append((p, method)) or call(p, method, *a, **k)
        )
        found = []
        for limit in (inf, 0):
            data.workers.min_tree_bytes = limit
            called.clear()
            dual = data.dual_at(problem, W)
            trainer = data.trainer(problem)
            trainer.start(serial())
            trainer.run(600, np.array([-inf]), StopFlag())
            sums, combination = data.point_sums(problem, W, dual)
            found.append((sums.values, combination, data.gram_times(W), trainer.point().copy()))
            adds = [p for p, method in called if method == "add"]
            assert len(adds) % (workers - 1) == 0
            assert bool(adds) is (limit == 0)
            if limit == 0 and workers == 5:
                assert len(set(adds)) > 1  # not by one worker alone
    for by_driver, by_workers in zip(*found, strict=True):
        np.testing.assert_array_equal(by_driver, by_workers)
    np.testing.assert_allclose(found[0][2], _gram_times(X, W))


def _gram_times(X, W):
    full = X / np.linalg.norm(X, axis=1, keepdims=True)
    return full.T @ (full @ W)


def test_files_are_read_by_the_workers(tmp_path):
    X, y = rows(n=90)
    words = np.where(y > 0, "yes", "no")
    for j, own in enumerate(np.array_split(np.arange(90), 5)):
        columns = [f"x{k}" for k in range(X.shape[1])]
        write(tmp_path / f"{j}.parquet", X[own], words[own], names=columns)
    source = open_source(str(tmp_path), y="label")
    with place(source, workers=2) as data:
        assert (data.n, data.d) == X.shape
        assert data.labels.classes.tolist() == ["no", "yes"]
        np.testing.assert_allclose(data.scores(np.eye(X.shape[1])), X)
        problem = make_problem(data.targets(), LOSSES["hinge"](), LAM)
        [found] = train(data, problem, FitOptions(max_epochs=10**4), Start(0))
    expected = batchsvm.fit(X, y, lam=LAM, random_state=0)
    bounds = found.certificate.bound + expected.certificate.bound
    assert abs(found.certificate.primal - expected.certificate.primal) <= bounds


def test_the_chunks_of_one_file_are_shared_by_the_workers():
    X, y = rows(n=90)
    chunks = [(X[a : a + 30], y[a : a + 30]) for a in (0, 30, 60)]
    with place(open_source(chunks), workers=5) as data:  # some have nothing to do
        np.testing.assert_allclose(data.scores(np.eye(X.shape[1])), X)
        assert len(data.workers) == 3


@pytest.mark.filterwarnings("default")  # Ray warns of its own plans
def test_a_data_set_of_ray_stays_where_it_is():
    import pyarrow
    import ray.data

    X, y = rows(n=90)
    names = [f"x{k}" for k in range(X.shape[1])]
    tables = [
        pyarrow.table({"label": y[own], "w": y[own] + 2, **dict(zip(names, X[own].T, strict=True))})
        for own in np.array_split(np.arange(90), 3)
    ]
    given = ray.data.from_arrow(tables)
    with place_on(
        "auto", given, 1, workers=2, y="label", sample_weight="w", deterministic=True
    ) as data:
        assert (data.engine, data.n, data.d) == ("ray", *X.shape)
        problem = make_problem(data.targets(), LOSSES["hinge"](), LAM)
        assert data.facts(problem).total_weight[0] == pytest.approx((y + 2).sum())
        [found] = train(data, problem, FitOptions(max_epochs=10**4), Start(0))
    expected = batchsvm.fit(X, y, lam=LAM, sample_weight=y + 2, random_state=0)
    bounds = found.certificate.bound + expected.certificate.bound
    assert abs(found.certificate.primal - expected.certificate.primal) <= bounds
    with pytest.raises(ValueError, match=r"^y must be the name of a column of the ray"):
        place(given, y="nothing")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"workers": 0}, r"^workers must be None or an integer from 1 to 4096, not 0$"),
        ({"worker_resources": 3}, r"^worker_resources must be a dict of options .*, not 3$"),
        ({"timeout": -1}, r"^timeout must be a finite positive number of seconds, not -1$"),
        ({"y": "label"}, r"^y must be None unless X is a ray.data.Dataset, not 'label'$"),
    ],
)
def test_options_that_make_no_sense_are_refused(options, words):
    with pytest.raises(ValueError, match=words):
        place(np.eye(3), **options)


def test_options_of_this_engine_are_refused_elsewhere():
    with pytest.raises(
        ValueError, match=r'^workers must be None for engine="cpu", not 2: it is for'
    ):
        place_on("cpu", np.eye(3), 1, workers=2)


@pytest.mark.parametrize("classes", [1, 2, 3])
def test_the_weight_of_each_class_of_a_source(tmp_path, classes):
    X, _ = rows()
    y = np.arange(len(X)) % classes
    for j in range(2):
        np.savez(tmp_path / f"part-{j}.npz", X=X[j::2], y=y[j::2])
    with place(open_source(str(tmp_path))) as data:
        np.testing.assert_allclose(data.class_totals(), np.bincount(y))
