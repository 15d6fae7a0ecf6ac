"""Train: `place`, `fit`, `fit_many` and `path`, which check their arguments and call `core/`."""

from __future__ import annotations

from dataclasses import replace
from math import inf
from typing import Any

from batchsvm.core import checks
from batchsvm.core.convergence_warning import warn_of_problems, warn_unless_converged
from batchsvm.core.many import train_many
from batchsvm.core.options import for_one, read_options
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
from batchsvm.engines import Dataset, is_placed, place_on, placed
from batchsvm.losses import Loss
from batchsvm.methods import Method, Pegasos


def place(
    X: Any,
    engine: str = "auto",
    n_jobs: int | None = None,
    *,
    device: int | None = None,
    deterministic: bool = False,
) -> Dataset:
    """Place X where an engine works on it, once, for any number of fits.

    What does not depend on y and lam is done once: checks, norms of rows, the cut among threads,
    sigma^2.  `fit`, `fit_many`, `path`, `certify`, `plan`, `sigma2` and the estimators take the
    result in the place of X, one after another or from several threads at once.

    Parameters
    ----------
    X : array or CSR matrix of shape (n, d)
        float32 or float64, used in place: it must not change until the data set is closed.
    engine : {"auto", "cpu", "gpu", "reference"}
        "auto" is "gpu" for arrays of a CUDA device (CuPy, torch, JAX), and "cpu" for all others;
        "gpu" uploads what is on the host.
    n_jobs : int
        Threads for each fit; -1 means all cores, None one.
    device : int, optional
        The number of the CUDA device, where there are several.
    deterministic : bool
        Whether the same seed gives the same bits on the gpu engine, on the same device.  There,
        sparse rows, and any rows with a method other than "gram", are added up by many threads in
        no fixed order, so that results differ in their last digits from run to run, and with them
        now and then the number of epochs; certificates hold in either case.  With True, steps are
        added up in integers and full passes go over a transposed copy of sparse rows, which takes
        as much memory again and makes a fit slower.  The other engines, and "gram", have the same
        bits every time without it.

    Returns
    -------
    Dataset
        A context manager; `close()` gives back its threads, and its memory on a device.

    Examples
    --------
    >>> import batchsvm, numpy as np
    >>> X = np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.5]])
    >>> with batchsvm.place(X) as data:
    ...     gaps = [batchsvm.fit(data, [1, 1, -1], lam=lam).certificate.gap for lam in (0.1, 0.01)]
    >>> max(gaps) <= 1e-3
    True
    """
    checks.choice("deterministic", deterministic, (False, True))
    if is_placed(X):
        raise ValueError("X must be data that are not placed yet; these are: use them as they are")
    return place_on(
        engine,
        X,
        checks.read_jobs(n_jobs),
        device=checks.read_device(device),
        deterministic=bool(deterministic),
    )


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
    device: int | None = None,
    precision: str = "auto",
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
        float32 or float64, used in place; CSR with int32 or int64 indices; on a device float16 and
        bfloat16 too.  `place(X)` makes placed data, which serve many fits.
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
        "pegasos", "naive", "safe", "guarded", "aggressive", "blocks", "gram", or e.g.
        `methods.Aggressive(gamma=0.9)`.  "auto" is SDCA: serial on one thread, guarded or
        blocks on several, aggressive for a batch size that was asked for; on a device gram for
        dense rows and aggressive for sparse ones.
    batch_size : int or "auto"
        From 1 to n.  "auto" with method "auto" is 1 on one thread, which gains nothing from
        batches, and on several up to 16 per thread, but no more than 1/sigma^2, or 8 to 32 per
        block; else the largest b with beta_b <= 2, about 1/sigma^2.  For gram it is the rows of one
        batch: "auto" is 64 on the host, and 64 or 128 on a device, where 512 is the most.
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
    engine : {"auto", "cpu", "gpu", "reference"}
        Compiled code, a CUDA device, or plain NumPy (slow; the oracle of the tests); "auto" is the
        engine where X lies.  Placed data have theirs.
    device : int, optional
        The number of the CUDA device, where there are several.
    precision : {"auto", "tf32", "float32", "float64"}
        Of the products in the steps of `gram` on a device; "auto" begins with tf32, and raises it
        where the gap does not fall any more.  Certificates are always in float64.
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
    options = read_options(method, batch_size, tol, max_epochs, averaging, checkpoints, precision)
    options = replace(options, callback=for_one(callback))
    seed = checks.read_seed(random_state)
    if bias is not None:
        bias = checks.number("bias", bias, f"{checks.POSITIVE}, or None", 0.0)
    with placed(X, engine, n_jobs, once=True, device=checks.read_device(device)) as data:
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
    device: int | None = None,
    precision: str = "auto",
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
        Problem k has this seed + k; on a device, problems that are trained at once share one order
        of rows.
    callback : callable, optional
        Called with the number of a problem and a `Checkpoint` after each certificate; a true
        result stops that problem.
    verbose : int
        1 shows one progress bar for all problems.
    warn : bool
        Whether to warn, once, of problems that stopped above tol.
    method, batch_size, tol, max_epochs, averaging, n_jobs, checkpoints, engine, device, precision
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
    options = read_options(method, batch_size, tol, max_epochs, averaging, checkpoints, precision)
    kind = read_intercept(intercept, scaling)
    seed = checks.read_seed(random_state)
    checks.read_verbose(verbose)
    if callback is not None and not callable(callback):
        raise ValueError(f"callback must be callable or None, not {callback!r}")
    with placed(X, engine, n_jobs, device=checks.read_device(device)) as data:
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
    device: int | None = None,
    precision: str = "auto",
    alphas: str = "auto",
    warn: bool = True,
) -> Path:
    """Train for every lam of `lams`, from the largest to the smallest, each from the last one.

    Ctrl-C ends the path with the best certified point of the lam under way, and warns.

    Parameters
    ----------
    X, loss, method, batch_size, tol, averaging, checkpoints, n_jobs, random_state, engine, \
device, precision
        As for `batchsvm.fit`.
    y : array of shape (n,) or (n, K)
        As the targets of `batchsvm.fit_many`: more than two classes are taken one against the
        rest, and a column is a problem of its own.
    lams : array of positive numbers
    sample_weight : array of shape (n,) or (n, K), optional
    callback : callable, optional
        As for `batchsvm.fit`; with more than one problem as for `batchsvm.fit_many`.
    intercept : {None, "penalised", "free"}
        No intercept, one that is penalised like the coefficients, or one that costs nothing.
    scaling : float
        The constant that a penalised intercept multiplies.
    max_epochs : float
        For each lam.
    alphas : {"auto", "all", "last"}
        Keep the dual points of every lam, or those of the smallest alone.  "auto" keeps all of
        them, unless the engine keeps them on a device.
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
    values = checks.read_lams("lams", lams)
    loss = checks.read_loss(loss)
    kind = read_intercept(intercept, scaling)
    options = read_options(method, batch_size, tol, max_epochs, averaging, checkpoints, precision)
    alone = for_one(callback)
    seed = checks.read_seed(random_state)
    checks.choice("alphas", alphas, ALPHAS)
    with placed(X, engine, n_jobs, device=checks.read_device(device)) as data:
        problem, classes = read_many(data, y, loss, values[:1], sample_weight, "y")
        options = replace(options, callback=alone if problem.k == 1 else callback)
        if isinstance(options.method, Pegasos):
            problem = replace(problem, radius=float(options.method.radius))
        done, steps = train_path(data, problem, values, options, kind, seed, alphas)
    steps = [[labelled(model, classes) for model in models] for models in steps]
    found = make_path(done, steps, classes)
    if warn:
        warn_of_path(found, values.size, options.max_epochs)
    return found
