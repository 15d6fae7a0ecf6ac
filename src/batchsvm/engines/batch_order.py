"""Batches that keep their rows: the stream of `methods/gram.py`.  The gpu engine draws the same
one, but for the cut of very many rows, which it makes on the device.

One generator makes it, `np.random.default_rng(seed)`, in this order: `permutation(n)`, which is
cut into batches of b rows, the last of which may be shorter; then, at the start of every epoch,
`permutation(number of batches)`.  An epoch takes the batches in that order, S at a time: a round.
The last round of an epoch may have fewer.

Where there are few batches, `permutation(n)` cuts them anew at the start of every epoch but the
first.  On few rows the order of visits would hardly change otherwise, and training would take up
to five times as many epochs; and few Gram matrices are soon computed.
"""

from __future__ import annotations

import numpy as np

from batchsvm.engines.visit_order import UNSCREENED

FEW_BATCHES = 64


class BatchOrder:
    """The rows of each batch, and which batches come next."""

    visits = UNSCREENED  # no row is left out

    def __init__(self, n: int, batch_size: int, batches: int, seed: int) -> None:
        self._random = np.random.default_rng(seed)
        index_type = np.int32 if n < 2**31 else np.int64
        self.rows = self._random.permutation(n).astype(index_type)  # of batch after batch
        self.batch_size, self.batches = batch_size, batches
        self.count = -(-n // batch_size)  # of batches in all
        self._order, self._position = np.empty(0, np.int64), 0
        self.is_cut_anew = False  # by the last call of `upcoming`

    def batch(self, number: int) -> np.ndarray:
        """The rows of a batch."""
        return self.rows[number * self.batch_size : (number + 1) * self.batch_size]

    def upcoming(self, rounds: int) -> np.ndarray:
        """The numbers of the batches of the next so many rounds, or of fewer where the epoch ends
        before."""
        self.is_cut_anew = self.epoch_is_over and self._order.size > 0 and self.count <= FEW_BATCHES
        if self.is_cut_anew:
            self.rows[:] = self._random.permutation(self.rows.size)
        if self.epoch_is_over:
            self._order, self._position = self._random.permutation(self.count), 0
        start = self._position
        self._position = min(start + rounds * self.batches, self.count)
        return self._order[start : self._position]

    @property
    def epoch_is_over(self) -> bool:
        """Whether no round of this epoch is left."""
        return self._position == self._order.size
