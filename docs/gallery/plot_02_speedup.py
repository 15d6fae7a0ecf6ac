"""
How far data can be parallelised
================================

The spectral norm :math:`\\sigma^2` of the data tells how much batches can bring, before any
training. The words of different documents overlap little, so that batches of ten rows do nearly
the work of ten serial steps. Thirty correlated measurements leave room for batches of two.
"""

import batchsvm
from batchsvm.datasets import load
from batchsvm.displays import SpeedupDisplay

for name in ("text-like", "breast-cancer"):
    data = load(name)
    display = SpeedupDisplay.from_data(data.X, lam=data.lam)
    display.axes_[0].set_title(name)

# %%
# The same as a table, with the numbers of iterations that Theorems 1 and 2 guarantee:

data = load("text-like")
print(batchsvm.plan(data.X, lam=data.lam).describe(theory=True))
