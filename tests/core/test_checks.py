"""Bad input: one sentence that names the parameter, before any work.  Odd data: a model."""

from __future__ import annotations

from itertools import cycle

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import DataConversionWarning

import batchsvm
from batchsvm import losses, methods
from batchsvm.core.loop import Loop
from batchsvm.losses import LOSSES
from helpers import HOST_METHODS, csr, grid, quietly, toy

X, Y = toy("hinge")


def spoiled(value, sparse=False):
    bad = X.copy()
    bad[5, 2] = value
    return sp.csr_array(bad) if sparse else bad


BAD = {
    "nan": ({"X": spoiled(np.nan)}, r"X must be finite.*row 5 holds nan"),
    "inf": ({"X": spoiled(-np.inf)}, r"X must be finite.*row 5 holds -inf"),
    "sparse nan": ({"X": spoiled(np.nan, True)}, r"X must be finite.*row 5 holds nan"),
    "too large": ({"X": spoiled(1e200)}, r"X must be finite.*1e\+200"),
    "no rows": ({"X": np.zeros((0, 3)), "y": []}, r"X must have at least one row.*\(0, 3\)"),
    "no columns": ({"X": np.zeros((60, 0))}, r"at least one row and one column.*\(60, 0\)"),
    "one-dimensional": ({"X": X[0]}, r"X must have two dimensions, not shape \(6,\)"),
    "words": ({"X": np.array([["a"] * 2] * 60)}, "X must hold real numbers, not <U1"),
    "ragged": ({"X": [[1.0], [1.0, 2.0]]}, "X must be a two-dimensional array"),
    "dense complex": ({"X": X + 0j}, "X must hold real numbers, not complex128"),
    "complex": ({"X": sp.csr_array(X.astype(complex))}, "X must hold real numbers, not complex"),
    "short y": ({"y": Y[:-1]}, r"y must have shape \(60,\).*\(59,\)"),
    "wide y": ({"y": Y[:, None]}, r"y must have shape \(60,\).*\(60, 1\)"),
    "three classes": ({"y": np.arange(60) % 3}, r"y must have two classes.*not 3.*\[0, 1, 2\]"),
    "three words": ({"y": list("abc" * 20)}, "y must have two classes.*not 3"),
    "mixed labels": ({"y": np.array([1, "a"] * 30, dtype=object)}, "y must hold labels of one"),
    "-inf label": ({"y": np.where(Y > 0, -np.inf, 1.0)}, "y must be finite, but it holds -inf"),
    "nan label": ({"y": np.where(Y > 0, np.nan, 1.0)}, "y must be finite.*nan"),
    "nan target": ({"y": np.where(Y > 0, np.nan, 1.0), "loss": "huber"}, r"y must be finite.*nan"),
    "word target": ({"y": list("ab" * 30), "loss": "huber"}, "y must hold numbers"),
    "lam 0": ({"lam": 0}, "lam must be a finite positive number, not 0"),
    "lam negative": ({"lam": -1.0}, r"lam must be a finite positive number, not -1\.0"),
    "lam nan": ({"lam": np.nan}, "lam must be a finite positive number, not nan"),
    "lam inf": ({"lam": np.inf}, "lam must be a finite positive number, not inf"),
    "lam text": ({"lam": "1"}, "lam must be a finite positive number, not '1'"),
    "b 0": ({"batch_size": 0}, "batch_size must be 'auto' or an integer from 1 to n = 60, not 0"),
    "b > n": ({"batch_size": 61}, "batch_size must be .* not 61"),
    "b float": ({"batch_size": 2.5}, r"batch_size must be .* not 2\.5"),
    "b text": ({"batch_size": "atuo"}, "batch_size must be .* not 'atuo'"),
    "tol": ({"tol": -1e-3}, r"tol must be from 0 to below 1, not -0\.001"),
    "epochs": ({"max_epochs": 0}, "max_epochs must be a finite positive number, not 0"),
    "negative weight": ({"sample_weight": -np.ones(60)}, r"sample_weight .*entry 0 is.*-1\.0"),
    "nan weight": ({"sample_weight": np.full(60, np.nan)}, "sample_weight must be finite"),
    "no weight": ({"sample_weight": np.zeros(60)}, "sample_weight must not be zero everywhere"),
    "weight text": ({"sample_weight": "balanced"}, "sample_weight must be an array of numbers"),
    "tiny weights": ({"sample_weight": np.full(60, 1e-300)}, "sample_weight must be 0 or between"),
    "weights": ({"sample_weight": np.ones(59)}, r"sample_weight must have shape \(60,\)"),
    "loss": ({"loss": "hnge"}, "loss must be one of 'hinge'.*not 'hnge'; did you mean 'hinge'"),
    "loss object": ({"loss": 3}, "loss must be one of .*not 3"),
    "huber text": ({"loss": losses.Huber("a")}, "delta of loss Huber must be .* not 'a'"),
    "newton": ({"loss": losses.Logistic(2.5)}, r"newton_steps of loss Logistic must .* not 2\.5"),
    "huber": ({"loss": losses.Huber(delta=0)}, "delta of loss Huber must be a positive"),
    "quantile": ({"loss": losses.Quantile(1.0)}, "quantile of loss Quantile must be strictly"),
    "epsilon": ({"loss": losses.EpsilonInsensitive(-1)}, "epsilon of loss EpsilonInsensitive"),
    "absolute": ({"loss": losses.Absolute(0.5)}, "epsilon of loss Absolute must be 0"),
    "smoothing": ({"loss": losses.SmoothedHinge(-1)}, "smoothing of loss SmoothedHinge"),
    "method": ({"method": "agressive"}, "method must be .* did you mean 'aggressive'"),
    "base": ({"method": methods.DualMethod()}, "method must be one of"),
    "skips": ({"method": methods.Safe(skips="no")}, "skips must be one of True, False"),
    "gamma": ({"method": methods.Aggressive(gamma=1.0)}, "gamma must be strictly between 0 and 1"),
    "rounds": ({"method": methods.Aggressive(rounds=0)}, "rounds must be an integer between 1"),
    "step": ({"method": methods.Safe(step="genral")}, "step must be .* did you mean 'general'"),
    "sampling": ({"method": methods.Safe(sampling="permutaton")}, "did you mean 'permutation'"),
    "radius": ({"method": methods.Pegasos(radius=-1)}, "radius must be a positive number, not -1"),
    "sigma2": ({"method": methods.Safe(sigma2=0)}, "sigma2 must be between 0 and 1, or None"),
    "averaging": ({"averaging": "tial"}, "averaging must be .* did you mean 'tail'"),
    "n_jobs": ({"n_jobs": 0}, "n_jobs must be a positive integer, or -1 for all cores, not 0"),
    "seed": ({"random_state": -1}, "random_state must be None, an integer.* not -1"),
    "callback": ({"callback": 3}, "callback must be callable or None, not 3"),
    "checkpoints": ({"checkpoints": [3, 2]}, "checkpoints must be 'auto' or increasing positive"),
    "no checkpoint": ({"checkpoints": []}, "checkpoints must be 'auto' or increasing positive"),
    "half checkpoints": ({"checkpoints": [1.5, 3]}, "checkpoints must be 'auto' or increasing"),
    "checkpoint 0": ({"checkpoints": [0, 1]}, "checkpoints must be 'auto' or increasing positive"),
    "checkpoints text": ({"checkpoints": "atuo"}, "checkpoints must be .* did you mean 'auto'"),
    "tail": ({"checkpoints": [1], "averaging": "tail"}, "checkpoints must be 'auto' with"),
    "engine": ({"engine": "cuda"}, "engine must be one of 'auto', 'cpu', .*, not 'cuda'"),
    "initial": ({"initial": 3}, "initial must be a Solution or a pair"),
    "initial w": ({"initial": (np.zeros(5), np.zeros(60))}, r"w of initial must have shape \(6,\)"),
    "initial alpha": ({"initial": (np.zeros(6), np.zeros(5))}, "alpha of initial must have shape"),
    "initial box": ({"initial": (np.zeros(6), np.full(60, 2.0))}, "alpha must lie in the dual"),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.DataConversionWarning")
@pytest.mark.parametrize("case", BAD)
def test_bad_input_gets_one_sentence_and_nothing_is_trained(case, monkeypatch):
    changed, message = BAD[case]

    def never(*args):
        raise AssertionError("training began")

    monkeypatch.setattr(Loop, "train", never)
    arguments = {"X": X, "y": Y, **changed}
    with pytest.raises(ValueError, match=message) as caught:
        batchsvm.fit(**arguments)
    assert "\n" not in str(caught.value)


def test_a_loss_that_lacks_a_method_is_named():
    from typing import NamedTuple

    class Half(NamedTuple):
        margin: float = 1.0
        task = "classification"

    with pytest.raises(ValueError, match=r"loss Half has no lower, upper.*conjugate, dual_step"):
        batchsvm.fit(X, Y, Half())


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: batchsvm.sigma2(X, "exakt"), "did you mean 'exact'"),
        (lambda: batchsvm.sigma2(X, failure_probability=1), "failure_probability must be"),
        (lambda: batchsvm.sigma2(X, sampled_rows=0), "sampled_rows must be"),
        (lambda: batchsvm.sigma2(spoiled(np.nan)), "row 5"),
        (lambda: batchsvm.beta_b(0, 10, 0.1), "b must be between 1 and n = 10, not 0"),
        (lambda: batchsvm.beta_b(11, 10, 0.1), "not 11"),
        (lambda: batchsvm.beta_b("a", 10, 0.1), "b must be between 1 and n = 10, not 'a'"),
        (lambda: batchsvm.beta_b(1, 10, -0.1), r"sigma2 must be between 0 and 1, not -0\.1"),
        (lambda: batchsvm.beta_b(1, 10, 2), "sigma2 must be between 0 and 1, not 2"),
        (lambda: batchsvm.plan(X, lam=0), "lam must be"),
        (lambda: batchsvm.plan(X, sigma2=-1.0), "sigma2 must be"),
        (lambda: batchsvm.certify(X, Y, np.zeros(5), np.zeros(60)), r"w must have shape \(6,\)"),
        (lambda: batchsvm.certify(X, Y, np.full(6, np.nan), np.zeros(60)), "w must be finite"),
        (lambda: batchsvm.certify(X, Y, np.zeros(6), np.zeros(60), lam=-1), "lam must be"),
        (lambda: batchsvm.certify(X, Y, np.ones(6), np.zeros(60), radius=0.5), "norm at most"),
    ],
)
def test_the_other_functions_check_too(call, message):
    with pytest.raises(ValueError, match=message):
        call()


