"""Train: `fit`, `fit_many` and `path`, which check their arguments and call `core/`."""

from __future__ import annotations

from dataclasses import replace
from math import inf
from typing import Any, Unpack

from batchsvm.api.checkpoint import engine_for, saving_to
from batchsvm.api.place import Placing, placed_rows
from batchsvm.core import checks
from batchsvm.core.conditioning import warn_of_columns
from batchsvm.core.convergence_warning import warn_of_problems, warn_unless_converged
from batchsvm.core.many import train_many
from batchsvm.core.options import FitOptions, for_many, for_one, read_options, refuse_no_callback
from batchsvm.core.path import ALPHAS, Path, make_path, train_path, warn_of_path
from batchsvm.core.problem import make_problem
from batchsvm.core.progress import with_progress
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
from batchsvm.core.training import Start, train
from batchsvm.losses import Loss
from batchsvm.methods import Method, Pegasos


def fit(
    X: Any,
    y: Any = None,
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
    checkpoint: Any = None,
    engine: str = "auto",
    device: int | None = None,
    precision: str = "auto",
    bias: float | None = None,
    offset: Any = None,
    warn: bool = True,
    **placing: Unpack[Placing],
) -> Solution:
    """Train a linear model, and certify how good it is.

    Minimises  (1/sum c) sum_i c_i loss_i(<w, x_i>) + lam/2 ||w||^2  over w, where c is
    `sample_weight` (all ones by default).  There is no intercept unless `bias` is given.

    Parameters
    ----------
    X : array or CSR matrix of shape (n, d), placed data, or a source
        float32 or float64, used in place; CSR with int32 or int64 indices; on a device float16 and
        bfloat16 too.  `place(X)` makes placed data, which serve many fits.  A source is a folder, a
        pattern or a list of files, or a re-iterable of chunks, which may be larger than memory.
    y : array of shape (n,); for a source a name, or None
        The column of the labels in tables; None if a source, or data placed from one, contains
        its labels.  Two classes (the larger label counts as +1) for a classification loss,
        numbers for a regression loss.  A single class counts as +1, or as -1 if it is a number that
        is not positive.
    loss : str or loss object
        "hinge", "smoothed_hinge", "squared_hinge", "logistic"; "squared_error", "absolute",
        "epsilon_insensitive", "squared_epsilon_insensitive", "quantile", "huber"; or e.g.
        `losses.Huber(delta=0.5)`.
    lam : float
        Regularisation; scikit-learn's C is 1/(lam n), SGDClassifier's alpha is lam.
    method : str or method object
        "pegasos", "naive", "safe", "guarded", "aggressive", "blocks", "gram", "asynchronous",
        "newton", or e.g. `methods.Aggressive(gamma=0.9)`.  "auto" is SDCA: serial on one thread,
        guarded or blocks on several, aggressive for a batch size that was asked for; on a device
        gram for dense rows and asynchronous for sparse ones.  For few columns in the memory of this
        host it is newton, where SDCA is likely to need many epochs.
    batch_size : int or "auto"
        From 1 to n.  "auto" with method "auto" is 1 on one thread, which gains nothing from
        batches, and on several up to 32 per thread, but no more than 1/sigma^2, or 8 to 32 per
        block; else the largest b with beta_b <= 2, about 1/sigma^2.  For gram it is the rows of one
        batch: "auto" is 64 on the host, and 64 or 128 on a device, where 512 is the most.
    tol : float
        Stop when the proven bound on P(w) - P* is at most tol P(w), or tol^2 P(0) where the
        optimum is next to nothing: with 1e-3, the objective is at most 0.1 % above its optimum.
        From 0 to below 1.
    max_epochs : float
        Stop after visiting max_epochs * n rows; an iteration of newton visits all of them.
    averaging : {None, "tail", "decay"}
        Return the last iterate (with "auto" on many rows of few columns the mean of recent
        ones, where that alone is within tol), the mean over the second half of the run
        (Algorithm 1, Theorem 2), or the decaying average 0.9/0.1 of the paper's experiments.
    initial : Solution or (w, alpha), optional
        Start from alpha and w(alpha); any other w is ignored.
    n_jobs : int
        Threads for the whole fit; -1 means all cores, None means one, or those of placed data.
        Small data and short rows use fewer of them; the plan says so.  It has no effect on the gpu
        engine.
    random_state : int, Generator, RandomState or None
        The same seed gives the same run.  None takes a new seed each time, or that of the
        `checkpoint` file from which training continues.
    callback : callable, optional
        Called with a `Checkpoint` after each certificate; a true result stops the fit.
    checkpoints : "auto" or increasing integers
        The iterations after which to certify; after the last of them, as "auto" does.  An
        iterator is asked for the next one after each certificate.  "auto" certifies at
        growing distances, so that certificates take little of a long run, and as soon as an
        estimate of the gap is within tol.
    checkpoint : path, optional
        For the streamed engine: a file to which the state of training is saved after passes.  If
        the file exists, training continues from it, and `initial` is ignored; a file of another
        training is refused.  tol, max_epochs, callback and checkpoints may change.  The file is
        kept.
    engine : {"auto", "cpu", "gpu", "streamed", "ray", "reference"}
        Compiled code, a CUDA device, rows on the disk, a Ray cluster, or plain NumPy (slow, for
        tests).  "auto" is the engine where X is.  Placed data keep their engine.
    device : int, optional
        The number of the CUDA device, where there are several.
    precision : {"auto", "tf32", "float32", "float64"}
        The precision of the products in the steps of `gram` on a device.  "auto" begins with tf32
        and raises it when the gap stops falling.  Certificates are always in float64.
    bias : float, optional
        Add a column of this value to X without storing it; w gets one more entry, the
        last, and bias times it is an intercept, penalised like the rest of w.  Positive, and below
        1e150, so that its square is finite.
    offset : float or array of shape (n,), optional
        A fixed part of each prediction, which becomes <w, x_i> + offset_i.
    warn : bool
        Whether to warn when training stopped above tol.
    columns, max_memory, cache
        For a source, as in `batchsvm.place`.

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
    options = read_options(method, batch_size, tol, max_epochs, averaging, checkpoints, precision)
    options = replace(options, callback=for_one(callback))
    bias = checks.read_bias(bias)
    where = engine_for(checkpoint, engine, X), n_jobs, device
    asked = _asked(loss, lam, bias, options)
    with (
        saving_to(checkpoint, engine, random_state, **asked) as (saving, seed),
        placed_rows(X, y, sample_weight, where, once=True, **placing) as (data, y, weights),
    ):
        options = replace(options, saving=saving)
        chosen = options.method
        radius = float(chosen.radius) if isinstance(chosen, Pegasos) else inf
        targets, classes = read_one(data, y, loss, weights, offset)
        problem = make_problem(targets, loss, lam, bias, radius=radius)
        alpha = read_initial(initial, problem.columns(data.d), data.n)
        if warn:
            warn_of_columns(data, problem, options)
        [solution] = train(data, problem, options, Start(seed, alpha))
    solution = replace(solution, classes=classes)
    if warn:
        warn_unless_converged(solution, options.max_epochs)
    return solution


def fit_many(
    X: Any,
    targets: Any = None,
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
    checkpoint: Any = None,
    engine: str = "auto",
    device: int | None = None,
    precision: str = "auto",
    verbose: int = 0,
    warn: bool = True,
    **placing: Unpack[Placing],
) -> Solutions:
    """Train many problems on the same rows, and certify each of them.

    X is placed once for all problems.

    Parameters
    ----------
    X : array or CSR matrix of shape (n, d), placed data, or a source
    targets : array of shape (n,) or (n, K); for a source a name, or None
        Class labels, trained one against the rest (two classes are one problem); numbers, for a
        regression loss; or one column per problem, with two labels or numbers.
    loss : str or loss object
    lam : float or K numbers
        Several values with one target are one problem each.
    sample_weight : array of shape (n,) or (n, K), optional
    intercept : {None, "penalised", "free"}
        No intercept, one that is penalised like the coefficients, or one that is not penalised.
    scaling : float
        The constant that a penalised intercept multiplies.
    checkpoint : path, optional
        As for `batchsvm.fit`: one file for all problems.  Not with a free intercept.
    initial : Solutions, optional
        Start from the dual points of an earlier call with the same rows.
    random_state : int, Generator, RandomState or None
        Problem k has this seed + k; on a device, problems that are trained at once share one order
        of rows.
    callback : callable, optional
        Called with the number of a problem and a `Checkpoint` after each certificate; a true
        result stops that problem.
    verbose : int
        1 shows one progress bar for all problems.
    warn : bool
        Whether to warn, once, of problems that stopped above tol.
    method, batch_size, tol, max_epochs, averaging, n_jobs, checkpoints, engine, device, \
