"""The functions that people call: fit, fit_many, path, certify, plan, sigma2, place."""

from __future__ import annotations

from dataclasses import replace
from math import inf
from typing import Any

import numpy as np

from batchsvm.core import checks, data_checks
from batchsvm.core.certificate import Certificate, certify_point
from batchsvm.core.convergence_warning import warn_of_problems, warn_unless_converged
from batchsvm.core.intercept import LinearStart
from batchsvm.core.many import train_many
from batchsvm.core.options import for_one, read_options
from batchsvm.core.path import Path, train_path, warn_of_path
from batchsvm.core.planning import Plan, make_plan
from batchsvm.core.problem import make_problem
from batchsvm.core.progress import with_progress
from batchsvm.core.proven import distance_to_optimum
from batchsvm.core.reading import (
    labelled,
    problem_names,
    read_initial,
    read_intercept,
    read_many,
    read_one,
    read_starts,
)
from batchsvm.core.solution import Solution, Solutions
from batchsvm.core.spectral import (
    FAILURE_PROBABILITY,
    SAMPLED_ROWS,
    SIGMA2_METHODS,
    Sigma2,
    SpectralQuery,
    measure_sigma2,
)
from batchsvm.core.training import Start, refuse_long_rows, sigma2_for, train
from batchsvm.engines import Dataset, place_on, placed
from batchsvm.losses import Loss
from batchsvm.methods import Method, Pegasos


def place(X: Any, engine: str = "auto", n_jobs: int | None = None) -> Dataset:
    """Place X where an engine works on it, once, for any number of fits.

    What does not depend on y and lam is done once: checks, norms of rows, the cut among threads,
    sigma^2.  `fit`, `fit_many`, `path`, `certify`, `plan`, `sigma2` and the estimators take the
    result in the place of X, one after another or from several threads at once.

    Parameters
    ----------
    X : array or CSR matrix of shape (n, d)
        float32 or float64, used in place: it must not change until the data set is closed.
    engine : {"auto", "cpu", "reference"}
    n_jobs : int
        Threads for each fit; -1 means all cores, None one.

    Returns
    -------
    Dataset
        A context manager; `close()` gives its threads back.

    Examples
    --------
    >>> import batchsvm, numpy as np
    >>> X = np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.5]])
    >>> with batchsvm.place(X) as data:
    ...     gaps = [batchsvm.fit(data, [1, 1, -1], lam=lam).certificate.gap for lam in (0.1, 0.01)]
    >>> max(gaps) <= 1e-3
    True
    """
    return place_on(engine, X, checks.read_jobs(n_jobs))


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
    n_jobs: int | None = None,
    random_state: Any = None,
    callback: Any = None,
    *,
    checkpoints: Any = "auto",
    engine: str = "auto",
    bias: float | None = None,
    offset: Any = None,
    warn: bool = True,
) -> Solution:
    """Train a linear model, and certify how good it is.

    Minimises  (1/sum c) sum_i c_i loss_i(<w, x_i>) + lam/2 ||w||^2  over w, where c is
    `sample_weight` (all ones if missing).  There is no intercept, unless as `bias`.

    Parameters
    ----------
    X : array or CSR matrix of shape (n, d), or placed data
        float32 or float64, used in place; CSR with int32 or int64 indices.  `place(X)` makes
        placed data, which serve many fits.
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
        batches, and on several up to 16 per thread, but no more than 1/sigma^2, or 8 to 32 per
        block; else the largest b with beta_b <= 2, about 1/sigma^2.
    tol : float
        Stop when the proven bound on P(w) - P* is at most tol P(w), or tol^2 P(0) where the
        optimum is next to nothing: with 1e-3, the objective is at most 0.1 % above its optimum.
        From 0 to below 1.
    max_epochs : float
        Stop after visiting max_epochs * n rows.
    averaging : {None, "tail", "decay"}
        Return the last iterate (with "auto" on many rows of few columns the mean of recent
        ones, where that is better), the mean over the second half of the run (Algorithm 1,
        Theorem 2), or the decaying average 0.9/0.1 of the paper's experiments.
    initial : Solution or (w, alpha), optional
        Start from alpha and w(alpha); a w that is another one is not used.
    n_jobs : int
        Threads for the whole fit; -1 means all cores, None one, or those of placed data.  Data
        too small or rows too short to be shared are left to fewer of them; the plan says so.
    random_state : int, Generator, RandomState or None
        The same seed gives the same run; None gives another one each time.
    callback : callable, optional
        Called with a `Checkpoint` after each certificate; a true result stops the fit.
    checkpoints : "auto" or increasing integers
        The iterations after which to certify; after the last one, as "auto" does.  An
        iterator is asked for the next one only after the last certificate.  "auto"
        lets the distances grow, so that certificates take little of a long run, and
        certifies at once when an estimate of the gap is within tol.
    engine : {"auto", "cpu", "reference"}
        Compiled code, or plain NumPy (slow; the oracle of the tests); "auto" is the engine where
        X lies.  Placed data have theirs.
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
    <Status.CONVERGED: 'the proven bound is within tol'>
    >>> solution.certificate.gap <= 1e-3
    True
    """
    loss = checks.read_loss(loss)
    lam = checks.read_lam("lam", lam)
    options = read_options(method, batch_size, tol, max_epochs, averaging, checkpoints)
    options = replace(options, callback=for_one(callback))
    seed = checks.read_seed(random_state)
    if bias is not None:
        bias = checks.number("bias", bias, f"{checks.POSITIVE}, or None", 0.0)
    with placed(X, engine, n_jobs, once=True) as data:
        chosen = options.method
        radius = float(chosen.radius) if isinstance(chosen, Pegasos) else inf
        targets, classes = read_one(data, y, loss, sample_weight, offset)
        problem = make_problem(targets, loss, lam, bias, radius=radius)
        alpha = read_initial(initial, problem.columns(data.d), data.n)
        [solution] = train(data, problem, options, Start(seed, alpha))
    solution = replace(solution, classes=classes)
    if warn:
        warn_unless_converged(solution, options.max_epochs)
    return solution