ODD = {
    "n = 1": (np.array([[2.0, -1.0]]), [1.0]),
    "d = 1": (X[:, :1], Y),
    "one row, one column": (np.array([[3.0]]), [-1.0]),
    "duplicated rows": (np.repeat(X[:5], 8, axis=0), np.repeat(Y[:5], 8)),
    "constant columns": (np.hstack([X, np.ones((60, 2))]), Y),
    "all zero": (np.zeros((12, 3)), Y[:12]),
    "tiny values": (X * 1e-140, Y),
    "large values": (X * 1e100, Y),
    "one class": (X, np.ones(60)),
    "the other class": (X, -np.ones(60)),
}


@pytest.mark.parametrize(
    ("case", "method", "sparse", "loss_name"),
    grid(ODD, ["auto", "safe", "aggressive", "naive"], [False, True], LOSSES),
)
def test_odd_data_trains_and_certifies(case, method, sparse, loss_name):
    data, y = ODD[case]
    scale2 = max(np.abs(data).max() ** 2, 1e-300) if "values" in case else 1.0
    solution = quietly(
        sp.csr_array(data) if sparse else data, y, loss_name, 0.1 * scale2, method,
        batch_size="auto" if method == "auto" else min(2, len(y)), max_epochs=3000, tol=1e-4,
        random_state=0,
    )  # fmt: skip
    assert np.isfinite(solution.w).all()
    assert solution.certificate.gap >= -solution.certificate.rounding
    assert solution.status in (batchsvm.Status.CONVERGED, batchsvm.Status.PRECISION)


