"""Each kernel for dense rows and for certificates against its counterpart in NumPy, and the
formulas of all losses against those of `losses.py`."""

from __future__ import annotations

import numpy as np
import pytest

from batchsvm import losses
from batchsvm.core.problem import make_problem
from batchsvm.engines.gpu import kernels
from batchsvm.engines.gpu.dataset import place
from batchsvm.engines.gpu.kernels import parameter_of
from batchsvm.losses import LOSSES
from gpu.pairs import TOLERANCES, assert_close, loss_of, pair_of_rows, random_state, state_on
from simulated import SimulatedKernels, place_simulated

KINDS = ["float16", "bfloat16", "float32", "float64"]
REALS = list(TOLERANCES)
PLAIN = SimulatedKernels()

each_kind = pytest.mark.parametrize("kind", KINDS)
each_real = pytest.mark.parametrize("real", REALS)
each_loss_name = pytest.mark.parametrize("loss_name", LOSSES)


def some_rows(n=300, d=70, seed=0):
    rng = np.random.default_rng(seed)
    cut = rng.permutation(n)[:203].astype(np.int32)
    cut[::9] = -1
    return rng.normal(size=(n, d)), cut


# ---- rows.cu


@each_kind
@each_real
def test_gather(cuda, kind, real):
    values, cut = some_rows()
    on_device, on_host = pair_of_rows(cuda, values, kind)
    expected = np.full((cut.size, on_host.d), 7.0, real)
    PLAIN.gather(on_host, cut, expected)
    with cuda:
        found = cuda.xp.full(expected.shape, 7.0, real)
        cuda.kernels.gather(on_device, cuda.upload(cut), found)
        found = cuda.to_host(found)
    assert_close(f"{kind} rows in {real}", found, expected, 0)


@each_kind
def test_norms2(cuda, kind):
    on_device, on_host = pair_of_rows(cuda, some_rows()[0], kind)
    with cuda:
        norms2, largest = on_device.norms2()
        found = cuda.to_host(norms2)
    assert largest == found.max()
    assert_close(f"norms of {kind}", found, on_host.norms2()[0], 1e-13)


# ---- direct.cu


@each_kind
@each_real
@pytest.mark.parametrize("K", [1, 4])
def test_row_products_and_add_rows(cuda, kind, real, K):
    values, cut = some_rows()
    on_device, on_host = pair_of_rows(cuda, values, kind)
    rng = np.random.default_rng(1)
    W = rng.normal(size=(K, on_host.d)).astype(real)
    changes = rng.normal(size=(K, cut.size)).astype(real)
    changes[:, cut < 0] = 0
    products, parts = np.empty((K, cut.size), real), np.empty((64, K, on_host.d), real)
    PLAIN.row_products(on_host, cut, W, products)
    PLAIN.add_rows(on_host, cut, changes, parts)
    with cuda:
        place_of, up = cuda.upload(cut), cuda.upload
        found, found_parts = up(np.zeros_like(products)), up(np.zeros_like(parts))
        cuda.kernels.row_products(on_device, place_of, up(W), found)
        cuda.kernels.add_rows(on_device, place_of, up(changes), found_parts)
        found, found_parts = cuda.to_host(found), cuda.to_host(found_parts)
    assert_close("products", found, products, TOLERANCES[real])
    assert_close("sums of rows", found_parts.sum(axis=0), parts.sum(axis=0), TOLERANCES[real])


@each_real
@pytest.mark.parametrize("round_", [0, 1, 2])
def test_rows_of_a_round(cuda, real, round_):
    """The last of the three rounds is short of a batch, whose places are -1."""
    rows, state = random_state("hinge", real)
    state.round[0] = round_
    places = state.S * state.B
    gathered = np.full((places, rows.d), 7.0, real)
    W = np.ascontiguousarray(state.W[:, : rows.d])
    products = np.empty((state.K, places), real)
    parts = np.empty((64, state.K, rows.d), real)
    PLAIN.gather(rows, state.cut, gathered, state)
    state.changes[:, ~gathered.any(axis=1)] = 0
    PLAIN.row_products(rows, state.cut, W, products, state)
    PLAIN.add_rows(rows, state.cut, state.changes, parts, state)
    on_device, _ = pair_of_rows(cuda, rows.values, rows.kind)
    with cuda:
        own = state_on(state, cuda)
        up = cuda.upload
        found = up(np.zeros_like(gathered)), up(np.zeros_like(products)), up(np.zeros_like(parts))
        cuda.kernels.gather(on_device, own.cut, found[0], own)
        cuda.kernels.row_products(on_device, own.cut, up(W), found[1], own)
        cuda.kernels.add_rows(on_device, own.cut, own.changes, found[2], own)
        gathered_found, products_found, parts_found = map(cuda.to_host, found)
    assert_close("gathered", gathered_found, gathered, 0)
    assert_close("products", products_found, products, TOLERANCES[real])
    assert_close("sums of rows", parts_found.sum(axis=0), parts.sum(axis=0), TOLERANCES[real])


