"""How long training is likely to take on each engine, before it begins.

The constants were measured on two cores of a server and on an H200, and the counts of epochs on
text, covertype and generated data, with lam N from 0.3 to 30 times the largest ||x_i||^2.
`benchmarks/forecasts.py` compares forecasts with fits.  They tell milliseconds from minutes, and
which engine to try; they are no promise.
"""

from __future__ import annotations

from math import log10
from typing import TYPE_CHECKING, NamedTuple

from batchsvm.core.change_over import TRIAL_PART
from batchsvm.core.layout import Workload
from batchsvm.core.newton_choice import (
    LEAST_TOL,
    has_closed_form,
    has_short_steps,
    largest_second_derivative,
    newton_ns,
)
from batchsvm.core.problem import Facts, Problem
from batchsvm.methods import Newton, is_smooth

if TYPE_CHECKING:
    from batchsvm.core.planning import Plan
    from batchsvm.engines.protocol import Dataset

NS = 1e-9
# SDCA: epochs = FEWEST + PER_PULL pull (log10(1/tol) / 3)^POWER, pull = phi'' ||x||^2 c / (lam N).
FEWEST, PER_PULL, POWER = 2.5, 1.1, 1.0
FEWEST_WITHOUT_REST = 1.5  # of losses of which no row rests: their estimates end training earlier
KINK_FEWEST, KINK_PER_PULL, KINK_POWER = 2.0, 2.5, 1.5  # of losses with kinks, whose phi'' is 1
# The cpu engine on one thread, in nanoseconds.
SET_UP = 0.5e6
ROW_SET_UP, ENTRY_SET_UP = 8.0, 0.7
ROW_PASS, ENTRY_PASS = 20.0, 1.1  # both passes of a certificate
ROW_VISIT, ENTRY_VISIT = 35.0, 1.1
FAR_VISIT = 40.0  # beside, where X does not fit into a cache
DENSE = 0.4  # of the time of an entry, where it needs no index
TRANSCENDENTAL = 120.0  # of a visit to a row, where the step has no closed form
SHORT_TRANSCENDENTAL = 40.0  # of the logistic loss, where steps are short
TRANSCENDENTAL_PASS = 30.0
CACHE_BYTES = 2**25
FORESEEN = ("newton", "guarded", "blocks", "gram", "asynchronous")  # in batches
THREAD_POWER = 0.4  # a fit is faster by threads^THREAD_POWER
# The gpu engine on an H200, with X on the host.
GPU_SET_UP = 8e6
GPU_UPLOAD_BYTES = 10.0  # per nanosecond
GPU_DENSE_ENTRY, GPU_SPARSE_ENTRY = 0.02, 0.12  # per epoch
# The streamed engine: bytes per nanosecond in the first pass and in the others, and how many.
PACKED_BYTES, READ_BYTES, READS = 0.12, 1.0, 4.0
STREAM_SET_UP = 5e7


class Forecast(NamedTuple):
    """How long training is likely to take somewhere."""

    engine: str
    threads: int
    seconds: float

    def __str__(self) -> str:
        where = {
            "cpu": f", {self.threads} thread{'s' if self.threads > 1 else ''}",
            "gpu": " (an H200, with upload)",
            "streamed": " (from files, with the first pass)",
        }
        return f"{self.engine}{where[self.engine]}: {in_words(self.seconds)}"


def in_words(seconds: float) -> str:
    """A length of time with two digits.

    >>> in_words(0.0123), in_words(1.26), in_words(754.0)
    ('12 ms', '1.3 s', '13 min')
    """
    if seconds < 1.0:
        return f"{seconds * 1e3:.2g} ms"
    return f"{seconds:.2g} s" if seconds < 100.0 else f"{seconds / 60:.2g} min"


