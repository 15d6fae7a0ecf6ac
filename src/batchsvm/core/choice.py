"""What training does: a method, a batch size and threads in the place of "auto", and the plan that
says so.  `fit` and `plan` both come here."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from batchsvm.core import checks
from batchsvm.core.change_over import Trial, late_trial_of, trial_of
from batchsvm.core.device_layout import DeviceSize, DeviceWork, lay_out_on_device
from batchsvm.core.layout import (
    Layout,
    Workload,
    lay_out,
    lay_out_as_asked,
    lay_out_newton,
    workload_of,
)
from batchsvm.core.newton_choice import PROXIMAL_ITERATIONS, Alternative, newton_alternative
from batchsvm.core.options import FitOptions
from batchsvm.core.planning import Plan, make_plan
from batchsvm.core.problem import Facts, Problem
from batchsvm.core.spectral import LaterSigma2, Sigma2, SpectralQuery, sigma2_later
from batchsvm.methods import Asynchronous, Blocks, DualMethod, Gram, Guarded, Newton, is_smooth

if TYPE_CHECKING:
    from batchsvm.engines.protocol import Dataset

# Methods whose steps take no beta_b: nothing but the plan needs sigma^2.
WITHOUT_BETA_B = Guarded | Blocks | Gram | Asynchronous | Newton
MAX_UNIT_NORM = 1 + 1e-4  # text files round


def sigma2_for(
    data: Dataset, problem: Problem, query: SpectralQuery, known: float | None
) -> Sigma2 | LaterSigma2:
    """sigma^2 of the rows with the bias of the first problem, if it is not known already."""
    if known is not None:
        return known if isinstance(known, Sigma2) else Sigma2(known, "given")
    bias = None if problem.bias is None else float(problem.bias[0])
    return sigma2_later(data, replace(query, bias=bias))


def choose(
    data: Dataset,
    problem: Problem,
    facts: Facts,
    options: FitOptions,
    sigma2: float | None = None,
) -> tuple[Layout, Plan]:
    """Put a method and a batch size in the place of "auto"; sigma^2 may be known already."""
    # A driver takes its time to say what is free on its device: it is asked once.
    work, tol, size = workload_of(data, problem), options.tol, data.device_size
    quick = SpectralQuery("estimate")
    chosen = options.method is None and options.batch_size == "auto"
    if chosen and size is None:
        found = sigma2_for(data, problem, quick, sigma2)
        lam_n = float(problem.lam[0]) * float(facts.total_weight[0])
        norm2 = float(facts.largest_norm2[0])
        layout = lay_out(work, options.averaging is not None, lambda: found.value, lam_n, norm2)
        newton = newton_alternative_of(data, problem, facts, options)
        if newton is not None:
            layout = _with_newton(work, layout, *newton)
        return layout, make_plan(problem, facts, work.columns, tol, found, layout)
    layout = _lay_out_as_asked(data, problem, options, size)
    method = layout.method
    serial = layout.batch_size == 1
    known = method.sigma2 if sigma2 is None else sigma2
    if isinstance(method, DualMethod) and method.step == "literal":
        refuse_long_rows(facts, 'step="general"')
        if known is None and not serial:  # the paper's own sigma^2, of the rows as they are
            known = sigma2_for(data, problem, SpectralQuery(normalize=False), None).value
    careless = serial or chosen or isinstance(method, WITHOUT_BETA_B)
    found = sigma2_for(data, problem, quick if careless else SpectralQuery(), known)
    plan = make_plan(problem, facts, work.columns, tol, found, layout)
    if isinstance(method, DualMethod) and method.sampling == "replacement" and plan.batch_size > 1:
        raise ValueError(
            'sampling must be "permutation" or "subsets" for a dual method with batch_size > 1,'
            f' not "replacement": a row twice in a batch of {plan.batch_size} can leave its box'
        )
    return layout, plan


def _with_newton(
    work: Workload, layout: Layout, newton: Alternative, trial: Trial | None
) -> Layout:
    """Newton's method, or this layout with a trial."""
    if trial is None:
        return lay_out_newton(work, Newton(), "auto", newton.reason)
    if not newton.is_likely:
        return layout._replace(trial=trial)
    words = (
        f"SDCA is tried first ({layout.reason}); the gap is checked after {trial}, and Newton's"
        f" method takes over if it falls too slowly: {newton.reason}"
    )
    return layout._replace(trial=trial, reason=words)


def newton_alternative_of(
    data: Dataset, problem: Problem, facts: Facts, options: FitOptions
) -> tuple[Alternative, Trial | None] | None:
    """Newton's method, which "auto" takes or may go on with after a trial of SDCA.  None where
    something was asked for that it does not offer, where it may not take as many iterations as it
    needs, or where epochs of SDCA are always cheaper."""
    enough = 1 if is_smooth(problem.loss) else 2 * PROXIMAL_ITERATIONS
    if not data.cheap_passes or options.max_epochs < enough or options.averaging is not None:
        return None
    if options.checkpoints is not None or options.saving is not None:
        return None
    work = workload_of(data, problem)
    found = newton_alternative(work, problem, facts, options.tol, lambda: data.mean_norm2)
    if found is None:
        return None
    trial = (trial_of if found.is_likely else late_trial_of)(found.epochs, options.max_epochs)
    takes_at_once = found.is_likely and found.forms_hessian
    return (found, trial) if trial is not None or takes_at_once else None


def _lay_out_as_asked(
    data: Dataset, problem: Problem, options: FitOptions, size: DeviceSize | None
) -> Layout:
    if isinstance(options.method, Newton):
        return lay_out_newton(
            workload_of(data, problem), options.method, options.batch_size, "as asked for"
        )
    if size is not None:
        asked = None if options.batch_size == "auto" else int(options.batch_size)
        columns = problem.columns(data.d)
        there = DeviceWork(data.n, columns, data.nonzeros, problem.k, size, options.precision)
        return lay_out_on_device(there, options.method, asked)
    return lay_out_as_asked(workload_of(data, problem), options.method, options.batch_size)


def refuse_options(data: Dataset, problem: Problem, options: FitOptions) -> None:
    """Refuse what this data set does not offer, before any work."""
    if not checks.is_word(options.batch_size, "auto"):
        words = f"'auto' or an integer from 1 to n = {data.n}"
        checks.whole("batch_size", options.batch_size, 1, data.n, words)
    if not data.cheap_passes:
        checks.refuse_corners(problem.loss, options.method, data.engine)
    precision = options.precision
    if precision not in ("auto", "float64") and data.device_size is None:
        raise ValueError(
            f'precision must be "auto" or "float64" for engine="{data.engine}", whose steps are in'
            f' float64, not "{precision}"'
        )


def refuse_long_rows(facts: Facts, remedy: str) -> None:
    longest = float(np.sqrt(facts.largest_norm2.max()))
    if longest > MAX_UNIT_NORM:
        raise ValueError(
            f"X must have rows of norm at most 1 here, but the longest has {longest:.6g};"
            f" divide X by it, or use {remedy}"
        )
