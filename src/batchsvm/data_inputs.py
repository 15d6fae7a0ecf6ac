"""Data at the edge: X, y, weights and dual points, checked and seen as the core wants them.

Like `inputs.py`, which checks parameters, it refuses bad input with one sentence.
"""

from __future__ import annotations

import warnings
from numbers import Real
from typing import Any

import numpy as np
import scipy.sparse

from batchsvm.inputs import number
from batchsvm.losses import Loss
from batchsvm.matrix import Matrix, over_blocks, passing
from batchsvm.problem import Problem, make_problem
from batchsvm.rows import (
    CSR,
    Biased,
    Dense,
    Rows,
    indices_are_distinct,
    indices_increase,
    unsigned,
)
from batchsvm.team import Threads


def read_matrix(X: Any, threads: Threads, bias: float | None = None) -> Matrix:
    """X, checked, with the threads that pass over it, and with a constant column if asked."""
    return Matrix(_with_bias(_read_rows(X, threads), bias), threads)


def _read_rows(X: Any, threads: Threads) -> Rows:
    """A view of dense or CSR data in float32 or float64; other formats are converted."""
    if scipy.sparse.issparse(X):
        return _read_csr(X, threads)
    converted = not hasattr(X, "dtype")  # a list has no format to complain about
    try:
        values = np.asarray(X)
    except ValueError as error:
        raise ValueError(f"X must be a two-dimensional array or sparse matrix: {error}") from None
    if values.dtype not in (np.float32, np.float64):
        if values.dtype.kind not in "biufO":
            raise ValueError(f"X must hold real numbers, not {values.dtype}")
        if not converted:
            _tell_conversion("X", values.dtype, np.dtype(np.float64), depth=5)
        try:
            values = values.astype(np.float64)
        except (TypeError, ValueError):
            raise ValueError(f"X must hold real numbers, not {values.dtype}") from None
    if values.ndim != 2:
        raise ValueError(f"X must have two dimensions, not shape {values.shape}")
    _refuse_empty(values.shape)
    return Dense(values)


def _read_csr(X: Any, threads: Threads) -> CSR:
    if X.ndim != 2:
        raise ValueError(f"X must have two dimensions, not shape {X.shape}")
    _refuse_empty(X.shape)
    if X.dtype not in (np.float32, np.float64):
        if X.dtype.kind not in "biuf":
            raise ValueError(f"X must hold real numbers, not {X.dtype}")
        _tell_conversion("X", X.dtype, np.dtype(np.float64))
        X = X.astype(np.float64)
    if X.format != "csr":
        _tell_conversion("X", X.format.upper(), "CSR")
        X = X.tocsr()
    indices, starts = unsigned(X.indices), unsigned(X.indptr)
    increasing = all(
        passing(threads, X.nnz).together(
            lambda team: indices_increase(
                indices, starts, X.shape[1], *team.portion(starts.size - 1)
            )
        )
    )
    if not (increasing or indices_are_distinct(indices, starts, np.full(X.shape[1], -1))):
        try:
            X.check_format(full_check=True)
        except ValueError as error:
            raise ValueError(f"X must be a valid CSR matrix, but its {error}") from None
        _tell_conversion("X", "CSR with repeated indices", "canonical CSR")
        X = X.copy()
        X.sum_duplicates()
        indices, starts, increasing = unsigned(X.indices), unsigned(X.indptr), True
    return CSR(X.data, indices, starts, X.shape[1], increasing)


def _with_bias(rows: Rows, bias: float | None) -> Rows:
    """The rows with a constant column, which takes no memory, or as they are for None."""
    if bias is None:
        return rows
    bias = number("bias", bias, "a finite positive number, or None", 0.0)
    assert not isinstance(rows, Biased)
    return Biased(rows, rows.shape[1], bias)


def _refuse_empty(shape: tuple[int, ...]) -> None:
    if 0 in shape:
        raise ValueError(f"X must have at least one row and one column, not shape {shape}")


def _tell_conversion(parameter: str, given: Any, needed: Any, depth: int = 6) -> None:
    from sklearn.exceptions import DataConversionWarning  # half a second to import

    warnings.warn(
        f"{parameter} is {given}; it was converted to {needed}, which makes a copy",
        DataConversionWarning,
        stacklevel=depth,
    )


def refuse_infinite(rows: Rows, norms2: np.ndarray) -> None:
    """Refuse NaN, infinity, and values whose squares overflow; norms2 shows all of them."""
    bad = np.flatnonzero(~np.isfinite(norms2))
    if bad.size:
        i = int(bad[0])
        base = rows.base if isinstance(rows, Biased) else rows
        row = (
            base.values[i]
            if isinstance(base, Dense)
            else base.values[base.starts[i] : base.starts[i + 1]]
        )
        worst = row[~np.isfinite(row)]
        value = worst[0] if worst.size else row[np.argmax(np.abs(row))]
        raise ValueError(
            f"X must be finite (no NaN, no inf) and below 1e150, but row {i} holds {float(value)!r}"
        )


def read_targets(
    y: Any, n: int, loss: Loss, threads: Threads | None = None
) -> tuple[np.ndarray, np.ndarray | None]:
    """y as float64 (-1 and +1 for classification), and the two classes in that order."""
    y = np.asarray(y)
    if y.shape != (n,):
        raise ValueError(f"y must have shape ({n},), one entry a row of X, not {y.shape}")
    if loss.task == "classification":
        return _read_labels(y, threads or Threads())
    if y.dtype.kind not in "biuf":
        raise ValueError(f"y must hold numbers for a regression loss, not {y.dtype}")
    if not np.isfinite(y).all():
        bad = int(np.flatnonzero(~np.isfinite(y))[0])
        raise ValueError(f"y must be finite, but y[{bad}] is {float(y[bad])!r}")
    return y.astype(np.float64, copy=False), None


