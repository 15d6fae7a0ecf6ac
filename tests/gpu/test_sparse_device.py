"""The kernels for sparse rows and for mini-batch steps on a CUDA device, against NumPy's.

Skipped where there is no device.  Each test feeds the same input to a kernel and to its counterpart
in `tests/simulated_sparse.py`.
"""

from __future__ import annotations

from time import perf_counter

import numpy as np
import pytest
import scipy.sparse as sp

cupy = pytest.importorskip("cupy")

from batchsvm.core.layout import Schedule  # noqa: E402
from batchsvm.core.options import read_options  # noqa: E402
from batchsvm.core.parallel import StopFlag  # noqa: E402
from batchsvm.core.problem import make_problem  # noqa: E402
from batchsvm.core.solution import Status  # noqa: E402
from batchsvm.core.training import Start, train  # noqa: E402
from batchsvm.engines.gpu.dataset import place  # noqa: E402
from batchsvm.engines.gpu.sparse_kernels import Control  # noqa: E402
from batchsvm.losses import LOSSES  # noqa: E402
from batchsvm.methods import Aggressive, Naive, Pegasos, Safe  # noqa: E402
from gpu.pairs import loss_of  # noqa: E402
from simulated import place_simulated  # noqa: E402

REALS = {"float32": 2e-4, "float64": 1e-9}  # and how far apart the results may be


def text_like(n=3000, d=5000, length=40, seed=0):
    """Rows of norm 1 whose columns are words, some of them frequent, and two noisy classes."""
    rng = np.random.default_rng(seed)
    columns = np.minimum((d * rng.random((n, length)) ** 3).astype(int), d - 1)
    rows = np.repeat(np.arange(n), length)
    X = sp.csr_array((rng.random(n * length) + 0.1, (rows, columns.ravel())), shape=(n, d))
    X = sp.csr_array(sp.diags_array(1 / np.sqrt(X.multiply(X).sum(axis=1))) @ X)
    score = X @ rng.normal(size=d)
    return X, np.where(score + 0.3 * score.std() * rng.normal(size=n) > 0, 1.0, -1.0)


def stored(X, form):
    kind, *rest = form.split("-")
    if kind == "dense":
        return X.toarray().astype(rest[0])
    found = X.astype(rest[0])
    if kind == "device":
        return cupy_csr(found)
    found.indices, found.indptr = found.indices.astype(rest[1]), found.indptr.astype(rest[1])
    return found


def cupy_csr(X):
    from cupyx.scipy.sparse import csr_matrix

    parts = (cupy.asarray(X.data), cupy.asarray(X.indices), cupy.asarray(X.indptr))
    return csr_matrix(parts, shape=X.shape)


SPARSE = ["csr-float32-int32", "csr-float64-int64", "device-float32"]
FORMS = [*SPARSE, "dense-float32", "dense-float16"]


class Pair:
    """One problem on the device and on its simulation."""

    def __init__(self, form, loss_name="hinge", n=700, d=300, radius=np.inf, full=True):
        X, y = text_like(n, d, 12)
        rng = np.random.default_rng(1)
        loss = loss_of(loss_name)
        y = y if loss.task == "classification" else y + rng.normal(size=n)
        weight, offset = rng.integers(0, 4, n) / 2, 0.3 * rng.normal(size=n)
        own = stored(X, form)
        self.X = X
        host = own.get() if form.startswith("device") else own
        self.data = place(own), place_simulated(host)
        stated = {"bias": 0.5, "offset": 0.1} if full else {}
        columns = (y, weight, offset) if full else (y,)
        self.problems = [
            make_problem(data.targets(*columns), loss, 1e-3, radius=radius, **stated)
            for data in self.data
        ]

    def trainers(self, method, b, precision, **kwargs):
        schedule = Schedule(method, b, seed=3, precision=precision, **{"beta_b": 4.0, **kwargs})
        found = [d.trainer(p) for d, p in zip(self.data, self.problems, strict=True)]
        for trainer in found:
            trainer.start(schedule)
        return [trainer._trainer for trainer in found]


def host(array):
    """An array of the device or of the simulation."""
    return array if isinstance(array, np.ndarray) else cupy.asnumpy(array)


