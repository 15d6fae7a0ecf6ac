"""
What a certificate looks like
=============================

Every checkpoint of a fit has a primal value, a dual value and the gap between them. The
optimum lies between the two curves, whatever the method did.
"""

import batchsvm
from batchsvm.datasets import load
from batchsvm.displays import ConvergenceDisplay

data = load("text-like")
steps = range(200, 10_000_000, 1000)  # certify often, for a smooth picture
solution = batchsvm.fit(data.X, data.y, lam=data.lam, tol=1e-6, checkpoints=steps, random_state=0)
ConvergenceDisplay.from_solution(solution)

# %%
# The last certificate is the one that counts:

print(solution)