def fit_many(
    X: Any,
    targets: Any,
    loss: str | Loss = "hinge",
    lam: Any = 1e-4,
    *,
    method: str | Method = "auto",
    batch_size: int | str = "auto",
    tol: float = 1e-3,
    max_epochs: float = 1000,
    sample_weight: Any = None,
    averaging: str | None = None,
    intercept: str | None = None,
    scaling: float = 1.0,
    initial: Any = None,
    n_jobs: int | None = None,
    random_state: Any = None,
    callback: Any = None,
    checkpoints: Any = "auto",
    engine: str = "auto",
    verbose: int = 0,
    warn: bool = True,
) -> Solutions:
    """Train many problems on the same rows, which are placed once; certify each.

    Parameters
    ----------
    X : array or CSR matrix of shape (n, d), or placed data
    targets : array of shape (n,) or (n, K)
        Class labels, taken one against the rest (two classes are one problem); numbers, for a
        regression loss; or a column for each problem, of two labels or of numbers.
    loss : str or loss object
    lam : float or K numbers
        Several values of lam on one target are as many problems.
    sample_weight : array of shape (n,) or (n, K), optional
    intercept : {None, "penalised", "free"}
        No intercept, one that is penalised like the coefficients, or one that costs nothing.
    scaling : float
        The constant that a penalised intercept multiplies.
    initial : Solutions, optional
        Start from the dual points of an earlier call with the same rows.
    random_state : int, Generator, RandomState or None
        Problem k has this seed + k.
    callback : callable, optional
        Called with the number of a problem and a `Checkpoint` after each certificate; a true
        result stops that problem.
    verbose : int
        1 shows one progress bar for all problems.
    warn : bool
        Whether to warn, once, of problems that stopped above tol.
    method, batch_size, tol, max_epochs, averaging, n_jobs, checkpoints, engine
        As for `batchsvm.fit`; each problem has the threads that the others leave.

    Returns
    -------
    Solutions
        A sequence of `Solution`, with `coef`, `intercept`, `certificates` and `worst`.

    Examples
    --------
    >>> import batchsvm
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> solutions = batchsvm.fit_many(X, y, lam=0.01, intercept="penalised", random_state=0)
    >>> solutions.coef.shape, solutions.worst.relative_gap <= 1e-3
    ((3, 4), True)
    """
    loss = checks.read_loss(loss)
    lams = checks.read_lams("lam", lam)
    options = read_options(method, batch_size, tol, max_epochs, averaging, checkpoints)
    kind = read_intercept(intercept, scaling)
    seed = checks.read_seed(random_state)
    checks.read_verbose(verbose)
    if callback is not None and not callable(callback):
        raise ValueError(f"callback must be callable or None, not {callback!r}")
    with placed(X, engine, n_jobs) as data:
        problem, classes = read_many(data, targets, loss, lams, sample_weight)
        if isinstance(options.method, Pegasos):
            problem = replace(problem, radius=float(options.method.radius))
        starts = read_starts(initial, problem.k, data.n)
        names = problem_names(classes, problem.k)
        with with_progress(names, options, callback, verbose > 0) as options:
            models = train_many(data, problem, options, kind, seed, starts)
    solutions = Solutions([labelled(model, classes) for model in models], classes)
    if warn:
        what = "classes" if classes is not None and problem.k > 1 else "problems"
        warn_of_problems(solutions, solutions.names, options.max_epochs, what=what)
    return solutions


