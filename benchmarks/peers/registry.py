"""Who takes part: where each solver is installed from, and the knob that says how far it goes."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from benchmarks.cells import INTERCEPTS, LOSSES, Cell

Kinds = frozenset[tuple[str, str]]  # of problems: a loss and an intercept


def without(*losses: str) -> Kinds:
    """These losses, without an intercept: there is none, or it is penalised."""
    return frozenset((loss, "none") for loss in losses)


def either(*losses: str) -> Kinds:
    """These losses, without an intercept and with a free one."""
    return frozenset((loss, intercept) for loss in losses for intercept in INTERCEPTS)


def ladder(loosest: float, tightest: float, factor: float = 1.5) -> tuple[float, ...]:
    """Settings from loose to tight, each `factor` apart; upwards for a number of epochs."""
    down = tightest < loosest
    steps = [loosest]
    while (steps[-1] > tightest) if down else (steps[-1] < tightest):
        steps.append(steps[-1] / factor if down else steps[-1] * factor)
    return tuple(float(f"{step:.2g}") for step in steps)


@dataclass(frozen=True)
class Peer:
    """A solver.

    `installs` are the pip commands that build its environment, one list of arguments each;
    none at all means the environment that runs the benchmark.  `package` is what its
    version is read from.  `solves` are the problems that it has the exact objective of.  The
    threads of one that is `threaded_on_dense` are those of BLAS.
    """

    name: str
    worker: str
    package: str
    installs: tuple[tuple[str, ...], ...]
    knob: str
    knobs: tuple[float, ...]
    solves: Kinds = frozenset()
    threaded: bool = False
    threaded_on_dense: bool = False
    most_columns: float = inf
    compiles: bool = False
    environment: str = ""

    @property
    def ours(self) -> bool:
        return not self.installs

    def takes(self, cell: Cell, columns: int) -> bool:
        """Whether it solves the problem of a cell, whose data have so many columns."""
        return (cell.loss, cell.intercept) in self.solves and columns <= self.most_columns

    def has_threads(self, dense: bool) -> bool:
        return self.threaded or (self.threaded_on_dense and dense)


SKLEARN = (("scikit-learn==1.9.1",),)
# lightning's last release is of 2022, and is compiled here against the NumPy of its time.
LIGHTNING = (
    ("numpy<2", "cython<3", "scipy<1.13", "scikit-learn<1.5", "setuptools<70", "wheel"),
    ("--no-build-isolation", "sklearn-contrib-lightning==0.6.2.post0"),
)
VIOLATION = "tol, of the largest violation in the dual"
GRADIENT = "tol, of the gradient"
GAP = "tol, of the duality gap"
OFFICIAL = (("liblinear-official==2.50.0", "scipy"),)
MULTICORE = (("liblinear-multicore==2.50.0", "scipy"),)

PEERS = (
    Peer(
        "batchsvm", "ours.py", "batchsvm", (), "tol, the certified gap",
        ladder(3e-2, 5e-7), either(*LOSSES), threaded=True, compiles=True,
    ),
    # The intercept of LinearSVC is a column of X, and penalised.
    Peer(
        "LinearSVC", "linear_svc.py", "scikit-learn", SKLEARN, VIOLATION,
        ladder(4.0, 1e-5), without("hinge", "squared_hinge"), environment="scikit-learn",
    ),
    Peer(
        "LinearSVC(dual=False)", "linear_svc_primal.py", "scikit-learn", SKLEARN, GRADIENT,
        ladder(4.0, 1e-7), without("squared_hinge"), environment="scikit-learn",
    ),
    # LIBSVM has no problem without an intercept.
    Peer(
        "SVC(linear)", "libsvm_svc.py", "scikit-learn", SKLEARN, VIOLATION,
        ladder(1.0, 1e-5, 3.0), frozenset({("hinge", "free")}), environment="scikit-learn",
    ),
    Peer(
        "LogisticRegression(lbfgs)", "logistic_lbfgs.py", "scikit-learn", SKLEARN, GRADIENT,
        ladder(3e-2, 1e-8), either("logistic"), threaded_on_dense=True,
        environment="scikit-learn",
    ),
    # Its Hessian has columns^2 entries.
    Peer(
        "LogisticRegression(newton-cholesky)", "logistic_newton.py", "scikit-learn", SKLEARN,
        GRADIENT, ladder(3e-2, 1e-8), either("logistic"), threaded_on_dense=True,
        most_columns=5_000, environment="scikit-learn",
    ),
    Peer(
        "SGDClassifier", "sgd_classifier.py", "scikit-learn", SKLEARN,
        "number of epochs, averaged over the second half", ladder(2, 5000), either(*LOSSES),
        environment="scikit-learn",
    ),
    # LIBLINEAR leaves the intercept out of the penalty (-R) in its primal solvers only.
    Peer(
        "liblinear-official", "liblinear_official.py", "liblinear-official", OFFICIAL, VIOLATION,
        ladder(4.0, 1e-5), without(*LOSSES),
    ),
    Peer(
        "liblinear-official, primal", "liblinear_official_primal.py", "liblinear-official",
        OFFICIAL, GRADIENT, ladder(4.0, 1e-7), either("squared_hinge", "logistic"),
        environment="liblinear-official",
    ),
    # Its dual solver of the logistic loss has one thread, and is that of liblinear-official.
    Peer(
        "liblinear-multicore", "liblinear_multicore.py", "liblinear-multicore", MULTICORE,
        VIOLATION, ladder(4.0, 1e-5), without("hinge", "squared_hinge"), threaded=True,
    ),
    Peer(
        "liblinear-multicore, primal", "liblinear_multicore_primal.py", "liblinear-multicore",
        MULTICORE, GRADIENT, ladder(4.0, 1e-7), either("squared_hinge", "logistic"),
        threaded=True, environment="liblinear-multicore",
    ),
    # The intercepts of Snap ML and of rehline are columns of X, and penalised.
    Peer(
        "Snap ML", "snap_ml.py", "snapml", (("snapml==1.17.2",),),
        "tol, of the change of the coefficients", ladder(0.3, 1e-7), without(*LOSSES),
        threaded=True,
    ),
    Peer(
        "lightning CD", "lightning_cd.py", "sklearn-contrib-lightning", LIGHTNING, VIOLATION,
        ladder(4.0, 1e-5), without("hinge", "squared_hinge"), environment="lightning",
    ),
    # Its gap of the squared hinge stays above any tol at the optimum, so that it does not stop.
    Peer(
        "lightning SDCA", "lightning_sdca.py", "sklearn-contrib-lightning", LIGHTNING, GAP,
        ladder(1e-1, 1e-7), without("hinge"), environment="lightning",
    ),
    Peer(
        "skglm", "skglm_svc.py", "skglm", (("skglm==0.5",),), VIOLATION, ladder(4.0, 1e-5),
        without("hinge"), compiles=True,
    ),
    Peer(
        "cyanure", "cyanure_classifier.py", "cyanure", (("cyanure==1.2.2",),), GAP,
        ladder(0.3, 1e-7), either("squared_hinge", "logistic"), threaded=True,
    ),
    Peer(
        "rehline", "rehline_ridge.py", "rehline", (("rehline==0.1.4",),), GAP,
        ladder(0.3, 1e-7), without("hinge", "squared_hinge"),
    ),
)  # fmt: skip
BY_NAME = {peer.name: peer for peer in PEERS}