precision, columns, max_memory, cache
        As for `batchsvm.fit`.  The threads are divided among the problems.

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
    options = read_options(method, batch_size, tol, max_epochs, averaging, checkpoints, precision)
    kind = read_intercept(intercept, scaling)
    checks.read_verbose(verbose)
    callback = for_many(callback)
    where = engine_for(checkpoint, engine, X), n_jobs, device
    if checkpoint is not None and kind.kind == "free":
        raise ValueError(
            'checkpoint must be None for intercept="free", which is found by many trainings one'
            " after another"
        )
    asked = _asked(loss, lams.tolist(), kind.scaling if kind.kind else None, options)
    with (
        saving_to(checkpoint, engine, random_state, **asked) as (saving, seed),
        placed_rows(X, targets, sample_weight, where, **placing) as (data, targets, weights),
    ):
        options = replace(options, saving=saving)
        problem, classes = read_many(data, targets, loss, lams, weights)
        if isinstance(options.method, Pegasos):
            problem = replace(problem, radius=float(options.method.radius))
        starts = read_starts(initial, problem.k, data.n)
        names = problem_names(classes, problem.k)
        if warn:
            warn_of_columns(data, problem, options)
        with with_progress(names, options, callback, verbose > 0) as options:
            models = train_many(data, problem, options, kind, seed, starts)
    solutions = Solutions([labelled(model, classes) for model in models], classes)
    if warn:
        what = "classes" if classes is not None and problem.k > 1 else "problems"
        warn_of_problems(solutions, solutions.names, options.max_epochs, what=what)
    return solutions


