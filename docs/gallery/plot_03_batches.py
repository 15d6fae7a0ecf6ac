"""
Naive, safe and aggressive batches
==================================

With batches far larger than :math:`1/\\sigma^2`, naive steps fail, safe steps are slow, and the
aggressive rule of Algorithm 2 adapts the length of its steps to the data.
"""

import warnings

import matplotlib.pyplot as plt

import batchsvm
from batchsvm.datasets import load
from batchsvm.displays import ScheduleDisplay

data = load("text-like")
figure, axis = plt.subplots(figsize=(6.4, 3.8), layout="constrained")
solutions = {}
for method in ("naive", "safe", "aggressive", "pegasos"):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # some of them do not converge, as expected
        solution = batchsvm.fit(
            data.X, data.y, lam=data.lam, method=method, batch_size=512, max_epochs=60,
            checkpoints=range(2, 400, 4), random_state=0,
        )  # fmt: skip
    axis.semilogy(solution.history.epoch, solution.history.gap, label=method)
    solutions[method] = solution
axis.set_xlabel("epochs")
axis.set_ylabel("certified gap")
axis.grid(alpha=0.3)
_ = axis.legend(frameon=False, loc="upper left", bbox_to_anchor=(1, 1))

# %%
# The aggressive rule lowers :math:`\beta` from the safe value as long as that pays, and refuses a
# step that would not raise the dual objective:

_ = ScheduleDisplay.from_solution(solutions["aggressive"])