@pytest.mark.parametrize("case", ODD)
def test_odd_data_with_pegasos_certifies(case):
    data, y = ODD[case]
    scale2 = max(np.abs(data).max() ** 2, 1e-300) if "values" in case else 1.0
    solution = quietly(data, y, lam=0.1 * scale2, method="pegasos", batch_size=1, max_epochs=50)
    assert np.isfinite(solution.w).all()
    assert solution.certificate.gap >= -solution.certificate.rounding


@pytest.mark.parametrize(
    "y",
    [np.where(Y > 0, 1, 0), np.where(Y > 0, 7, 3), Y > 0, np.where(Y > 0, "yes", "no"), Y.tolist()],
    ids=["01", "37", "bool", "words", "list"],
)
def test_any_two_labels_will_do(y):
    plain = batchsvm.fit(X, Y, lam=0.05, random_state=0)
    other = batchsvm.fit(X, y, lam=0.05, random_state=0)
    np.testing.assert_array_equal(plain.w, other.w)
    assert list(other.classes) == sorted(set(np.asarray(y).tolist()))


@pytest.mark.parametrize("index", [np.int32, np.int64])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_data_is_used_in_place(dtype, index):
    sparse = csr(X, dtype, index)
    rows = batchsvm.place(sparse).rows
    for view, original in [
        (rows.values, sparse.data),
        (rows.indices, sparse.indices),
        (rows.starts, sparse.indptr),
    ]:
        assert np.shares_memory(view, original)
    assert rows.values.dtype == dtype
    dense = X.astype(dtype)
    for form in (dense, np.asfortranarray(dense), dense[::2, ::2]):
        assert np.shares_memory(batchsvm.place(form).rows.values, form)


