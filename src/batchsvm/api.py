"""The functions that people call: fit, certify, plan, sigma2."""

from __future__ import annotations

from math import ceil, inf
from typing import Any

import numpy as np

from batchsvm import data_inputs, inputs
from batchsvm.certificate import Certificate, certify_point
from batchsvm.engines import ENGINES
from batchsvm.layout import keeps_recent, lay_out, lay_out_as_asked
from batchsvm.losses import Loss
from batchsvm.methods import (
    Blocks,
    DualMethod,
    Guarded,
    Method,
    Pegasos,
    make_block_sampler,
    start_dual,
    start_pegasos,
)
from batchsvm.planning import Plan, make_plan
from batchsvm.problem import Problem
from batchsvm.roster import NOBODY, make_roster
from batchsvm.sampling import make_sampler
from batchsvm.shortfall import warn_if_short
from batchsvm.solution import Solution
from batchsvm.spectral import (
    FAILURE_PROBABILITY,
    SAMPLED_ROWS,
    SIGMA2_METHODS,
    Sigma2,
    beta_b,
    measure_sigma2,
)
from batchsvm.team import Threads
from batchsvm.train import Callback, Run


def fit(
    X: Any,
    y: Any,
    loss: str | Loss = "hinge",
    lam: float = 1e-4,
    method: str | Method = "auto",
    batch_size: int | str = "auto",
    tol: float = 1e-3,
    max_epochs: float = 1000,
    sample_weight: Any = None,
    averaging: str | None = None,
    initial: Any = None,
    n_jobs: int | None = 1,
    random_state: Any = None,
    callback: Callback | None = None,
    *,
    checkpoints: Any = "auto",
    engine: str = "cpu",
    bias: float | None = None,
    offset: Any = None,
    warn: bool = True,
) -> Solution:
    """Train a linear model, and certify how good it is.

    Minimises  (1/sum c) sum_i c_i loss_i(<w, x_i>) + lam/2 ||w||^2  over w, where c is
    `sample_weight` (all ones if missing).  There is no intercept, unless as `bias`.

    Parameters
    ----------
    X : array or CSR matrix of shape (n, d)
        float32 or float64, used in place; CSR with int32 or int64 indices.
    y : array of shape (n,)
        Two classes (the larger label counts as +1) for a classification loss, numbers
        for a regression loss.  If there is one class only, it counts as +1, or as -1 if
        it is a number that is not positive.
    loss : str or loss object
        "hinge", "smoothed_hinge", "squared_hinge", "logistic"; "absolute",
        "epsilon_insensitive", "quantile", "huber"; or e.g. `losses.Huber(delta=0.5)`.
    lam : float
        Regularisation; scikit-learn's C is 1/(lam n), SGDClassifier's alpha is lam.
    method : str or method object
        "pegasos", "naive", "safe", "guarded", "aggressive", "blocks", or e.g.
        `methods.Aggressive(gamma=0.9)`.  "auto" is SDCA: serial on one thread, guarded or
        blocks on several, aggressive for a batch size that was asked for.
    batch_size : int or "auto"
        From 1 to n.  "auto" with method "auto" is 1 on one thread, which gains nothing from
        batches, and on several up to 16 a thread, but no more than 1/sigma^2, or 8 to 32 a
        block; else the largest b with beta_b <= 2, about 1/sigma^2.
    tol : float
        Stop when the duality gap is at most tol times P(0), the objective at w = 0
        (which is 1 for the hinge).
    max_epochs : float
        Stop after visiting max_epochs * n rows.
    averaging : {None, "tail", "decay"}
        Return the last iterate (with "auto" on many rows of few columns the mean of recent
        ones, where that is better), the mean over the second half of the run (Algorithm 1,
        Theorem 2), or the decaying average 0.9/0.1 of the paper's experiments.
    initial : Solution or (w, alpha), optional
        Start from alpha and w(alpha); a w that is another one is not used.
    n_jobs : int
        Threads for the whole fit; -1 means all cores.  Data too small or rows too short to
        be shared are left to fewer of them; the plan says so.
    random_state : int, Generator, RandomState or None
        The same seed gives the same run; None gives another one each time.
    callback : callable, optional
        Called with a `Checkpoint` after each certificate; a true result stops the fit.
    checkpoints : "auto" or increasing integers
        The iterations after which to certify; after the last one, as "auto" does.  An
        iterator is asked for the next one only after the last certificate.  "auto"
        lets the distances grow, so that certificates take little of a long run, and
        certifies at once when an estimate of the gap is within tol.
    engine : {"cpu", "reference"}
        Compiled code, or plain NumPy (slow; the oracle of the tests).
    bias : float, optional
        Add a column of this value to X without storing it; w gets one more entry, the
        last, and bias times it is an intercept, penalised like the rest of w.
    offset : float or array of shape (n,), optional
        A fixed part of each prediction, which becomes <w, x_i> + offset_i.
    warn : bool
        Whether to warn when training stopped above tol.

    Returns
    -------
    Solution

    Examples
    --------
    >>> import batchsvm, numpy as np
    >>> X = np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.5]])
    >>> solution = batchsvm.fit(X, [1, 1, -1], lam=0.1, random_state=0)
    >>> solution.status
    <Status.CONVERGED: 'the certified gap is within tol'>
    >>> solution.certificate.gap <= 1e-3
    True
    """
    loss = inputs.read_loss(loss)
    lam = inputs.number("lam", lam, "a finite positive number", 0.0)
    chosen = inputs.read_method(method)
    tol = inputs.number("tol", tol, "a finite number that is not negative", -1e-300)
    max_epochs = inputs.number("max_epochs", max_epochs, "a finite positive number", 0.0)
    averaging = inputs.read_averaging(averaging, chosen)
    asked = inputs.read_checkpoints(checkpoints, averaging)
    jobs = inputs.read_jobs(n_jobs)
    seed = inputs.read_seed(random_state)
    inputs.choice("engine", engine, ENGINES)
    if callback is not None and not callable(callback):
        raise ValueError(f"callback must be callable or None, not {callback!r}")
    with Threads(jobs) as threads:
        matrix = data_inputs.read_matrix(X, threads, bias)
        n = matrix.n
        if batch_size != "auto":
            words = f"'auto' or an integer from 1 to n = {n}"
            inputs.whole("batch_size", batch_size, 1, n, words)
        radius = float(chosen.radius) if isinstance(chosen, Pegasos) else inf
        problem, classes = data_inputs.read_problem(
            matrix, y, loss, lam, sample_weight, radius, offset
        )
        alpha = _read_initial(initial, problem)
        open_choice = chosen is None and batch_size == "auto"
        chosen, plan = _settle(problem, chosen, batch_size, averaging, tol, seed)
        b = plan.batch_size

        state: Any
        roster = NOBODY
        if isinstance(chosen, Pegasos):
            state = start_pegasos(problem, b, averaging, alpha, plan.workers)
        else:
            beta = beta_b(b, n, plan.sigma2)
            state = start_dual(
                chosen, problem, b, beta, averaging, alpha, plan.workers,
                remembers=open_choice and keeps_recent(matrix, b, chosen),
            )  # fmt: skip
            bytes_a_row = matrix.rows.nbytes / n
            if isinstance(chosen, Blocks):
                roster = make_roster(n, chosen.blocks, seed, bytes_a_row)
            elif chosen.may_skip(b, averaging is not None):
                roster = make_roster(n, 1, seed, bytes_a_row, least=b)
        sampler = (
            make_block_sampler(roster, b)
            if isinstance(chosen, Blocks)
            else make_sampler(chosen.sampling, n, b, seed, roster)
        )
        run = Run(problem, state, ENGINES[engine](problem, chosen, state, sampler), tol, callback)
        certificate = run.train(ceil(max_epochs * n / b), alpha is not None, asked)
    solution = Solution(
        run.w, run.alpha, certificate, run.history(), run.status, plan, classes, loss, lam,
        chosen, b,
    )  # fmt: skip
    if warn:
        warn_if_short(solution, max_epochs)
    return solution


