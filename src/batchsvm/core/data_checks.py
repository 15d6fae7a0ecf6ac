"""Data at the edge: X, y, weights and vectors, checked and seen as the engines want them.

Like `checks.py`, which checks parameters, it refuses bad input with one sentence.
"""

from __future__ import annotations

from collections.abc import Callable
from numbers import Number, Real
from typing import Any

import numpy as np
import scipy.sparse

from batchsvm.core import checks
from batchsvm.core.arrays import dtype_name, is_device_array, other_device, to_host
from batchsvm.core.warning import warn_user
from batchsvm.files.sparse import BrokenMatrixError, check_parts, check_sparse
from batchsvm.losses import Loss

LARGEST_SAFE_TARGET = 1e150  # below it, no loss at w = 0 overflows, nor does the sum of many


def as_matrix(X: Any) -> Any:
    """X as a two-dimensional array or a CSR matrix, of float32 or float64, in place wherever that
    can be: NumPy arrays, and those of other libraries in host memory.

    Of CSR, the lengths of the parts are checked, and the indices are left to the engine, which
    passes over them anyway; whatever is converted is checked before.
    """
    refuse_masked("X", X)
    if scipy.sparse.issparse(X):
        return _as_csr(X)
    refuse_device_array(X)
    given = dtype_name(X) if hasattr(X, "dtype") else None  # a list has no format to complain about
    try:
        values = np.asarray(to_host(X))
    except ValueError as error:
        raise ValueError(f"X must be a two-dimensional array or sparse matrix: {error}") from None
    if values.dtype == np.float16:
        values = values.astype(np.float32)
    elif values.dtype not in (np.float32, np.float64):
        values = _as_float64("X", "must hold real numbers", values)
    if given is not None and given != values.dtype.name:
        tell_conversion("X", given, values.dtype)
    if values.ndim != 2:
        raise ValueError(f"X must have two dimensions, not shape {values.shape}")
    _refuse_empty(values.shape)
    return values


def refuse_device_array(X: Any) -> None:
    """Refuse an array on a GPU, for the engines whose data are in host memory."""
    if is_device_array(X):
        raise ValueError('X is on a GPU: use engine="gpu" or copy it to the host')
    refuse_other_device(X)


def refuse_other_device(X: Any) -> None:
    """Refuse an array on a device that no engine works on."""
    where = other_device(X)
    if where is not None:
        raise ValueError(f"X must be in host memory or on a CUDA device, not on {where}")


def refuse_masked(parameter: str, value: Any) -> None:
    """Refuse a masked array: what is under its mask would be taken for data."""
    if isinstance(value, np.ma.MaskedArray):
        raise ValueError(
            f"{parameter} must be a plain array, not a masked one: fill its masked entries, or"
            " leave their rows out"
        )


def _as_float64(parameter: str, demand: str, values: np.ndarray) -> np.ndarray:
    """An array of numbers as float64; numbers that are written as words are refused."""
    words = values.dtype.kind == "O" and any(isinstance(v, str | bytes) for v in values.flat)
    if words or values.dtype.kind not in "biufO":
        raise ValueError(f"{parameter} {demand}, not {'words' if words else values.dtype}")
    try:
        return values.astype(np.float64, copy=False)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"{parameter} {demand}, not {values.dtype}") from None


def _as_csr(X: Any) -> Any:
    if X.ndim != 2:
        raise ValueError(f"X must have two dimensions, not shape {X.shape}")
    _refuse_empty(X.shape)
    refuse_broken(X, parts_alone=X.format == "csr")
    if X.dtype not in (np.float32, np.float64):
        if X.dtype.kind not in "biuf":
            raise ValueError(f"X must hold real numbers, not {X.dtype}")
        tell_conversion("X", X.dtype, np.dtype(np.float64))
        X = X.astype(np.float64)
    if X.format != "csr":
        tell_conversion("X", X.format.upper(), "CSR")
        return X.tocsr()
    return _with_plain_parts(X)


def _with_plain_parts(X: Any) -> Any:
    """CSR whose indices are int32 or int64, and whose arrays end where the last row does."""
    end, plain = int(X.indptr[-1]), (np.dtype(np.int32), np.dtype(np.int64))
    if end == X.indices.size and X.indptr.dtype in plain and X.indices.dtype in plain:
        return X
    indptr, indices = (
        part if part.dtype in plain else part.astype(np.int64) for part in (X.indptr, X.indices)
    )
    return scipy.sparse.csr_array((X.data[:end], indices[:end], indptr), shape=X.shape)


def _refuse_empty(shape: tuple[int, ...]) -> None:
    if 0 in shape:
        raise ValueError(f"X must have at least one row and one column, not shape {shape}")


def tell_conversion(parameter: str, given: Any, needed: Any) -> None:
    from sklearn.exceptions import DataConversionWarning  # half a second to import

    sentence = f"{parameter} is {given}; it was converted to {needed}, which makes a copy"
    warn_user(sentence, DataConversionWarning)


