"""Parameters at the edge: each check refuses bad input with one sentence, before any work.

A sentence names the parameter, says what it was, and what is allowed.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterable, Iterator
from numbers import Integral, Real
from operator import index
from typing import Any

import numpy as np

from batchsvm.compiled import STRUCT_METHODS
from batchsvm.losses import LOSSES, Loss
from batchsvm.methods import (
    AVERAGINGS,
    METHODS,
    SAMPLINGS,
    STEPS,
    Aggressive,
    Asynchronous,
    Blocks,
    Gram,
    Method,
    Newton,
    Pegasos,
    is_smooth,
)
from batchsvm.methods.blocks import EXCHANGES
from batchsvm.methods.newton import SOLVERS

_LOSS_NEEDS = (
    "task", "lower", "upper", "lipschitz", "value", "subgradient", "conjugate", "dual_step",
)  # fmt: skip


POSITIVE = "a finite positive number"
LEAST_LAM = float(np.finfo(np.float64).tiny)  # 2.2e-308: below it, numbers lose their digits
LARGEST_COLUMN = 1e150  # as for X: sums of squares of what is below stay finite


def shown(value: Any) -> str:
    """A value in a message: one line, and a short one."""
    if isinstance(value, np.ndarray) and value.ndim:
        return f"an array of shape {value.shape}"
    if isinstance(value, Integral) and not -(10**50) < int(value) < 10**50:
        return f"an integer of {int(value).bit_length()} bits"
    text = " ".join(repr(value).split())
    return text if len(text) <= 200 else f"{text[:197]}..."


def is_word(value: Any, word: str) -> bool:
    """Whether this is that word; an array would be compared entry by entry."""
    return isinstance(value, str) and value == word


def is_scalar(value: Any) -> bool:
    """Whether this is no array, series or table of any library."""
    return not isinstance(value, np.ndarray) and not getattr(value, "ndim", 0)


# What others call our losses and methods.
SYNONYMS = {
    "log": "logistic", "log_loss": "logistic", "crossentropy": "logistic", "svm": "hinge",
    "l1": "hinge", "l2": "squared_hinge", "mse": "squared_error", "ls": "squared_error",
    "squared_loss": "squared_error", "ridge": "squared_error", "mae": "absolute",
    "lad": "absolute", "pinball": "quantile", "svr": "epsilon_insensitive",
    "modified_huber": "smoothed_hinge", "sdca": "auto", "serial": "auto", "dcd": "auto",
    "sgd": "pegasos", "minibatch": "safe", "async": "asynchronous",
}  # fmt: skip


def choice(parameter: str, value: Any, known: Iterable[Any]) -> None:
    """Refuse a name that is not among the known ones, and point to the nearest."""
    known = list(known)
    if is_scalar(value) and value in known:
        return
    names = [name for name in known if isinstance(name, str)]
    near = _nearest(value, names) if isinstance(value, str) else None
    hint = f"; did you mean {near!r}?" if near else ""
    allowed = ", ".join(repr(name) for name in known)
    raise ValueError(f"{parameter} must be one of {allowed}, not {shown(value)}{hint}")


def _nearest(value: str, names: list[str]) -> str | None:
    """The name that was meant, perhaps: by another word for it, its beginning, or a slip."""
    word = value.lower()
    if SYNONYMS.get(word) in names:
        return SYNONYMS[word]
    near = difflib.get_close_matches(word, names, n=1, cutoff=0.7)
    begun = [name for name in names if len(word) > 2 and name.startswith(word)]
    return next(iter([*near, *begun]), None)


def number(parameter: str, value: Any, words: str, low: float, high: float = np.inf) -> float:
    """A real number strictly between low and high."""
    found = _as_float(value)
    if found is None or not low < found < high:
        raise ValueError(f"{parameter} must be {words}, not {shown(value)}")
    return found


def _as_float(value: Any) -> float | None:
    """The number, infinite if an integer or a fraction is beyond float64; None if it is none."""
    if not isinstance(value, Real) or isinstance(value, bool):
        return None
    try:
        return float(value)
    except OverflowError:
        return np.inf  # or minus infinity: neither is allowed anywhere


def read_lam(parameter: str, value: Any) -> float:
    """A lam: finite, positive, and not subnormal."""
    lam = number(parameter, value, POSITIVE, 0.0)
    if lam < LEAST_LAM:
        raise ValueError(
            f"{parameter} must be at least {LEAST_LAM:.2g}, the smallest number of full precision,"
            f" not {lam!r}"
        )
    return lam


def read_column(parameter: str, value: Any, words: str = POSITIVE) -> float:
    """The value of a constant column, whose square is added to ||x_i||^2 of every row."""
    column = number(parameter, value, words, 0.0)
    if column >= LARGEST_COLUMN:
        raise ValueError(
            f"{parameter} must be below {LARGEST_COLUMN:.0e}, so that its square is finite, not"
            f" {column!r}"
        )
    return column


def read_bias(bias: Any) -> float | None:
    return None if bias is None else read_column("bias", bias, f"{POSITIVE}, or None")


def read_tol(tol: Any) -> float:
    return number("tol", tol, "from 0 to below 1", -1e-300, 1.0)


def whole(parameter: str, value: Any, low: int, high: int, words: str) -> int:
    """An integer between low and high, both included."""
    good = isinstance(value, Integral) and not isinstance(value, bool) and low <= int(value) <= high
    if not good:
        raise ValueError(f"{parameter} must be {words}, not {shown(value)}")
    return int(value)


def read_loss(loss: Any) -> Loss:
    """A loss by name or by object."""
    if isinstance(loss, type) and hasattr(loss, "_fields"):
        loss = loss()
    if isinstance(loss, str) or not hasattr(loss, "_fields"):
        choice("loss", loss, LOSSES)
        return LOSSES[loss]()
    kind = type(loss)
    missing = [need for need in _LOSS_NEEDS if not hasattr(kind, need)]
    if missing or not loss._fields:
        raise ValueError(
            f"loss {kind.__name__} has no {', '.join(missing) or 'field'}; every method needs it"
            " (see docs/add_a_loss.md)"
        )
    if taken := STRUCT_METHODS.intersection(loss._fields):
        raise ValueError(
            f"loss {kind.__name__} must not have a field named {min(taken)!r}, which is the name"
            " of a method in compiled kernels"
        )
    for name, (low, high, words) in getattr(loss, "allowed", {}).items():
        parameter, value = f"{name} of loss {kind.__name__}", getattr(loss, name)
        if isinstance(loss._field_defaults.get(name), int):
            whole(parameter, value, low, high, words)
        else:  # a float even if an integer was given, which would be compiled for anew
            loss = loss._replace(**{name: number(parameter, value, words, low, high)})
    if not loss.lower <= 0.0 <= loss.upper:
        raise ValueError(
            f"loss {kind.__name__} must have 0 in its dual box, not [{loss.lower}, {loss.upper}]"
        )
    return loss


def read_method(method: Any) -> Method | None:
    """A method by name or by object; None for "auto"."""
    if isinstance(method, type) and method in METHODS.values():
        method = method()
    if type(method) not in METHODS.values():
        choice("method", method, ["auto", *METHODS])
        return None if is_word(method, "auto") else METHODS[method]()
    if isinstance(method, Newton):
        choice("solver", method.solver, SOLVERS)
        return method
    choice("sampling", method.sampling, SAMPLINGS)
    if method.sigma2 is not None:
        number("sigma2", method.sigma2, "between 0 and 1, or None", 0.0, 1.0 + 1e-9)
    if isinstance(method, Pegasos):
        if not (is_scalar(method.radius) and method.radius == np.inf):
            number("radius", method.radius, "a positive number", 0.0)
    else:
        choice("step", method.step, STEPS)
        choice("skips", method.skips, [True, False])
    if isinstance(method, Aggressive):
        number("gamma", method.gamma, "strictly between 0 and 1", 0.0, 1.0)
        whole("rounds", method.rounds, 1, 1000, "an integer between 1 and 1000")
    if isinstance(method, Blocks):
        whole("blocks", method.blocks, 1, 2**16, "a positive integer up to 65536")
        choice("exchange", method.exchange, EXCHANGES)
        if method.sampling != "permutation":
            raise ValueError(f'sampling must be "permutation" for blocks, not "{method.sampling}"')
    if isinstance(method, Gram):
        if not is_word(method.batches, "auto"):
            words = "'auto' or a positive integer up to 65536"
            whole("batches", method.batches, 1, 2**16, words)
        whole("sweeps", method.sweeps, 1, 1000, "an integer between 1 and 1000")
        if method.sampling != "permutation":
            raise ValueError(f'sampling must be "permutation" for gram, not "{method.sampling}"')
    if isinstance(method, Asynchronous):
        for name, only in (("sampling", "permutation"), ("step", "general")):
            if (value := getattr(method, name)) != only:
                raise ValueError(f'{name} must be "{only}" for asynchronous, not "{value}"')
    return method


def refuse_corners(loss: Loss, method: Method | None, engine: str) -> None:
    """Where rows are not in the memory of this host, Newton's method needs losses whose slope does
    not jump."""
    if isinstance(method, Newton) and not is_smooth(loss):
        smooth = ", ".join(f'"{name}"' for name, kind in LOSSES.items() if is_smooth(kind))
        raise ValueError(
            f'loss must have a continuous slope for method "newton" on engine="{engine}", such as'
            f' {smooth}, not {loss}; engine="cpu" takes every loss'
        )


def read_checkpoints(checkpoints: Any, averaging: str | None) -> Iterable[int] | None:
    """The iterations to certify after, or None for our own choice."""
    if isinstance(checkpoints, str):
        choice("checkpoints", checkpoints, ["auto"])
        return None
    if averaging == "tail":
        raise ValueError(
            "checkpoints must be 'auto' with averaging='tail', which is certified after T, T/2,"
            f" T/4, ... iterations, not {checkpoints!r}"
        )
    if isinstance(checkpoints, Iterator):  # asked only when a run gets there
        return _increasing(checkpoints, checkpoints)
    try:
        at = tuple(_increasing(checkpoints, checkpoints))
    except TypeError:
        at = ()
    if not at:
        raise ValueError(_WHICH_CHECKPOINTS.format(checkpoints))
    return at


_WHICH_CHECKPOINTS = "checkpoints must be 'auto' or increasing positive integers, not {!r}"


def _increasing(iterations: Iterable[Any], given: Any) -> Iterator[int]:
    last = 0
    for iteration in iterations:
        try:
            last, before = index(iteration), last
        except TypeError:
            last, before = 0, 0
        if last <= before:
            raise ValueError(_WHICH_CHECKPOINTS.format(given))
        yield last


def read_averaging(averaging: str | None, method: Method | None) -> str | None:
    choice("averaging", averaging, AVERAGINGS)
    if averaging is not None and isinstance(method, Blocks | Gram | Asynchronous | Newton):
        raise ValueError(f"averaging must be None for {method.name}, not {averaging!r}")
    return averaging


def read_device(device: Any) -> int | None:
    """The number of a CUDA device, or None."""
    if device is None:
        return None
    words = "the number of a CUDA device, from 0 on, or None"
    return whole("device", device, 0, 2**31, words)


def read_jobs(n_jobs: int | None) -> int:
    """How many threads: -1 and None mean all cores and one, as in scikit-learn."""
    words = "a positive integer, or -1 for all cores"
    if n_jobs is None:
        return 1
    if is_scalar(n_jobs) and n_jobs == -1:
        return os.cpu_count() or 1
    return whole("n_jobs", n_jobs, 1, 2**16, words)


def read_verbose(verbose: Any) -> int:
    words = "0 for silence or a positive integer for a progress bar"
    plain = int(verbose) if isinstance(verbose, bool) else verbose
    return whole("verbose", plain, 0, 2**31, words)


def read_lams(parameter: str, lams: Any) -> np.ndarray:
    """One positive number or several, as they were given."""
    if isinstance(lams, Real) or np.ndim(lams) == 0:
        return np.array([read_lam(parameter, lams)])
    given, masked = np.asarray(lams), isinstance(lams, np.ma.MaskedArray)
    found = [_as_float(value) for value in given.flat]
    if masked or given.dtype.kind not in "iufO" or None in found:
        kind = "a masked one" if masked else given.dtype
        raise ValueError(f"{parameter} must be an array of numbers, not {kind}")
    values = np.array(found, np.float64)
    if not np.isfinite(values).all():
        bad = int(np.flatnonzero(~np.isfinite(values))[0])
        raise ValueError(f"{parameter} must be finite, but entry {bad} is {float(values[bad])!r}")
    if values.size == 0 or not (values >= LEAST_LAM).all():
        raise ValueError(
            f"{parameter} must hold at least one number, and positive ones from {LEAST_LAM:.2g} on,"
            f" not {shown(lams)}"
        )
    return values


def read_seed(random_state: Any) -> int:
    """A seed for the batch stream from None, an integer, a Generator or a RandomState."""
    if random_state is None:
        return int(np.random.default_rng().integers(2**63))
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(2**63))
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(2**62))
    words = "None, an integer that is not negative, a numpy Generator or RandomState"
    return whole("random_state", random_state, 0, 2**64 - 1, words)