def _asked(loss: Loss, lam: Any, bias: Any, options: FitOptions) -> dict[str, Any]:
    """What may not change from one call to the next that goes on from its file, as JSON."""
    return {
        "loss": repr(loss),
        "lam": lam,
        "bias": bias,
        "method": "auto" if options.method is None else repr(options.method),
        "batch_size": str(options.batch_size),
    }


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
    device: int | None = None,
    precision: str = "auto",
    alphas: str = "auto",
    warn: bool = True,
    **placing: Unpack[Placing],
) -> Path:
    """Train for every lam of `lams`, from the largest to the smallest.

    Each lam starts from the solution of the one before.  Ctrl-C ends the path with the best
    certified point of the current lam, and warns.

    Parameters
    ----------
    X, loss, method, batch_size, tol, averaging, checkpoints, n_jobs, random_state, engine, \
device, precision, columns, max_memory, cache
        As for `batchsvm.fit`.
    y : array of shape (n,) or (n, K); for a source a name, or None
        As the targets of `batchsvm.fit_many`: more than two classes are trained one against the
        rest, and each column is a problem.
    lams : array of positive numbers
    sample_weight : array of shape (n,) or (n, K), optional
    callback : callable, optional
        Called with a `Checkpoint`, as for `batchsvm.fit`; for more than one problem, with the
        number of the problem and a `Checkpoint`, as for `batchsvm.fit_many`.
    intercept : {None, "penalised", "free"}
        No intercept, one that is penalised like the coefficients, or one that is not penalised.
    scaling : float
        The constant that a penalised intercept multiplies.
    max_epochs : float
        For each lam.
    alphas : {"auto", "all", "last"}
        Keep the dual points of every lam, or only those of the smallest.  "auto" keeps all of
        them, unless they are on a device.
    warn : bool
        Whether to warn of each lam that stopped above tol.

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
    if "checkpoint" in placing:
        raise ValueError(
            "checkpoint must be None for a path, whose trainings come one after another: fit each"
            " lam with a file of its own"
        )
    values = checks.read_lams("lams", lams)
    loss = checks.read_loss(loss)
    kind = read_intercept(intercept, scaling)
    options = read_options(method, batch_size, tol, max_epochs, averaging, checkpoints, precision)
    refuse_no_callback(callback)
    seed = checks.read_seed(random_state)
    checks.choice("alphas", alphas, ALPHAS)
    where = engine, n_jobs, device
    with placed_rows(X, y, sample_weight, where, **placing) as (data, y, weights):
        problem, classes = read_many(data, y, loss, values[:1], weights, "y")
        taken = for_one if problem.k == 1 else for_many
        options = replace(options, callback=taken(callback))
        if isinstance(options.method, Pegasos):
            problem = replace(problem, radius=float(options.method.radius))
        if warn:
            warn_of_columns(data, problem, options)
        done, steps = train_path(data, problem, values, options, kind, seed, alphas)
    steps = [[labelled(model, classes) for model in models] for models in steps]
    found = make_path(done, steps, classes)
    if warn:
        warn_of_path(found, values.size, options.max_epochs)
    return found