@pytest.mark.parametrize("data", [X.astype(int), sp.csc_array(X)], ids=["integers", "csc"])
def test_a_conversion_is_told_at_the_line_that_called(data):
    with pytest.warns(DataConversionWarning) as told:
        batchsvm.fit(data, Y, lam=0.5)
    assert [warning.filename for warning in told] == [__file__]


def test_data_is_never_written_to():
    sparse = csr(X, np.float64, np.int32)
    dense, y, weights = X.copy(), Y.copy(), np.ones(60)
    for array in (sparse.data, sparse.indices, sparse.indptr, dense, y, weights):
        array.flags.writeable = False
    for method, data in zip(HOST_METHODS, cycle((sparse, dense)), strict=False):
        one = quietly(data, y, lam=0.05, method=method, sample_weight=weights, max_epochs=5)
        assert np.isfinite(one.w).all()


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (sp.csc_array(X), "CSC"),
        (sp.coo_array(X), "COO"),
        ((X * 8).astype(int), "int64"),
        (X.astype(np.float16), "float16"),
        (sp.csr_array((X * 8).astype(int)), "int64"),
    ],
    ids=["csc", "coo", "int", "half", "sparse int"],
)
def test_other_formats_are_converted_with_a_message(data, words):
    with pytest.warns(DataConversionWarning, match=f"X is {words}.* was converted to"):
        converted = batchsvm.fit(data, Y, lam=0.05, random_state=0)
    dense = np.asarray(data.toarray() if sp.issparse(data) else data, dtype=np.float64)
    plain = batchsvm.fit(dense, Y, lam=0.05, random_state=0)
    np.testing.assert_allclose(converted.w, plain.w, atol=1e-12)


def test_unsorted_indices_are_used_in_place():
    scrambled = sp.csr_array(
        (np.array([1.0, 2.0, 3.0, 1.0]), np.array([2, 0, 1, 0]), np.array([0, 2, 4])), shape=(2, 3)
    )
    assert np.shares_memory(batchsvm.place(scrambled).rows.values, scrambled.data)
    solution = batchsvm.fit(scrambled, [1, -1], lam=0.1, random_state=0)
    plain = batchsvm.fit(scrambled.toarray(), [1, -1], lam=0.1, random_state=0)
    np.testing.assert_allclose(solution.w, plain.w)


def test_repeated_indices_are_summed_in_a_copy():
    scrambled = sp.csr_array(
        (np.array([1.0, 2.0, 3.0, 1.0]), np.array([2, 0, 1, 1]), np.array([0, 2, 4])), shape=(2, 3)
    )
    with pytest.warns(DataConversionWarning, match="repeated indices"):
        solution = batchsvm.fit(scrambled, [1, -1], lam=0.1, random_state=0)
    plain = batchsvm.fit(scrambled.toarray(), [1, -1], lam=0.1, random_state=0)
    np.testing.assert_allclose(solution.w, plain.w)
    assert scrambled.indices.tolist() == [2, 0, 1, 1]  # the user's own is left alone