def forecast(
    data: Dataset, problem: Problem, facts: Facts, plan: Plan, work: Workload, max_epochs: float
) -> tuple[Forecast, ...]:
    """For the first of these problems: the engine and threads of the plan, if there is a forecast
    for them, and then others.  None where the method is not one that "auto" takes: its epochs are
    not known beforehand."""
    if plan.batch_size > 1 and plan.method not in FORESEEN:
        return ()
    epochs = min(epochs_of(problem, facts, plan.tol), max_epochs)
    newton = plan.method == Newton.name
    smooth = is_smooth(problem.loss)
    by_newton = _set_up_ns(data) + newton_ns(work, smooth, plan.tol, plan.is_trial)
    on_cpu = by_newton if newton else _sdca_ns(data, problem, facts, epochs)
    if plan.is_trial:
        on_cpu = min(on_cpu, (1 + TRIAL_PART) * by_newton)
    own = 1 if data.engine != "cpu" else plan.workers
    found = [Forecast("cpu", 1, on_cpu * NS)]
    if own > 1:
        found.append(Forecast("cpu", own, on_cpu / own**THREAD_POWER * NS))
    if not (newton or plan.is_trial):  # which those engines do not choose by themselves
        found.append(Forecast("gpu", 1, _gpu_ns(data, epochs) * NS))
        found.append(Forecast("streamed", 1, _streamed_ns(data, on_cpu) * NS))
    return tuple(sorted(found, key=lambda one: (one.engine, one.threads) != (data.engine, own)))


def epochs_of(problem: Problem, facts: Facts, tol: float) -> float:
    """How many epochs of SDCA it may take."""
    curvature = _curvature(problem, facts)
    digits = log10(1.0 / max(tol, LEAST_TOL)) / 3
    if is_smooth(problem.loss):
        steepness = largest_second_derivative(problem.loss)
        rests = getattr(problem.loss, "corners", True)
        fewest = digits + (FEWEST if rests else FEWEST_WITHOUT_REST)
        rate, power = PER_PULL * steepness, POWER
    else:
        at_zero = float(facts.primal_at_zero[0])
        fewest, rate, power = KINK_FEWEST, KINK_PER_PULL / (at_zero or 1.0), KINK_POWER
    return fewest + rate * curvature * digits**power


def _curvature(problem: Problem, facts: Facts) -> float:
    """The largest ||x_i||^2 c_i / (lam N)."""
    lam_n = float(problem.lam[0]) * float(facts.total_weight[0])
    return float(facts.largest_norm2[0]) * float(facts.largest_weight[0]) / lam_n


def _entry(data: Dataset) -> float:
    return DENSE if data.nonzeros == data.n * data.d else 1.0


def _pass_ns(data: Dataset, problem: Problem) -> float:
    """What a certificate takes, in both of its passes."""
    row = ROW_PASS + (0.0 if has_closed_form(problem.loss) else TRANSCENDENTAL_PASS)
    return data.n * row + data.nonzeros * ENTRY_PASS * _entry(data)


def _set_up_ns(data: Dataset) -> float:
    return SET_UP + data.n * ROW_SET_UP + data.nonzeros * ENTRY_SET_UP * _entry(data)


def _sdca_ns(data: Dataset, problem: Problem, facts: Facts, epochs: float) -> float:
    visit = ROW_VISIT + ENTRY_VISIT * _entry(data) * data.nonzeros / data.n
    visit += 0.0 if 8 * data.nonzeros < CACHE_BYTES else FAR_VISIT
    if not has_closed_form(problem.loss):
        is_short = has_short_steps(problem.loss, _curvature(problem, facts))
        visit += SHORT_TRANSCENDENTAL if is_short else TRANSCENDENTAL
    return _set_up_ns(data) + epochs * data.n * visit + _pass_ns(data, problem)


def _gpu_ns(data: Dataset, epochs: float) -> float:
    dense = _entry(data) < 1.0
    per_epoch = data.nonzeros * (GPU_DENSE_ENTRY if dense else GPU_SPARSE_ENTRY)
    bytes_of = data.nonzeros * (4 if dense else 8)
    steps = (2.0 + epochs) * per_epoch
    return GPU_SET_UP + bytes_of / GPU_UPLOAD_BYTES + steps


def _streamed_ns(data: Dataset, on_cpu: float) -> float:
    bytes_of = data.nonzeros * (4 if _entry(data) < 1.0 else 8)
    return STREAM_SET_UP + bytes_of / PACKED_BYTES + max(READS * bytes_of / READ_BYTES, on_cpu)
