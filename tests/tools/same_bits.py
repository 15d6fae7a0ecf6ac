"""Do two commits give the same bits?  A move of code must not change a number.

    python tests/tools/same_bits.py REVISION

runs the same fits with REVISION and with the working tree, each in a process of its own, and
compares every array they return: w, alpha and history (without its seconds) of `fit` over all
methods, three losses, dense and CSR rows, one and two threads; `path`; the estimators; and the
model files that REVISION wrote, loaded by both.  sigma^2 is passed wherever a step depends on it,
so that it may be measured in another way.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

import numpy as np
import scipy.sparse as sp

ROOT = Path(__file__).resolve().parents[2]
HISTORY = ("iteration", "epoch", "primal", "dual", "gap", "beta", "refused")
METHODS = ("auto", "pegasos", "naive", "safe", "guarded", "aggressive", "blocks")
LOSSES = ("hinge", "logistic", "epsilon_insensitive")


def text_like(n, d, per_row, seed):
    rng = np.random.default_rng(seed)
    columns = np.minimum((d * rng.random(n * per_row) ** 3).astype(np.int64), d - 1)
    X = sp.csr_array(
        (rng.random(n * per_row) + 0.1, (np.repeat(np.arange(n), per_row), columns)), shape=(n, d)
    )
    X.sum_duplicates()
    y = np.where(X @ rng.normal(size=d) + 0.1 * rng.normal(size=n) > 0, 1.0, -1.0)
    return X, y


def dense(n, d, seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * 2.0 ** rng.integers(-2, 2, size=(n, 1))
    return X, np.where(X @ rng.normal(size=d) + rng.normal(size=n) > 0, 1.0, -1.0)


class Recorder:
    def __init__(self) -> None:
        self.found: dict[str, np.ndarray] = {}

    def solution(self, name, solution):
        self.found[f"{name}/w"] = solution.w
        self.found[f"{name}/alpha"] = solution.alpha
        for column in HISTORY:
            self.found[f"{name}/{column}"] = np.asarray(getattr(solution.history, column), float)

    def estimator(self, name, model):
        for attribute in ("coef_", "intercept_", "dual_coef_"):
            self.found[f"{name}/{attribute}"] = np.asarray(getattr(model, attribute))
        histories = model.history_ if isinstance(model.history_, tuple) else (model.history_,)
        for k, history in enumerate(histories):
            for column in HISTORY:
                self.found[f"{name}/{k}/{column}"] = np.asarray(getattr(history, column), float)


def method_of(batchsvm, name, sampling="permutation"):
    """The method with a given sigma^2, or "auto"."""
    if name == "auto":
        return "auto"
    kind = batchsvm.methods.METHODS[name]
    return kind(sigma2=0.3, sampling=sampling)


def record(out: str, models: str) -> None:
    import batchsvm
    from batchsvm import BatchSVC, BatchSVCCV, BatchSVR

    warnings.simplefilter("ignore")
    recorder = Recorder()
    small = {"dense": dense(400, 12, 0), "csr": text_like(500, 800, 20, 1)}
    # Above the sizes from which rows are visited in groups and threads are used.
    large = {"dense": dense(90_000, 54, 2), "csr": text_like(40_000, 30_000, 140, 3)}
    for sets, epochs in ((small, 30), (large, 3)):
        for storage, (X, y) in sets.items():
            for loss in LOSSES if sets is small else LOSSES[:1]:
                target = y if loss != "epsilon_insensitive" else y + X[:, [0]].sum(axis=1)
                for method in METHODS:
                    for jobs in (1, 2):
                        for b in (None,) if method == "auto" else (1, 16):
                            size = {} if b is None else {"batch_size": b}
                            name = f"{storage}{len(y)}/{loss}/{method}/{jobs}/{b}"
                            recorder.solution(name, batchsvm.fit(
                                X, target, loss, 1e-3, method_of(batchsvm, method), tol=1e-6,
                                max_epochs=epochs, n_jobs=jobs, random_state=5, **size,
                            ))  # fmt: skip
    X, y = small["dense"]
    weights = np.random.default_rng(0).random(len(y)) * (np.arange(len(y)) % 5 > 0)
    for averaging in ("tail", "decay"):
        for method in ("pegasos", "safe", "aggressive"):
            for sampling in ("permutation", "subsets"):
                recorder.solution(f"{averaging}/{method}/{sampling}", batchsvm.fit(
                    X, y, "logistic", 1e-2, method_of(batchsvm, method, sampling), 8, tol=0,
                    max_epochs=20, averaging=averaging, sample_weight=weights, random_state=1,
                    bias=0.7, offset=0.1,
                ))  # fmt: skip
    projected = batchsvm.methods.Pegasos(radius=0.5, sigma2=0.3)
    recorder.solution(
        "projected", batchsvm.fit(X, y, "hinge", 1e-2, projected, 4, tol=0, max_epochs=10,
                                  random_state=1))  # fmt: skip
    first = batchsvm.fit(X, y, lam=1e-2, tol=0, max_epochs=2, random_state=0)
    for method in METHODS:
        recorder.solution(f"warm/{method}", batchsvm.fit(
            X, y, lam=1e-2, method=method_of(batchsvm, method), tol=1e-7, max_epochs=20,
            initial=first, random_state=2, checkpoints=[3, 10, 50],
        ))  # fmt: skip
    for storage, (X, y) in small.items():
        for intercept in (None, "penalised", "free"):
            path = batchsvm.path(
                X, y, [1e-1, 1e-2, 1e-3], intercept=intercept, scaling=0.7, random_state=3
            )
            for k, model in enumerate(path.models):
                recorder.solution(f"path/{storage}/{intercept}/{k}", model.solution)
            recorder.found[f"path/{storage}/{intercept}/intercepts"] = path.intercepts
    rng = np.random.default_rng(4)
    classes = rng.integers(0, 4, len(small["dense"][1]))
    X = small["dense"][0] + 2.0 * rng.normal(size=(4, 12))[classes]
    for jobs in (1, 2):
        for intercept in ("penalised", "free"):
            model = BatchSVC(lam=1e-2, intercept=intercept, n_jobs=jobs, random_state=0)
            recorder.estimator(f"svc/{intercept}/{jobs}", model.fit(X, classes))
    model = BatchSVC("logistic", C=0.5, warm_start=True, class_weight="balanced", random_state=0)
    recorder.estimator("svc/logistic", model.fit(X, classes))
    recorder.estimator("svc/warm", model.set_params(C=1.0).fit(X, classes))
    X, y = small["csr"]
    for intercept in ("penalised", "free"):
        recorder.estimator(f"svr/{intercept}", BatchSVR(
            "huber", lam=1e-2, intercept=intercept, random_state=0
        ).fit(X, y + X[:, [0]].sum(axis=1)))  # fmt: skip
    model = BatchSVCCV(lams=[1e-1, 1e-2, 1e-3], random_state=0, n_jobs=2).fit(X, y)
    recorder.estimator("cv", model)
    recorder.found["cv/scores"], recorder.found["cv/gaps"] = model.scores_, model.gaps_
    if not os.listdir(models):
        batchsvm.save(first, Path(models) / "solution.model")
        model.save(Path(models) / "estimator.model")
    for name in ("solution", "estimator"):
        loaded = batchsvm.load(Path(models) / f"{name}.model")
        recorder.found[f"file/{name}/coef"] = loaded.coef
        recorder.found[f"file/{name}/alpha"] = loaded.alpha
        for k, history in enumerate(loaded.history):
            for column in HISTORY:
                recorder.found[f"file/{name}/{k}/{column}"] = history[column]
        recorder.found[f"file/{name}/certificates"] = np.array(
            [[c.primal, c.dual, c.gap, c.relative_gap, c.rounding] for c in loaded.certificates]
        )
    np.savez(out, **recorder.found)


def run(source: Path, out: Path, models: Path) -> dict[str, np.ndarray]:
    environment = {**os.environ, "PYTHONPATH": str(source / "src")}
    command = [sys.executable, __file__, "--record", str(out), str(models)]
    subprocess.run(command, env=environment, check=True)
    with np.load(out) as found:
        return dict(found)


def compare(before: dict[str, np.ndarray], after: dict[str, np.ndarray]) -> list[str]:
    """The names of what is missing or differs in a bit, with the largest difference."""
    different = [f"{name}: missing" for name in before.keys() ^ after.keys()]
    for name in before.keys() & after.keys():
        a, b = before[name], after[name]
        if a.shape != b.shape:
            different.append(f"{name}: shape {a.shape} and {b.shape}")
        elif not np.array_equal(a, b, equal_nan=True):
            different.append(f"{name}: {np.nanmax(np.abs(a - b)):.3g}")
    return sorted(different)


def main(revision: str) -> int:
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        clone = ["git", "clone", "--quiet", str(ROOT), str(place / "parent")]
        subprocess.run(clone, check=True)
        subprocess.run(
            ["git", "-C", str(place / "parent"), "checkout", "--quiet", revision], check=True
        )
        (place / "models").mkdir()
        before = run(place / "parent", place / "before.npz", place / "models")
        after = run(ROOT, place / "after.npz", place / "models")
    different = compare(before, after)
    print(f"{len(before)} arrays compared with {revision}, {len(different)} differ")
    for line in different:
        print(" ", line)
    return 1 if different else 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["--record"]:
        record(*sys.argv[2:])
    elif len(sys.argv) == 2:
        sys.exit(main(sys.argv[1]))
    else:
        sys.exit(f"usage: {sys.argv[0]} REVISION")