def certify(
    X: Any,
    y: Any,
    w: Any,
    alpha: Any,
    loss: str | Loss = "hinge",
    lam: float = 1e-4,
    sample_weight: Any = None,
    *,
    radius: float = inf,
    n_jobs: int | None = 1,
    bias: float | None = None,
    offset: Any = None,
) -> Certificate:
    """The certificate of any (w, alpha), from scratch, whoever computed them.

    `alpha` must lie in its box; `w` need not be w(alpha).  A `radius` confines w to
    ||w|| <= radius; `bias` and `offset` are those of `fit`.

    Examples
    --------
    >>> import batchsvm
    >>> certificate = batchsvm.certify([[1.0], [1.0]], [1, 1], [0.5], [0.5, 0.5], lam=1.0)
    >>> certificate.primal, certificate.dual
    (0.625, 0.375)
    """
    loss = inputs.read_loss(loss)
    lam = inputs.number("lam", lam, "a finite positive number", 0.0)
    jobs = inputs.read_jobs(n_jobs)
    if radius != inf:
        radius = inputs.number("radius", radius, "a finite positive number", 0.0)
    with Threads(jobs) as threads:
        matrix = data_inputs.read_matrix(X, threads, bias)
        w = data_inputs.read_vector("w", w, matrix.d)
        alpha = data_inputs.read_vector("alpha", alpha, matrix.n)
        if np.linalg.norm(w) > radius * (1 + 1e-9):
            raise ValueError(
                f"w must have norm at most radius = {radius!r}, not {float(np.linalg.norm(w))!r}"
            )
        problem, _ = data_inputs.read_problem(matrix, y, loss, lam, sample_weight, radius, offset)
        alpha = data_inputs.read_alpha(alpha, problem)
        return certify_point(problem, w, lambda start, stop: alpha[start:stop])