# ---- gram.cu and round.cu


def compare(cuda, state, own, names, tolerance):
    for name in names:
        expected = getattr(state, name)
        if expected is not None:
            assert_close(name, cuda.to_host(getattr(own, name)), expected, tolerance)


@each_loss_name
@each_real
@pytest.mark.parametrize(("S", "bias"), [(1, True), (2, False), (2, True)])
@pytest.mark.parametrize("K", [5, 70])  # with a warp for each problem, and with a thread
def test_solve(cuda, loss_name, real, S, bias, K, monkeypatch):
    monkeypatch.setattr(cuda.kernels, "_has_thread_per_problem", lambda state: K == 70)
    _, state = random_state(loss_name, real, K=K, S=S, bias=bias)
    with cuda:
        own = state_on(state, cuda)
        cuda.kernels.solve(own)
        PLAIN.solve(state)
        compare(
            cuda, state, own, ["alpha", "fresh", "changes", "W", "estimate", "partial"],
            TOLERANCES[real],
        )  # fmt: skip


@each_real
@pytest.mark.parametrize("b", [1, 31, 32, 100, 300])
def test_solve_takes_batches_of_any_size(cuda, real, b):
    """Small Gram matrices are shared by the warps of a block, large ones are not."""
    _, state = random_state("hinge", real, K=2, S=2, b=b)
    state.sweeps = 2
    with cuda:
        own = state_on(state, cuda)
        cuda.kernels.solve(own)
        PLAIN.solve(state)
        compare(cuda, state, own, ["fresh", "changes", "partial"], 3 * TOLERANCES[real])


@each_real
@pytest.mark.parametrize("b", [1, 31, 64, 100, 128, 192])
def test_solve_of_many_problems_takes_batches_of_any_size(cuda, real, b, monkeypatch):
    """A warp for each of them takes over where the steps of a batch need too much memory."""
    monkeypatch.setattr(kernels, "MANY_PROBLEMS", 20)
    _, state = random_state("logistic", real, K=20, S=2, b=b)
    with cuda:
        own = state_on(state, cuda)
        cuda.kernels.solve(own)
        PLAIN.solve(state)
        compare(cuda, state, own, ["fresh", "changes", "partial"], 3 * TOLERANCES[real])


@each_real
@pytest.mark.parametrize("K", [3, 40])
def test_a_batch_that_is_missing_changes_nothing(cuda, real, K, monkeypatch):
    monkeypatch.setattr(cuda.kernels, "_has_thread_per_problem", lambda state: K == 40)
    _, state = random_state("hinge", real, K=K)
    state.order[: state.S] = -1
    before = state.alpha.copy()
    with cuda:
        own = state_on(state, cuda)
        cuda.kernels.solve(own)
        assert not cuda.to_host(own.changes).any()
        assert not cuda.to_host(own.partial).any()
        assert_close("alpha", cuda.to_host(own.alpha), before, 0)


@each_real
@pytest.mark.parametrize("loss_name", ["hinge", "squared_hinge"])
@pytest.mark.parametrize("K", [1, 5])
def test_finish_and_advance(cuda, real, loss_name, K):
    _, state = random_state(loss_name, real, K=K)
    state.partial[0] = 0.01  # a gain so small that steps are shortened
    with cuda:
        own = state_on(state, cuda)
        cuda.kernels.finish(own, 0.9)
        PLAIN.finish(state, 0.9)
        assert (state.refused > 0).any(), "no step was shortened: this test tests too little"
        compare(cuda, state, own, ["W", "alpha", "beta", "refused", "round"], TOLERANCES[real])
        assert int(own.ticket[0]) == 0
        cuda.kernels.advance(own)
        PLAIN.advance(state)
        compare(cuda, state, own, ["round"], 0)


# ---- sums.cu


@each_loss_name
@pytest.mark.parametrize("K", [1, 6])
@pytest.mark.parametrize("bias", [False, True])
def test_sums_and_combination(cuda, loss_name, K, bias):
    """point_sums and coefficients, as the passes launch them."""
    rng = np.random.default_rng(2)
    n, d, loss = 5000, 9, LOSSES[loss_name]()  # more than one chunk of rows
    X, y = rng.normal(size=(n, d)).astype(np.float32), rng.normal(size=(n, K))
    y = np.where(y > 0, 1.0, -1.0) if loss.task == "classification" else y
    weights = rng.integers(0, 3, size=(n, K)) / 2
    alpha = rng.uniform(max(loss.lower, -2.0), min(loss.upper, 2.0), size=(n, K)) * weights
    W = rng.normal(size=(d + bias, K))
    stated = {"bias": 0.5 + np.arange(K) / 4} if bias else {}
    found = []
    for data in (place(X), place_simulated(X)):
        targets = data.targets(np.asfortranarray(y), np.asfortranarray(weights))
        problem = make_problem(targets, loss, np.full(K, 0.05), **stated)
        dual = data.dual(problem, alpha)
        found.append((data.sums(problem, W, dual).values, data.combination(problem, dual)))
    (sums, combination), (expected, expected_combination) = found
    for line, (own, other) in enumerate(zip(sums, expected, strict=True)):
        assert_close(f"sum {line} of core/certificate.py", own, other, 1e-11)
    assert_close("combination", combination, expected_combination, 1e-11)


