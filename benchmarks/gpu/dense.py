"""Dense rows: a thousand classes at once, a path, one problem."""

from __future__ import annotations

from typing import Any

import numpy as np

import batchsvm
from benchmarks.gpu import generated
from benchmarks.gpu.measuring import Bench, certificate_seconds, facts_of

MANY = (1_281_024, 2048, 1000)  # rows, columns, classes
MANY_QUICK = (160, 8, 9)
MANY_LAM = 1e-5
ONE = ((2_097_152, 768), (10_000_000, 768))
ONE_QUICK = ((600, 12),)
ONE_LAM = 1e-5
PATH_LAMS = np.geomspace(1e-4, 1e-6, 20)
TOL = 1e-3


def many_classes(bench: Bench) -> tuple[Any, Any, dict[str, Any]]:
    """The data of a thousand classes, and their shape in words of a result."""
    n, d, classes = MANY_QUICK if bench.quick else MANY
    X, labels = generated.embeddings(n, d, classes, xp=bench.xp)
    return X, labels, {"rows": n, "columns": d, "classes": classes}


def many_lam(bench: Bench) -> float:
    return 0.1 if bench.quick else MANY_LAM


def embeddings(bench: Bench) -> None:
    """`fit_many` on data of the device, with all certificates; the first fit, which compiles, is
    told apart."""
    X, labels, shape = many_classes(bench)
    lam = many_lam(bench)

    def time_fits(name: str, loss: str, count: int) -> None:
        def fit() -> Any:
            return batchsvm.fit_many(
                X, labels, loss, lam, tol=TOL, random_state=0, engine="gpu", warn=False
            )

        first, solutions = bench.seconds(fit)
        del solutions  # its memory
        taken, solutions = bench.repeated(fit, count)
        facts = shape | {"loss": loss, "lam": lam, "tol": TOL, "first_seconds": first}
        bench.keep(name, taken, **facts, **facts_of(solutions))

    time_fits("hinge", "hinge", 5)
    with batchsvm.place(X, engine="gpu") as data:
        fit = {"loss": "hinge", "lam": lam, "tol": TOL, "random_state": 0}
        taken = certificate_seconds(bench, data, labels, fit)
        bench.keep("one certificate of all classes", taken, **shape, loss="hinge", lam=lam)
    time_fits("squared hinge", "squared_hinge", 3)
    time_fits("logistic", "logistic", 3)
    order = bench.xp.argsort(labels)
    X, labels = X[order], labels[order]
    time_fits("hinge, rows sorted by class", "hinge", 3)


def path(bench: Bench) -> None:
    """Many values of lam, each from the alpha before; one run."""
    X, labels, shape = many_classes(bench)
    lams = np.geomspace(1.0, 0.1, 3) if bench.quick else PATH_LAMS
    with batchsvm.place(X, engine="gpu") as data:
        first = batchsvm.fit_many(data, labels, lam=lams[0], tol=TOL, random_state=0, warn=False)
        del first  # it has compiled the kernels
        seconds, found = bench.seconds(
            lambda: batchsvm.path(data, labels, lams, tol=TOL, random_state=0, warn=False)
        )
        gaps = [max(c.relative_gap for c in at) for at in found.certificates]
        converged = [sum(s.status.converged for s in models) for models in found.models]
        epochs = [max(float(s.history.epoch[-1]) for s in models) for models in found.models]
    bench.keep(
        "path, hinge", [seconds], **shape, loss="hinge", lams=lams.tolist(), tol=TOL,
        steps=len(lams), worst_gap=max(gaps), gaps=gaps, converged=sum(converged),
        converged_of_each=converged,
        problems=shape["classes"] * len(lams), epochs=sum(epochs), epochs_of_each=epochs,
    )  # fmt: skip


def one_problem(bench: Bench) -> None:
    """`fit` on data of the device; beside it, what it takes to read X once."""
    lam = 1e-2 if bench.quick else ONE_LAM
    for n, d in ONE_QUICK if bench.quick else ONE:
        X, y = generated.two_classes(n, d, xp=bench.xp)

        def fit(X: Any = X, y: Any = y) -> Any:
            return batchsvm.fit(X, y, lam=lam, tol=TOL, random_state=0, engine="gpu", warn=False)

        first, solution = bench.seconds(fit)
        del solution
        taken, solution = bench.repeated(fit, 5)
        X.sum()
        reading, _ = bench.repeated(X.sum, 5)
        with batchsvm.place(X, engine="gpu") as data:
            options = {"loss": "hinge", "lam": lam, "tol": TOL, "random_state": 0}
            certifying = certificate_seconds(bench, data, y, options)
        bench.keep(
            f"{n:,} x {d}", taken, rows=n, columns=d, loss="hinge", lam=lam, tol=TOL,
            first_seconds=first, read_seconds=float(np.median(reading)),
            certificate_seconds=float(np.median(certifying)), **facts_of(solution),
        )  # fmt: skip
        del X, y, solution, fit  # the memory, before the next data are generated
