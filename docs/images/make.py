"""The picture at the head of the README: `python docs/images/make.py`."""

from pathlib import Path

import matplotlib

matplotlib.use("agg")

import batchsvm
from batchsvm.datasets import load
from batchsvm.displays import ConvergenceDisplay

data = load("text-like")
solution = batchsvm.fit(
    data.X, data.y, lam=data.lam, tol=1e-4, checkpoints=range(250, 10**7, 500), random_state=0
)
display = ConvergenceDisplay.from_solution(solution)
display.figure_.set_size_inches(6.4, 4.6)
display.figure_.savefig(Path(__file__).with_name("convergence.png"), dpi=130)