def refuse_broken(matrix: Any, parts_alone: bool = False) -> None:
    """Refuse a sparse matrix whose parts do not fit together; if `parts_alone`, look at the
    lengths of a CSR matrix and not at its indices."""
    try:
        (check_parts if parts_alone else check_sparse)(matrix)
    except BrokenMatrixError as error:
        kind = matrix.format.upper()
        raise ValueError(f"X must be a valid {kind} matrix, but its {error}") from None


def refuse_infinite(found: tuple[int, float] | None) -> None:
    """Refuse X, if an engine has found a row with NaN, infinity, or a value whose square
    overflows."""
    if found is not None:
        row, value = found
        raise ValueError(
            f"X must be finite (no NaN, no inf) and below 1e150, but row {row} holds {value!r}"
        )


MANY_LABELS = 2**17  # on a device: fewer are fetched sooner than compared there
# work(start, stop) over blocks of rows, by the threads of a data set; the results in order.
NO_LABELS = "y must be given: X holds no labels of its own"
OverBlocks = Callable[[Callable[[int, int], Any]], list[Any]]


def read_targets(
    y: Any, n: int, loss: Loss, over_blocks: OverBlocks | None = None, name: str = "y"
) -> tuple[np.ndarray, np.ndarray | None]:
    """y as float64, or for classification as -1 and +1 (int8), and the two classes; errors call
    it by this name."""
    on_device = n > MANY_LABELS and is_device_array(y) and tuple(y.shape) == (n,)
    if loss.task == "classification" and on_device:
        found = _two_numbers_on_device(y)
        if found is not None:
            return found
    y = as_labels(name, y)
    if y.shape != (n,):
        raise ValueError(f"{name} must have shape ({n},), one entry per row of X, not {y.shape}")
    if loss.task == "classification":
        return _read_labels(y, over_blocks or (lambda work: [work(0, n)]), name)
    if y.dtype.kind not in "biuf":
        raise ValueError(f"{name} must hold numbers for a regression loss, not {y.dtype}")
    if not np.isfinite(y).all():
        bad = int(np.flatnonzero(~np.isfinite(y))[0])
        raise ValueError(f"{name} must be finite, but entry {bad} is {float(y[bad])!r}")
    y = y.astype(np.float64, copy=False)
    if max(-y.min(), y.max()) > LARGEST_SAFE_TARGET:
        with np.errstate(over="ignore"):
            refuse_infinite_loss(float(loss.value(-y).sum()), name)
    return y, None


def _two_numbers_on_device(y: Any) -> tuple[np.ndarray, np.ndarray] | None:
    """Labels of a device that are two numbers: compared there, one byte per row comes here.  None
    for all else, which is read on the host."""
    if not hasattr(y, "min") or "complex" in dtype_name(y):
        return None
    low, high = y.min(), y.max()
    upper = y == high
    are_two = (upper | (y == low)).all()  # all of it is under way before anything is waited for
    low, high = to_host(low), to_host(high)
    ends = np.array([float(low), float(high)])
    if np.abs(ends).max() > 2.0**53:  # labels that float64 does not tell apart
        return None
    if ends[0] == ends[1] or not np.isfinite(ends).all() or not bool(are_two):
        return None
    signs = to_host(upper).view(np.int8) * np.int8(2)
    signs -= 1
    return signs, ends.astype(low.dtype)


def refuse_infinite_loss(losses_at_zero: float, name: str = "y") -> None:
    """Refuse targets whose losses at w = 0 add up to infinity: nothing could be certified."""
    if not np.isfinite(losses_at_zero):
        raise ValueError(
            f"{name} must have a finite mean loss at w = 0, but that is infinite: scale y down, and"
            " the weights, the offsets and the margin of the loss if there are any"
        )


def as_labels(parameter: str, y: Any) -> np.ndarray:
    """Labels or targets as a NumPy array, brought from a device if they are on one; refused if
    they are masked, complex, or of mixed kinds.

    NumPy would turn a list of numbers and words into words alone, without a word.
    """
    refuse_masked(parameter, y)
    if isinstance(y, list | tuple):
        _refuse_mixture(parameter, y)
    try:
        array = np.asarray(to_host(y))
    except ValueError as error:
        raise ValueError(f"{parameter} must be an array of labels or numbers: {error}") from None
    if array.dtype.kind == "c":
        raise ValueError(f"{parameter} must hold labels or real numbers, not {array.dtype}")
    if array.dtype.kind == "O" and array.ndim == 1 and array.size:
        _refuse_mixture(parameter, array.tolist())
        if isinstance(array[0], Number):
            return as_labels(parameter, np.array(array.tolist()))
    return array


def _refuse_mixture(parameter: str, labels: Any) -> None:
    kinds = {_kind_of(kind) for kind in set(map(type, labels))}
    if len(kinds) > 1:
        raise ValueError(
            f"{parameter} must hold labels of one kind, not a mixture of types"
            f" ({', '.join(sorted(kinds))})"
        )


def _kind_of(kind: type) -> str:
    """What a label of this type is: all numbers are of one kind."""
    if issubclass(kind, Number | np.bool_):
        return "numbers"
    return "words" if issubclass(kind, str) else kind.__name__