def path(
    X: Any,
    y: Any,
    lams: Any,
    loss: str | Loss = "hinge",
    *,
    intercept: str | None = None,
    scaling: float = 1.0,
    method: str | Method = "auto",
    batch_size: int | str = "auto",
    tol: float = 1e-3,
    max_epochs: float = 1000,
    sample_weight: Any = None,
    averaging: str | None = None,
    n_jobs: int | None = None,
    random_state: Any = None,
    callback: Any = None,
    checkpoints: Any = "auto",
    engine: str = "auto",
    warn: bool = True,
) -> Path:
    """Train for every lam of `lams`, from the largest to the smallest, each from the last one.

    Ctrl-C ends the path with the best certified point of the lam under way, and warns.

    Parameters
    ----------
    X, y, loss, sample_weight, method, batch_size, tol, averaging, checkpoints, n_jobs, \
random_state, callback, engine
        As for `batchsvm.fit`.
    lams : array of positive numbers
    intercept : {None, "penalised", "free"}
        No intercept, one that is penalised like the coefficients, or one that costs nothing.
    scaling : float
        The constant that a penalised intercept multiplies.
    max_epochs : float
        For each lam.
    warn : bool
        Whether to warn of each point that stopped above tol.

    Returns
    -------
    Path

    Examples
    --------
    >>> import batchsvm, numpy as np
    >>> X = np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.5], [-0.5, -1.0]])
    >>> path = batchsvm.path(X, [1, 1, 0, 0], [1.0, 0.1, 0.01], tol=1e-4, random_state=0)
    >>> all(certificate.relative_gap <= 1e-4 for certificate in path.certificates)
    True
    >>> path.coefs.shape
    (3, 2)
    """
    values = checks.read_lams("lams", lams)
    loss = checks.read_loss(loss)
    kind = read_intercept(intercept, scaling)
    options = read_options(method, batch_size, tol, max_epochs, averaging, checkpoints)
    options = replace(options, callback=for_one(callback))
    seed = checks.read_seed(random_state)
    with placed(X, engine, n_jobs) as data:
        targets, classes = read_one(data, y, loss, sample_weight)
        problem = make_problem(targets, loss, values[0])
        if isinstance(options.method, Pegasos):
            problem = replace(problem, radius=float(options.method.radius))
        found = train_path(data, problem, values, options, kind, LinearStart(seed))
    models = tuple(labelled(model, classes) for model in found.models)
    found = replace(found, models=models)
    if warn:
        warn_of_path(found, values.size, options.max_epochs)
    return found


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
    n_jobs: int | None = None,
    bias: float | None = None,
    offset: Any = None,
    engine: str = "auto",
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
    loss = checks.read_loss(loss)
    lam = checks.read_lam("lam", lam)
    if not (checks.is_scalar(radius) and radius == inf):
        radius = checks.number("radius", radius, checks.POSITIVE, 0.0)
    if bias is not None:
        bias = checks.number("bias", bias, f"{checks.POSITIVE}, or None", 0.0)
    with placed(X, engine, n_jobs, once=True) as data:
        w = data_checks.read_vector("w", w, data.d + (bias is not None))
        alpha = data_checks.read_vector("alpha", alpha, data.n)
        if np.linalg.norm(w) > radius * (1 + 1e-9):
            raise ValueError(
                f"w must have norm at most radius = {radius!r}, not {float(np.linalg.norm(w))!r}"
            )
        targets, _ = read_one(data, y, loss, sample_weight, offset)
        problem = make_problem(targets, loss, lam, bias, radius=radius)
        dual = data.dual(problem, alpha[:, np.newaxis])
        [certificate] = certify_point(data, problem, w[:, np.newaxis], dual)
        return certificate


