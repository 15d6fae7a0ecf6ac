"""Problems, formats and small functions that tests share."""

from __future__ import annotations

import warnings
from itertools import combinations, product
from zlib import crc32

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

import batchsvm
from batchsvm.core.data_checks import read_targets
from batchsvm.core.problem import make_problem
from batchsvm.core.tuning import Tuning
from batchsvm.engines import place_on
from batchsvm.losses import LOSSES
from batchsvm.methods import METHODS

LAM = 0.05
HOST_ENGINES = ("cpu", "reference")  # whose rows are on this host: these methods, screening
# Of one row or a batch at a time; Newton's method has tests of its own.
HOST_METHODS = {
    name: kind for name, kind in METHODS.items() if name not in ("asynchronous", "newton")
}


def grid(*axes):
    """Every combination of the values of the axes, for `pytest.mark.parametrize`.

    A few in which every two values of different axes come together once are run always; the
    others are slow.
    """
    fast, missing = [], {pair for values in product(*axes) for pair in pairs(values)}
    for values in sorted(product(*axes), key=lambda values: crc32(repr(values).encode())):
        if missing & pairs(values):
            fast.append(values)
            missing -= pairs(values)
    needed = set()  # leave out what later ones have made needless
    for values in fast:
        others = [other for other in fast if other != values and other not in needed]
        if pairs(values) <= {pair for other in others for pair in pairs(other)}:
            needed.add(values)
    fast = [values for values in fast if values not in needed]
    return [
        pytest.param(*values, marks=() if values in fast else pytest.mark.slow)
        for values in product(*axes)
    ]


def thinned(*axes):
    """Every combination of the values of the axes, of which a few are run always: each value is in
    at least one of them.  The others are slow."""
    seen, fast = set(), []
    for values in sorted(product(*axes), key=lambda values: crc32(repr(values).encode())):
        if not seen.issuperset(enumerate(values)):
            seen.update(enumerate(values))
            fast.append(values)
    return [
        pytest.param(*values, marks=() if values in fast else pytest.mark.slow)
        for values in product(*axes)
    ]


def pairs(values):
    return set(combinations(enumerate(values), 2))


def placed(X, jobs=1, **thresholds):
    """X on the cpu engine, with thresholds of its own."""
    return place_on("cpu", X, jobs, Tuning(**thresholds))


def one_problem(data, y, loss="hinge", lam=LAM, **kwargs):
    """A problem on placed data, of checked targets."""
    target, _ = read_targets(y, data.n, LOSSES[loss]())
    return make_problem(data.targets(target), LOSSES[loss](), lam, **kwargs)


def quietly(*args, **kwargs):
    """A fit that may stop before tol."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return batchsvm.fit(*args, **kwargs)


FORMATS = {
    "dense-float64": lambda X: np.ascontiguousarray(X),
    "dense-float32": lambda X: np.ascontiguousarray(X, dtype=np.float32),
    "csr-float64-int32": lambda X: csr(X, np.float64, np.int32),
    "csr-float64-int64": lambda X: csr(X, np.float64, np.int64),
    "csr-float32-int32": lambda X: csr(X, np.float32, np.int32),
    "csr-float32-int64": lambda X: csr(X, np.float32, np.int64),
}


def csr(X, dtype, index):
    X = sp.csr_array(X.astype(dtype))
    X.indices, X.indptr = X.indices.astype(index), X.indptr.astype(index)
    return X


def toy(loss_name, n=60, d=6, seed=0):
    """A small problem with rows of many norms, a zero row, zeros, and noise in the targets.

    The values are exact in float32, so that every format holds the same data.
    """
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * 2.0 ** rng.integers(-2, 2, size=(n, 1))
    X[rng.random((n, d)) < 0.3] = 0.0
    X[3] = 0.0
    X = X.astype(np.float32).astype(np.float64)
    z = X @ rng.normal(size=d) + 0.3 * rng.normal(size=n)
    if LOSSES[loss_name].task == "classification":
        return X, np.where(z >= 0, 1.0, -1.0)
    return X, z


def refused(ran):
    """The one line of an error, which is exit status 2."""
    status, out, err = ran
    assert status == 2
    assert out == ""
    assert err.count("\n") == 1, err
    return err.removeprefix("batchsvm: ").rstrip("\n")


def signs_and_offsets(loss, y):
    """s and o of the responses a = s <w, x> - o."""
    return (y, np.zeros_like(y)) if loss.task == "classification" else (np.ones_like(y), y)