def sigma2(
    X: Any,
    method: str = "auto",
    *,
    normalize: bool = True,
    sampled_rows: int = SAMPLED_ROWS,
    failure_probability: float = FAILURE_PROBABILITY,
    n_jobs: int | None = 1,
    random_state: Any = 0,
) -> Sigma2:
    """An upper bound on sigma^2 = ||X||^2 / n, rows scaled to unit norm.

    Parameters
    ----------
    X : array or CSR matrix of shape (n, d)
    method : {"auto", "exact", "lanczos", "sample", "crude", "estimate"}
        "auto" is exact on small data and otherwise random-start Lanczos, 16 passes over
        the data.  "sample" looks at `sampled_rows` rows; "crude" multiplies the largest
        row sum and column sum.  "estimate" takes a quick look at 128 rows, and is no bound.
    normalize : bool
        Scale each row to unit norm first.  Without, rows must have norm at most 1.
    failure_probability : float
        How likely "lanczos" and "sample" may be to return less than sigma^2.

    Returns
    -------
    Sigma2
        A float with attributes `how` and `failure_probability`.

    Examples
    --------
    >>> import batchsvm, numpy as np
    >>> float(batchsvm.sigma2(np.eye(4)))
    0.25
    """
    inputs.choice("method", method, SIGMA2_METHODS)
    words = "strictly between 0 and 1"
    inputs.number("failure_probability", failure_probability, words, 0.0, 1.0)
    rng = np.random.default_rng(inputs.read_seed(random_state))
    inputs.whole("sampled_rows", sampled_rows, 1, 2**62, "a positive integer")
    with Threads(inputs.read_jobs(n_jobs)) as threads:
        matrix = data_inputs.read_matrix(X, threads)
        norms2 = matrix.norms2()
        data_inputs.refuse_infinite(matrix.rows, norms2)
        if not normalize:
            _refuse_long_rows(norms2, "normalize=True")
            norms2[:] = 1.0
        return measure_sigma2(matrix, norms2, method, rng, sampled_rows, failure_probability)


