"""Asynchronous: serial steps on many rows at once, with one w that nobody waits for.

Section 6 of the paper sets mini-batches beside methods that do without waiting.  Here each of
`batch_size` workers takes rows one after another, computes the serial step at the w that it finds,
and adds what the step changes to w entry by entry, as PASSCoDe does (Hsieh, Yu and Dhillon 2015).
A step knows all others but those under way at the same time, at most `batch_size` of them, and no
time goes into waiting.  Additions to w are atomic, so that none is lost, and w stays w(alpha) up to
rounding.

Rows that are much alike overshoot together, as a naive batch does.  So D is computed after every
epoch, from what the steps have changed in it and from ||w||: an epoch in which D has fallen is
taken back, and from then on half as many rows are worked on at once.  D never falls from one epoch
to the next, and one row at a time is serial SDCA.

The result depends on which worker is faster, so that the same seed does not give the same bits.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from batchsvm.methods.sdca import DualMethod

# How much of ||w||^2 lam N / 2, a part of N D, rounding may take: less is no fall of D.
ROUNDING = {"float32": 1e-6, "float64": 1e-13}


@dataclass(frozen=True)
class Asynchronous(DualMethod):
    """Serial steps on `batch_size` rows at once, without waiting; an epoch in which D falls is
    taken back, and half as many rows are worked on at once from then on.

    Parameters
    ----------
    sampling, step, sigma2, skips
        As for all dual methods; `sampling` must be "permutation", and `step` "general".
    """

    name: ClassVar[str] = "asynchronous"

    def first_beta(self, beta_b: float, batches: int = 1) -> float:
        return 1.0
