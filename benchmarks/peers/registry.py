"""Who takes part: where each solver is installed from, and the knob that says how far it goes."""

from __future__ import annotations

from dataclasses import dataclass


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
    version is read from.
    """

    name: str
    worker: str
    package: str
    installs: tuple[tuple[str, ...], ...]
    knob: str
    knobs: tuple[float, ...]
    threaded: bool = False
    compiles: bool = False
    environment: str = ""

    @property
    def ours(self) -> bool:
        return not self.installs


SKLEARN = (("scikit-learn==1.9.1",),)
# lightning's last release is of 2022, and is compiled here against the NumPy of its time.
LIGHTNING = (
    ("numpy<2", "cython<3", "scipy<1.13", "scikit-learn<1.5", "setuptools<70", "wheel"),
    ("--no-build-isolation", "sklearn-contrib-lightning==0.6.2.post0"),
)
VIOLATION = "tol, of the largest violation in the dual"

PEERS = (
    Peer(
        "batchsvm", "ours.py", "batchsvm", (), "tol, the certified gap",
        ladder(3e-2, 5e-7), threaded=True, compiles=True,
    ),
    Peer(
        "LinearSVC", "linear_svc.py", "scikit-learn", SKLEARN, VIOLATION,
        ladder(4.0, 1e-5), environment="scikit-learn",
    ),
    Peer(
        "SGDClassifier", "sgd_classifier.py", "scikit-learn", SKLEARN,
        "number of epochs, averaged over the second half", ladder(2, 5000),
        environment="scikit-learn",
    ),
    Peer(
        "liblinear-official", "liblinear_official.py", "liblinear-official",
        (("liblinear-official==2.50.0", "scipy"),), VIOLATION, ladder(4.0, 1e-5),
    ),
    Peer(
        "liblinear-multicore", "liblinear_multicore.py", "liblinear-multicore",
        (("liblinear-multicore==2.50.0", "scipy"),), VIOLATION, ladder(4.0, 1e-5), threaded=True,
    ),
    Peer(
        "Snap ML", "snap_svm.py", "snapml", (("snapml==1.17.2",),),
        "tol, of the change of the coefficients", ladder(0.3, 1e-7), threaded=True,
    ),
    Peer(
        "lightning CD", "lightning_cd.py", "sklearn-contrib-lightning", LIGHTNING, VIOLATION,
        ladder(4.0, 1e-5), environment="lightning",
    ),
    Peer(
        "lightning SDCA", "lightning_sdca.py", "sklearn-contrib-lightning", LIGHTNING,
        "tol, of the duality gap", ladder(1e-1, 1e-7), environment="lightning",
    ),
    Peer(
        "skglm", "skglm_svc.py", "skglm", (("skglm==0.5",),), VIOLATION, ladder(4.0, 1e-5),
        compiles=True,
    ),
)  # fmt: skip
BY_NAME = {peer.name: peer for peer in PEERS}