def plan(
    X: Any,
    y: Any = None,
    lam: float = 1e-4,
    tol: float = 1e-3,
    loss: str | Loss = "hinge",
    *,
    sigma2: float | None = None,
    n_jobs: int | None = 1,
) -> Plan:
    """What batches can bring on this data: sigma^2, a table of batch sizes, a choice.

    `y` is needed for regression losses only, where P(0) depends on it.

    Examples
    --------
    >>> import batchsvm, numpy as np
    >>> plan = batchsvm.plan(np.eye(4), lam=0.1, tol=0.1)
    >>> plan.batch_size
    4
    """
    loss = inputs.read_loss(loss)
    lam = inputs.number("lam", lam, "a finite positive number", 0.0)
    tol = inputs.number("tol", tol, "a finite number that is not negative", -1e-300)
    if sigma2 is not None:
        inputs.number("sigma2", sigma2, "between 0 and 1, or None", 0.0, 1.0 + 1e-9)
    with Threads(inputs.read_jobs(n_jobs)) as threads:
        matrix = data_inputs.read_matrix(X, threads)
        if y is None:
            if loss.task == "regression":
                raise ValueError("y must be given for a regression loss, since P(0) depends on it")
            y = np.ones(matrix.n)
        problem, _ = data_inputs.read_problem(matrix, y, loss, lam)
        return make_plan(problem, tol, _sigma2_for(problem, "auto", sigma2, seed=0))


def _sigma2_for(problem: Problem, how: str, known: float | None, seed: int) -> Sigma2:
    if known is not None:
        return known if isinstance(known, Sigma2) else Sigma2(known, "given")
    rng = np.random.default_rng(seed)
    return measure_sigma2(problem.matrix, problem.examples["norm2"], how, rng)


def _settle(
    problem: Problem,
    method: Method | None,
    batch_size: int | str,
    averaging: str | None,
    tol: float,
    seed: int,
) -> tuple[Method, Plan]:
    """Put a method and a batch size in the place of "auto"."""
    if method is None and batch_size == "auto":
        found = _sigma2_for(problem, "estimate", None, seed)
        lam_n = problem.lam * problem.total_weight
        layout = lay_out(problem.matrix, averaging is not None, found, lam_n)
        return layout.method, make_plan(problem, tol, found, layout)
    layout = lay_out_as_asked(problem.matrix, method, batch_size)
    method = layout.method
    serial = layout.batch_size == 1
    known = method.sigma2
    if isinstance(method, DualMethod) and method.step == "literal":
        _refuse_long_rows(problem.examples["norm2"], 'step="general"')
        if known is None and not serial:  # the paper's own sigma^2, of the rows as they are
            ones, rng = np.ones(problem.n), np.random.default_rng(seed)
            known = measure_sigma2(problem.matrix, ones, rng=rng)
    quick = serial or isinstance(method, Guarded | Blocks)  # nothing depends on it but the plan
    found = _sigma2_for(problem, "estimate" if quick else "auto", known, seed)
    plan = make_plan(problem, tol, found, layout)
    if isinstance(method, DualMethod) and method.sampling == "replacement" and plan.batch_size > 1:
        raise ValueError(
            'sampling must be "permutation" or "subsets" for a dual method with batch_size > 1,'
            f' not "replacement": a row twice in a batch of {plan.batch_size} can leave its box'
        )
    return method, plan


def _refuse_long_rows(norms2: np.ndarray, remedy: str) -> None:
    longest = float(np.sqrt(norms2.max()))
    if longest > 1 + 1e-4:  # text files round
        raise ValueError(
            f"X must have rows of norm at most 1 here, but the longest has {longest:.6g};"
            f" divide X by it, or use {remedy}"
        )


def _read_initial(initial: Any, problem: Problem) -> np.ndarray | None:
    """The alpha to start from, or None."""
    if initial is None:
        return None
    if isinstance(initial, Solution):
        initial = initial.w, initial.alpha
    if not (isinstance(initial, tuple | list) and len(initial) == 2):
        raise ValueError(
            f"initial must be a Solution or a pair (w, alpha), not {type(initial).__name__}"
        )
    data_inputs.read_vector("w of initial", initial[0], problem.d)
    alpha = data_inputs.read_vector("alpha of initial", initial[1], problem.n)
    return data_inputs.read_alpha(alpha, problem)