def close(name, found, expected, tolerance):
    """Fail with the largest difference and where it is."""
    found, expected = np.asarray(found, np.float64), np.asarray(expected, np.float64)
    assert found.shape == expected.shape, f"{name}: {found.shape} is not {expected.shape}"
    off = np.abs(found - expected)
    size = np.abs(expected).max() if expected.size else 0.0
    worst = np.unravel_index(np.argmax(off), off.shape) if off.size else ()
    assert np.isfinite(found).all(), (
        f"{name} is not finite at {np.argwhere(~np.isfinite(found))[:3]}"
    )
    assert not off.size or off.max() <= tolerance * max(size, 1e-30), (
        f"{name} is off by {off[worst]:.3g} at {worst}: {found[worst]!r} instead of"
        f" {expected[worst]!r}; {np.count_nonzero(off > tolerance * size)} of {off.size} are off"
    )


@pytest.mark.parametrize("form", ["csr-float32-int32", "csr-float64-int64", "device-float32"])
@pytest.mark.parametrize("deterministic", [False, True])
def test_passes_over_sparse_rows(form, deterministic):
    device, simulated = Pair(form).data
    device.rows.deterministic = deterministic
    rng = np.random.default_rng(0)
    n, d = device.n, device.d
    close("norms2", host(device.norms2), simulated.norms2, 1e-14)
    for K in (1, 3, 6):
        W, cut = rng.normal(size=(K, d)), rng.permutation(n)[:500].astype(np.int32)
        cut[::7] = -1
        c = rng.normal(size=(K, cut.size))
        found = []
        for data in (device, simulated):
            with data.device as at:
                up = at.upload
                products, combined = at.xp.empty((K, cut.size)), at.xp.ones((K, d))
                data.rows.products(up(cut), up(W), products)
                data.rows.combine(up(cut), up(c), combined)
                found.append((at.to_host(products), at.to_host(combined)))
        close(f"products of {K}", found[0][0], found[1][0], 1e-12)
        close(f"combination of {K}", found[0][1], found[1][1], 1e-12)
    rows = rng.permutation(n)[:50]
    close("rows", device.sample(rows).toarray(), simulated.sample(rows).toarray(), 0)
    part = device.subset(rows)
    close("taken rows", part.scores(np.eye(d)[:, :3]), simulated.scores(np.eye(d)[:, :3])[rows], 0)


def test_a_fixed_order_has_the_same_bits_every_time():
    data = Pair("csr-float32-int32").data[0]
    data.rows.deterministic = True
    c = np.random.default_rng(0).normal(size=(1, data.n))
    with data.device as at:
        cut, c = at.xp.arange(data.n, dtype=np.int32), at.upload(c)
        sums = [at.xp.zeros((1, data.d)) for _ in range(3)]
        for out in sums:
            data.rows.combine(cut, c, out)
        assert all((out == sums[0]).all() for out in sums)


def compare_states(device, simulated, tolerance):
    control = [np.nan_to_num(host(t.state.control)) for t in (device, simulated)]
    close("control", *control, 10 * tolerance)  # beta of Pegasos is NaN
    close("w", host(device.state.w), simulated.state.w, tolerance)
    close("alpha", host(device.state.alpha), simulated.state.alpha, tolerance)
    if device.state.rule != "ADAPTIVE":
        assert not host(device.state.deltas).any(), "deltas are not cleared"


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("real", REALS)
@pytest.mark.parametrize("method", [Naive(), Safe(step="literal"), Aggressive(), Pegasos()])
def test_steps_over_every_kind_of_rows(form, real, method):
    device, simulated = Pair(form, "smoothed_hinge").trainers(method, 30, real)
    for count in (1, 4, 24):  # and what a launch leaves to the next one
        for trainer in (device, simulated):
            trainer.run(trainer._iteration + count, np.array([-np.inf]), StopFlag())
        compare_states(device, simulated, REALS[real])


@pytest.mark.parametrize("loss_name", LOSSES)
@pytest.mark.parametrize("real", REALS)
@pytest.mark.parametrize("method", [Safe(), Aggressive(gamma=0.7), Pegasos(radius=0.4)])
def test_steps_of_every_loss(loss_name, real, method):
    radius = getattr(method, "radius", np.inf)
    pair = Pair("csr-float32-int32", loss_name, radius=radius)
    device, simulated = pair.trainers(method, 64, real)
    for trainer in (device, simulated):
        trainer.run(8, np.array([-np.inf]), StopFlag())
    # Kinks: a response that rounds to the other side of one moves a whole subgradient.
    loose = 10 if isinstance(method, Pegasos) and real == "float32" else 1
    compare_states(device, simulated, loose * REALS[real])