def test_sums_of_classes_by_their_codes(cuda):
    rng = np.random.default_rng(3)
    X, codes = rng.normal(size=(400, 6)), rng.integers(0, 5, 400)
    W = rng.normal(size=(6, 5))
    sums = []
    for data in (place(X), place_simulated(X)):
        problem = make_problem(data.targets(codes, classes=5), LOSSES["hinge"](), 0.05)
        sums.append(data.sums(problem, W, data.dual(problem)).values)
    assert_close("sums", *sums, 1e-12)


# ---- losses.cu


OBJECTS = [loss_of(name) for name in LOSSES] + [
    losses.Hinge(margin=0.3),
    losses.SmoothedHinge(smoothing=0.25),
    losses.EpsilonInsensitive(epsilon=0.0),
    losses.SquaredEpsilonInsensitive(epsilon=0.7),
    losses.SquaredError(factor=1.5),
    losses.Quantile(quantile=0.9),
    losses.Huber(delta=0.3),
]
KINKS = [-1.0, -0.3, -0.1, 0.0, 0.1, 0.3, 0.75, 1.0]
FAR = [1e-6, 1e-3, 8.0, 20.0, 30.0, 79.0, 81.0, 90.0, 1e3, 1e4]
LEAST_Q = {"float32": 1e-30, "float64": 1e-300}  # of rows of norm zero


@each_real
@pytest.mark.parametrize("loss", OBJECTS, ids=repr)
def test_formulas_are_those_of_numpy(cuda, real, loss):
    kind = np.dtype(real).type
    # The parameter and the points as the kernel gets them, so that kinks are where they are there.
    loss = type(loss)(*(v if isinstance(v, int) else float(kind(v)) for v in loss))
    near = np.array(KINKS).astype(real)
    a = np.concatenate([
        np.linspace(-6, 6, 121).astype(real), near, np.nextafter(near, kind(9)),
        np.nextafter(near, kind(-9)), np.array(FAR, real), -np.array(FAR, real),
    ])  # fmt: skip
    box = np.linspace(max(loss.lower, -8.0), min(loss.upper, 8.0), 9).astype(real)
    q = np.array([LEAST_Q[real], 1e-6, 0.3, 2.0, 1e6], real)
    a, alpha, q = (part.ravel() for part in np.meshgrid(a, box, q))
    a = np.where(np.abs(a) < 1e-37, kind(0), a)  # fast float32 has no smaller numbers
    names = ["value", "subgradient", "conjugate", "dual_step"]
    with cuda:
        kernel = cuda.kernels.function("losses.cu", "formulas", real, loss)
        inputs = [cuda.upload(np.ascontiguousarray(part)) for part in (a, alpha, q)]
        outputs = [cuda.xp.empty(a.size, real) for _ in names]
        scalars = np.int32(a.size), kind(parameter_of(loss))
        kernel((-(-a.size // 256),), (256,), (*inputs, *outputs, *scalars))
        found = [cuda.to_host(out).astype(np.float64) for out in outputs]
    a, alpha, q = (part.astype(np.float64) for part in (a, alpha, q))
    # A response is rounded, which a small q magnifies: a step lies between those of two responses.
    err = 8 * np.finfo(real).eps * (1 + np.abs(a))
    with np.errstate(over="ignore"):
        exact = [loss.value(a), loss.subgradient(a), loss.conjugate(alpha)]
        low, high = loss.dual_step(alpha, a + err, q), loss.dual_step(alpha, a - err, q)
    for name, own, least, most in zip(names, found, [*exact, low], [*exact, high], strict=True):
        assert np.isfinite(own).all(), f"{name} is not finite"
        off = np.maximum(least - own, own - most) / (1 + np.abs(own))
        worst = int(np.argmax(off))
        assert off[worst] <= TOLERANCES[real], (
            f"{name} is {own[worst]!r}, not between {least[worst]!r} and {most[worst]!r}, at"
            f" a = {a[worst]!r}, alpha = {alpha[worst]!r}, q = {q[worst]!r}"
        )
    step = found[-1]
    assert step.min() >= loss.lower, "a step leaves the box below"
    assert step.max() <= kind(loss.upper), "a step leaves the box above"
