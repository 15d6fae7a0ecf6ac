"""
What a certificate looks like
=============================

Every certificate of a fit consists of a primal value, a dual value and the gap between them. The
optimum lies between the two curves, for every method.
"""

import batchsvm
from batchsvm.datasets import load
from batchsvm.displays import ConvergenceDisplay

data = load("text-like")
steps = range(200, 10_000_000, 1000)  # certify often, for a smooth picture
solution = batchsvm.fit(data.X, data.y, lam=data.lam, tol=1e-6, checkpoints=steps, random_state=0)
_ = ConvergenceDisplay.from_solution(solution)

# %%
# The last certificate is that of the model which ``fit`` returns:

print(solution)
