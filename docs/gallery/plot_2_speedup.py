"""
How far data can be parallelised
================================

One number of the data, :math:`\\sigma^2`, says what batches can bring, before any training.
Words in documents overlap little, and ten rows fit into a batch before they get in each
other's way; thirty correlated measurements leave room for two.
"""

import batchsvm
from batchsvm.datasets import load
from batchsvm.displays import SpeedupDisplay

for name in ("text-like", "breast-cancer"):
    data = load(name)
    display = SpeedupDisplay.from_data(data.X, lam=data.lam)
    display.axes_[0].set_title(name)

# %%
# The same as a table, with the iterations that Theorems 1 and 2 promise:

data = load("text-like")
print(batchsvm.plan(data.X, lam=data.lam))