@pytest.mark.parametrize("part", ["indices", "indptr"])
@pytest.mark.parametrize("value", [10_000, -3])
def test_a_broken_csr_matrix_is_refused(part, value):
    broken = sp.csr_array(X)
    spoilt = getattr(broken, part).copy()
    spoilt[-2] = value
    setattr(broken, part, spoilt)
    with pytest.raises(ValueError, match="X must be a valid CSR matrix"):
        batchsvm.fit(broken, Y)


def test_a_loss_needs_a_field_a_box_with_zero_and_names_of_its_own():
    from typing import NamedTuple

    class Empty(NamedTuple):
        task, lower, upper, lipschitz = "regression", -1.0, 1.0, 1.0
        value = subgradient = conjugate = dual_step = np.abs

    class Taken(NamedTuple):
        shuffle: float = 1.0
        task, lower, upper, lipschitz = "regression", -1.0, 1.0, 1.0
        value = subgradient = conjugate = dual_step = np.abs

    class Steep(NamedTuple):
        slope: float = 1.0
        task, lower, upper, lipschitz = "regression", 0.5, 2.0, 2.0
        value = subgradient = conjugate = dual_step = np.abs

    for loss, message in [
        (Empty(), "loss Empty has no field"),
        (Taken(), "loss Taken must not have a field named 'shuffle'"),
        (Steep(), "loss Steep must have 0 in its dual box"),
    ]:
        with pytest.raises(ValueError, match=message):
            batchsvm.fit(X, Y, loss)


def test_an_integer_parameter_is_compiled_as_a_float():
    solution = batchsvm.fit(X, Y, losses.Huber(1), lam=0.05)
    assert isinstance(solution.loss.delta, float)


def test_lists_are_welcome():
    plain = batchsvm.fit(X, Y, lam=0.05, random_state=0)
    np.testing.assert_array_equal(
        plain.w, batchsvm.fit(X.tolist(), Y.tolist(), lam=0.05, random_state=0).w
    )


def test_losses_and_methods_by_class_name_and_object():
    one = batchsvm.fit(X, Y, "hinge", 0.05, "safe", random_state=0)
    two = batchsvm.fit(X, Y, losses.Hinge, 0.05, methods.Safe, random_state=0)
    three = batchsvm.fit(X, Y, losses.Hinge(), 0.05, methods.Safe(), random_state=0)
    np.testing.assert_array_equal(one.w, two.w)
    np.testing.assert_array_equal(one.w, three.w)
    assert set(LOSSES) == {
        "hinge", "smoothed_hinge", "squared_hinge", "logistic", "absolute",
        "epsilon_insensitive", "squared_epsilon_insensitive", "squared_error", "quantile", "huber",
    }  # fmt: skip


@pytest.mark.parametrize("engine", ["cpu", "reference"])
@pytest.mark.parametrize("sparse", [False, True])
def test_the_first_value_that_is_not_finite_is_named(engine, sparse):
    data = X.copy()
    data[7, [2, 4]] = np.inf, np.nan
    data[9, 1] = -np.inf
    data = sp.csr_array(data) if sparse else data
    with pytest.raises(ValueError, match=r"but row 7 holds inf$"):
        batchsvm.fit(data, Y, engine=engine)
    huge = X.copy()
    huge[3] = [1.0, -1e200, 2.0, 3.0, 4.0, 5.0]
    with pytest.raises(ValueError, match=r"but row 3 holds -1e\+200$"):
        batchsvm.fit(sp.csr_array(huge) if sparse else huge, Y, engine=engine)


@pytest.mark.parametrize("engine", ["cpu", "reference"])
def test_no_engine_writes_to_the_data_or_reads_a_broken_matrix(engine):
    indices, values = np.array([2, 0, 1, 0]), np.array([1.0, 2.0, 3.0, 1.0])
    scrambled = sp.csr_array((values, indices, np.array([0, 2, 4])), shape=(2, 3))
    batchsvm.fit(scrambled, [1, -1], lam=0.1, engine=engine)
    assert scrambled.indices.tolist() == [2, 0, 1, 0]
    assert scrambled.data.tolist() == [1.0, 2.0, 3.0, 1.0]
    broken = sp.csr_array((values, indices, np.array([0, 2, 4])), shape=(2, 3))
    broken.indices[1] = 7
    with pytest.raises(ValueError, match="X must be a valid CSR matrix"):
        batchsvm.fit(broken, [1, -1], lam=0.1, engine=engine)