@pytest.mark.parametrize("b", [1, 33, 699, 700])
def test_batches_of_any_size(b):
    device, simulated = Pair("csr-float32-int32").trainers(Aggressive(), b, "float64")
    for trainer in (device, simulated):
        trainer.run(5, np.array([-np.inf]), StopFlag())
    compare_states(device, simulated, 1e-8)


def test_steps_that_are_refused_are_taken_back():
    device, simulated = Pair("dense-float32").trainers(Aggressive(gamma=0.5), 350, "float64")
    for trainer in (device, simulated):
        trainer.state.control[Control.BETA] = 0.05  # far too long steps
        trainer.run(6, np.array([-np.inf]), StopFlag())
    assert simulated.refused > 0, "the simulation refuses nothing: this test tests nothing"
    compare_states(device, simulated, 1e-8)


def test_the_estimate_of_an_epoch():
    device, simulated = Pair("csr-float32-int32").trainers(Safe(), 64, "float64")
    shown = [t.run(11, np.array([1e9]), StopFlag()).estimates for t in (device, simulated)]
    close("estimate", *shown, 1e-9)


@pytest.mark.parametrize("places", [5, 64, 90])
def test_a_pass_in_blocks_that_end_within_batches(monkeypatch, places):
    device, simulated = Pair("csr-float32-int32").trainers(Safe(), 30, "float64")
    for trainer in (device, simulated):
        trainer.run(20, np.array([-np.inf]), StopFlag())
    W = simulated.point()
    monkeypatch.setattr("batchsvm.engines.gpu.passes.SPACE_BYTES", 8 * places)
    close("sums", device.sums(W).values, simulated.sums(W).values, 1e-9)
    close("combination", device.combination(), simulated.combination(), 1e-9)


def test_w_goes_with_alpha_after_many_epochs():
    """A wait that does not wait would show here: every launch has thousands of them."""
    pair = Pair("csr-float32-int32", n=20000, d=3000, full=False)
    for method in (Naive(), Aggressive()):
        trainer = pair.trainers(method, 16, "float64")[0]
        trainer.run(4 * 1250, np.array([-np.inf]), StopFlag())
        w = trainer.point()
        expected = trainer.combination() / (trainer.lam * trainer.weight)
        close(f"w of {method.name}", w, expected, 1e-10)


@pytest.mark.parametrize("precision", ["auto", "float64"])
@pytest.mark.parametrize("method", ["aggressive", "safe"])
def test_a_fit_of_text(method, precision):
    X, y = text_like(20000, 30000, 60)
    X = X.astype(np.float32)
    began = perf_counter()
    data = place(X)
    problem = make_problem(data.targets(y), LOSSES["hinge"](), 1e-4)
    options = read_options(method=method, batch_size=256, tol=1e-3, precision=precision)
    [solution] = train(data, problem, options, Start(0))
    seconds = perf_counter() - began
    print(f"\n{method}, {precision}: {solution}\nall of it: {seconds:.3f} s, with compiling")
    assert solution.status is Status.CONVERGED
    P = np.maximum(0, 1 - y * (X.astype(float) @ solution.w)).mean()
    P += 1e-4 / 2 * solution.w @ solution.w
    assert P == pytest.approx(solution.certificate.primal, rel=1e-9)


def test_a_broken_matrix_of_the_device_is_refused():
    X = cupy_csr(text_like(50, 30, 5)[0])
    X.indices[3] = 30
    with pytest.raises(ValueError, match="indices must lie between 0 and 29, not 30"):
        place(X)


def test_a_matrix_of_the_device_stays_where_it_is():
    X = cupy_csr(text_like(50, 30, 5)[0])
    data = place(X)
    assert data.rows.values.data.ptr == X.data.data.ptr
    assert data.rows.indices.data.ptr == X.indices.data.ptr


def test_repeated_indices_of_a_matrix_of_the_device_are_added_up():
    from sklearn.exceptions import DataConversionWarning

    parts = np.array([1.0, 2.0, 3.0, 4.0]), np.array([4, 0, 4, 4]), np.array([0, 1, 4])
    X = sp.csr_array(parts, shape=(2, 5))
    with pytest.warns(DataConversionWarning, match="repeated indices"):
        data = place(cupy_csr(X))
    assert np.array_equal(data.sample(np.arange(2)).toarray(), X.toarray())