def _read_labels(
    y: np.ndarray, over_blocks: OverBlocks, name: str
) -> tuple[np.ndarray, np.ndarray]:
    numeric = y.dtype.kind in "biuf"
    signs = np.empty(y.size, np.int8)

    def fill(start: int, stop: int) -> bool:
        """Whether all labels of a block are of the two classes."""
        part = y[start:stop]
        high = part == classes[-1]
        np.multiply(high.view(np.int8), 2, out=signs[start:stop])
        signs[start:stop] -= 1
        return bool((high | (part == classes[0])).all())

    if numeric:  # without sorting, which takes longer than an epoch
        ends = over_blocks(lambda i, j: (y[i:j].min(), y[i:j].max()))
        classes = np.array([np.min(ends), np.max(ends)])
        if not np.isfinite(classes).all():
            bad = classes[~np.isfinite(classes)][0]
            raise ValueError(f"{name} must be finite, but it holds {float(bad)!r}")
    else:
        try:
            classes = np.unique(y)
        except TypeError:
            raise ValueError(
                f"{name} must hold labels of one kind, not a mixture of types"
            ) from None
    if classes.size > 2 or not all(over_blocks(fill)):
        found = np.unique(y)
        raise ValueError(
            f"{name} must have two classes for a classification loss, not {found.size}"
            f" (the first are {found[:3].tolist()})"
        )
    if classes[0] == classes[-1]:  # one class: by its sign where it has one
        classes = classes[:1]
        positive = not numeric or bool(classes[0] > 0)
        return np.full(y.shape, 1 if positive else -1, np.int8), classes
    return signs, classes


def refuse_bad_labels(y: np.ndarray, name: str = "y") -> None:
    """Refuse labels that are not finite, or None."""
    if y.dtype.kind == "O" and any(label is None for label in y.ravel()):
        raise ValueError(f"{name} must hold a label for each row, but it holds None")
    if y.dtype.kind == "f" and not np.isfinite(y).all():
        bad = y[~np.isfinite(y)][0]
        raise ValueError(f"{name} must be finite, but it holds {float(bad)!r}")


def read_weights(sample_weight: Any, n: int, k: int = 1) -> np.ndarray | None:
    """One weight per row, or for k > 1 problems also one per row and problem."""
    if sample_weight is None:
        return None
    weights = _as_floats("sample_weight", sample_weight)
    if weights.shape != (n,) and not (k > 1 and weights.shape == (n, k)):
        shapes = f"({n},)" if k == 1 else f"({n},) or ({n}, {k})"
        raise ValueError(f"sample_weight must have shape {shapes}, not {weights.shape}")
    name, fault = "sample_weight", _fault_of_weights(weights)
    if fault is not None and weights.ndim == 2:  # all at once first: columns may be far apart
        faults = [_fault_of_weights(column) for column in weights.T]
        bad = next(column for column, found in enumerate(faults) if found is not None)
        name, fault = column_name(bad, name), faults[bad]
    if fault is not None:
        raise ValueError(f"{name} must {fault}")
    return weights


def _fault_of_weights(weights: np.ndarray) -> str | None:
    """What weights must do and do not, if anything."""
    if not np.isfinite(weights).all() or weights.min() < 0:
        flat = weights.ravel()
        bad = int(np.flatnonzero(~(np.isfinite(flat) & (flat >= 0)))[0])
        return f"be finite and not negative, but entry {bad} is {float(flat[bad])!r}"
    if not weights.any(axis=0).all():
        return "not be zero everywhere, but all its entries are 0.0"
    least, most = float(weights[weights > 0].min()), float(weights.max())
    if least < 1e-100 or most > 1e100:
        return f"be 0 or between 1e-100 and 1e100, but reaches from {least!r} to {most!r}"
    return None


def column_name(k: int, name: str) -> str:
    """What errors call the column of problem k."""
    return f"column {k} of {name}"


def _as_floats(parameter: str, value: Any) -> np.ndarray:
    """The array as it is if it is one of float64 in host memory."""
    refuse_masked(parameter, value)
    demand = "must be an array of numbers"
    try:
        values = np.asarray(to_host(value))
    except ValueError as error:
        raise ValueError(f"{parameter} {demand}: {error}") from None
    return _as_float64(parameter, demand, values)


def read_vector(parameter: str, value: Any, size: int) -> np.ndarray:
    vector = _as_floats(parameter, value)
    if vector.shape != (size,):
        raise ValueError(f"{parameter} must have shape ({size},), not {vector.shape}")
    if not np.isfinite(vector).all():
        bad = int(np.flatnonzero(~np.isfinite(vector))[0])
        raise ValueError(f"{parameter} must be finite, but entry {bad} is {float(vector[bad])!r}")
    return vector


def read_offset(offset: Any, n: int) -> np.ndarray:
    """One number for all rows, or one per row."""
    if isinstance(offset, Real):
        words = "a finite number, or one per row"
        offset = np.full(n, checks.number("offset", offset, words, -np.inf))
    return read_vector("offset", offset, n)
