"""What a user of the library may write; `test_typing.py` checks its types."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

import batchsvm
from batchsvm import BatchSVC, BatchSVCCV, BatchSVR

X: npt.NDArray[np.float64] = np.eye(4)
y: npt.NDArray[np.int64] = np.array([0, 1, 0, 1])

solution: batchsvm.Solution = batchsvm.fit(X, y, lam=0.1, random_state=0)
gap: float = solution.certificate.gap + solution.certificate.bound
why: str = solution.status.value
converged: bool = solution.status.converged
w = solution.w
alpha = solution.alpha
many: batchsvm.Solutions = batchsvm.fit_many(X, y, lam=[0.1, 0.01], intercept="free")
worst: batchsvm.Certificate = many.worst
along: batchsvm.Path = batchsvm.path(X, y, [0.1, 0.01])
plan: batchsvm.Plan = batchsvm.plan(X, y, lam=0.1)
batch_size: int = plan.batch_size
again: batchsvm.Certificate = batchsvm.certify(X, y, w, alpha, lam=0.1)
with batchsvm.place(X) as data:
    rows: int = data.n
    placed: batchsvm.Solution = batchsvm.fit(data, y, lam=0.1)

classifier: BatchSVC = BatchSVC("logistic", C=1.0, intercept="free").fit(X, y)
stream: BatchSVC = BatchSVC(lam=0.1).partial_fit(X, y, classes=[0, 1])
labels = classifier.predict(X)
accuracy: float = classifier.score(X, y)
sparse: BatchSVC = classifier.sparsify()
regressor: BatchSVR = BatchSVR("huber", epsilon=0.5).fit(X, y)
chosen: BatchSVCCV = BatchSVCCV(Cs=[0.1, 1.0]).fit(X, y)
classifier.save("model", y)
model: batchsvm.Model = batchsvm.load("model")
found: batchsvm.Certificate | None = model.worst


def stop_early(seen: batchsvm.Checkpoint) -> bool:
    """A callback."""
    return seen.certificate.relative_gap < 0.1


stopped: batchsvm.Solution = batchsvm.fit(X, y, lam=0.1, callback=stop_early)