def proven(
    X: Any,
    y: Any,
    solution: Solution,
    sample_weight: Any = None,
    *,
    bias: float | None = None,
    offset: Any = None,
    n_jobs: int | None = None,
    engine: str = "auto",
) -> np.ndarray:
    """What is proven of each row in the optimum, though the optimum is not known.

    Parameters
    ----------
    X, y, sample_weight, bias, offset
        What the solution was trained on.
    solution : Solution
        Of `fit`; a smaller bound settles more rows.  Nothing that it claims about itself is
        believed: its certificate is computed anew.

    Returns
    -------
    ndarray of shape (n,) of int8
        1: alpha_i of the optimum is at its upper bound; 0: it is 0, so that row i is no support
        vector; -1: open.

    Examples
    --------
    >>> import batchsvm
    >>> X, y = [[1.0], [3.0], [-1.0], [-3.0]], [1, 1, -1, -1]
    >>> solution = batchsvm.fit(X, y, lam=0.1, tol=1e-6, random_state=0)
    >>> batchsvm.proven(X, y, solution)
    array([-1,  0, -1,  0], dtype=int8)
    """
    if not isinstance(solution, Solution):
        raise TypeError(f"solution must be what fit returns, not {type(solution).__name__}")
    if solution.free_intercept:
        raise ValueError(
            "solution must have no free intercept: P is not strongly convex in it, so that no row"
            ' is settled; use intercept="penalised"'
        )
    if bias is not None:
        bias = checks.number("bias", bias, f"{checks.POSITIVE}, or None", 0.0)
    with placed(X, engine, n_jobs) as data:
        W = data_checks.read_vector("solution.w", solution.w, data.d + (bias is not None))
        W = W[:, np.newaxis]
        alpha = data_checks.read_vector("solution.alpha", solution.alpha, data.n)
        targets, _ = read_one(data, y, solution.loss, sample_weight, offset)
        problem = make_problem(targets, solution.loss, solution.lam, bias)
        if isinstance(solution.method, Pegasos):
            problem = replace(problem, radius=float(solution.method.radius))
        dual = data.dual(problem, alpha[:, np.newaxis])
        [certificate] = certify_point(data, problem, W, dual)
        distance = distance_to_optimum(certificate, solution.lam)
        return data.settled(problem, W, np.array([distance]))[:, 0]


def sigma2(
    X: Any,
    method: str = "auto",
    *,
    normalize: bool = True,
    sampled_rows: int = SAMPLED_ROWS,
    failure_probability: float = FAILURE_PROBABILITY,
    n_jobs: int | None = None,
    random_state: Any = 0,
    engine: str = "auto",
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
    checks.choice("method", method, SIGMA2_METHODS)
    words = "strictly between 0 and 1"
    checks.number("failure_probability", failure_probability, words, 0.0, 1.0)
    seed = checks.read_seed(random_state)
    checks.whole("sampled_rows", sampled_rows, 1, 2**62, "a positive integer")
    query = SpectralQuery(
        method, bool(normalize), None, int(sampled_rows), float(failure_probability), seed
    )
    with placed(X, engine, n_jobs) as data:
        targets = data.targets(np.ones(data.n, np.int8))
        facts = data.facts(make_problem(targets, checks.read_loss("hinge"), 1.0))  # X is finite
        if not normalize:
            refuse_long_rows(facts, "normalize=True")
        return measure_sigma2(data, query)


def plan(
    X: Any,
    y: Any = None,
    lam: float = 1e-4,
    tol: float = 1e-3,
    loss: str | Loss = "hinge",
    *,
    sigma2: float | None = None,
    n_jobs: int | None = None,
    engine: str = "auto",
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
    loss = checks.read_loss(loss)
    lam = checks.read_lam("lam", lam)
    tol = checks.read_tol(tol)
    if sigma2 is not None:
        checks.number("sigma2", sigma2, "between 0 and 1, or None", 0.0, 1.0 + 1e-9)
    with placed(X, engine, n_jobs) as data:
        if y is None:
            if loss.task == "regression":
                raise ValueError("y must be given for a regression loss, since P(0) depends on it")
            y = np.ones(data.n, np.int8)
        targets, _ = read_one(data, y, loss)
        problem = make_problem(targets, loss, lam)
        found = sigma2_for(data, problem, SpectralQuery(), sigma2)
        return make_plan(problem, data.facts(problem), data.d, tol, found)