def _read_labels(y: np.ndarray, threads: Threads) -> tuple[np.ndarray, np.ndarray]:
    numeric = y.dtype.kind in "biuf"
    signs = np.empty(y.size)

    def fill(start: int, stop: int) -> bool:
        """Whether all labels of a block are of the two classes."""
        part = y[start:stop]
        high = part == classes[-1]
        signs[start:stop] = np.where(high, 1.0, -1.0)
        return bool((high | (part == classes[0])).all())

    if numeric:  # without sorting, which takes longer than an epoch
        ends = over_blocks(y.size, threads, lambda i, j: (y[i:j].min(), y[i:j].max()))
        classes = np.array([np.min(ends), np.max(ends)])
        if not np.isfinite(classes).all():
            bad = classes[~np.isfinite(classes)][0]
            raise ValueError(f"y must be finite, but it holds {float(bad)!r}")
    else:
        try:
            classes = np.unique(y)
        except TypeError:
            raise ValueError("y must hold labels of one kind, not a mixture of types") from None
    if classes.size > 2 or not all(over_blocks(y.size, threads, fill)):
        found = np.unique(y)
        raise ValueError(
            f"y must have two classes for a classification loss, not {found.size}"
            f" (the first are {found[:3].tolist()})"
        )
    if classes[0] == classes[-1]:  # one class: by its sign where it has one
        classes = classes[:1]
        positive = not numeric or bool(classes[0] > 0)
        return np.full(y.shape, 1.0 if positive else -1.0), classes
    return signs, classes


def read_weights(sample_weight: Any, n: int) -> np.ndarray | None:
    if sample_weight is None:
        return None
    weights = _as_floats("sample_weight", sample_weight)
    if weights.shape != (n,):
        raise ValueError(f"sample_weight must have shape ({n},), not {weights.shape}")
    if not np.isfinite(weights).all() or weights.min() < 0:
        bad = int(np.flatnonzero(~(np.isfinite(weights) & (weights >= 0)))[0])
        raise ValueError(
            "sample_weight must be finite and not negative, but entry"
            f" {bad} is {float(weights[bad])!r}"
        )
    if not weights.any():
        raise ValueError("sample_weight must not be zero everywhere, but all its entries are 0.0")
    least, most = float(weights[weights > 0].min()), float(weights.max())
    if least < 1e-100 or most > 1e100:
        raise ValueError(
            "sample_weight must be 0 or between 1e-100 and 1e100, but reaches from"
            f" {least!r} to {most!r}"
        )
    return weights


def _as_floats(parameter: str, value: Any) -> np.ndarray:
    try:
        return np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        kind = getattr(value, "dtype", type(value).__name__)
        raise ValueError(f"{parameter} must be an array of numbers, not {kind}") from None


def read_vector(parameter: str, value: Any, size: int) -> np.ndarray:
    vector = _as_floats(parameter, value)
    if vector.shape != (size,):
        raise ValueError(f"{parameter} must have shape ({size},), not {vector.shape}")
    if not np.isfinite(vector).all():
        bad = int(np.flatnonzero(~np.isfinite(vector))[0])
        raise ValueError(f"{parameter} must be finite, but entry {bad} is {float(vector[bad])!r}")
    return vector


def read_problem(
    matrix: Matrix,
    y: Any,
    loss: Loss,
    lam: float,
    sample_weight: Any = None,
    radius: float = np.inf,
    offset: Any = None,
) -> tuple[Problem, np.ndarray | None]:
    """The problem that all these make, and the classes of y."""
    target, classes = read_targets(y, matrix.n, loss, matrix.passing)
    weights = read_weights(sample_weight, matrix.n)
    problem = make_problem(matrix, target, loss, lam, weights, radius)
    if offset is not None:  # a_i = s_i (<w, x_i> + offset_i) - o_i
        signs = problem.signs(0, problem.n)
        problem.examples["offset"] -= signs * read_offset(offset, problem.n)
    if not problem.largest_norm2 < np.inf:
        refuse_infinite(matrix.rows, problem.examples["norm2"])
    return problem, classes


def read_offset(offset: Any, n: int) -> np.ndarray:
    """One number for all rows, or one a row."""
    if isinstance(offset, Real):
        offset = np.full(n, offset, np.float64)
    return read_vector("offset", offset, n)


def read_alpha(alpha: np.ndarray, problem: Problem) -> np.ndarray:
    """A copy of alpha, in the dual's box to the last bit; refused if it is far outside."""
    loss = problem.loss
    inside = problem.in_box(alpha)
    for start, stop in problem.blocks():
        off = np.abs(alpha[start:stop] - inside[start:stop])
        outside = off > 1e-9 * (problem.weights(start, stop) + np.abs(inside[start:stop]))
        if outside.any():
            bad = start + int(np.flatnonzero(outside)[0])
            raise ValueError(
                f"alpha must lie in the dual's box, weight times [{loss.lower:g},"
                f" {loss.upper:g}], but alpha[{bad}] is {float(alpha[bad])!r}"
            )
    return inside
