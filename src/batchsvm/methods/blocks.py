"""Blocks: serial SDCA on blocks of rows, side by side, each with a w of its own.

In an iteration each block takes a few serial steps on rows of its own, seeing its own steps but
not yet those of the others; then the changes of all blocks are added up, as in CoCoA (Jaggi et al.
2014; Ma et al. 2015).  Where one thread works on each block, an iteration costs each of them its
own rows and one exchange of w.

The rows of a block come from everywhere in the data, and are others in each epoch.  Blocks that
keep to their rows, such as the first and the second half of the data, each solve their own part of
the problem in turn, and took up to ten times as many epochs where few rows were left to visit.

Added up, the changes delta_j of blocks that agree overshoot, as naive batches do.  With
L_j what block j gains to first order and Delta_j = sum of alpha-changes times s_i x_i,

    N (D(alpha + theta sum_j delta_j) - D(alpha))
        >= theta sum_j L_j - theta^2/(2 lam N) ||sum_j Delta_j||^2

since the conjugates are convex.  The iteration takes the theta in (0, 1] for which this is
largest: D never falls, whatever the data, and theta is 1 where blocks do not disagree.

With many columns, exchanging all of w takes longer than the steps.  But two rows seldom meet in
a rare column.  If a column that half as many rows have is exchanged half as often, no more steps
are taken in it unaware of each other than in a frequent one.  Such an iteration ends without a
common w at which D could be evaluated.  So steps are guarded as in `Guarded`: whenever all columns
have been exchanged, beta grows if D has risen by less than half of what the steps promised.
A block reckons with beta - 1 others that do what it does: it divides its steps by beta, and sees
them beta times as long.  With beta as large as the number of blocks, D does not fall where all
columns are exchanged each time (Ma et al. 2015).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from batchsvm.methods.sdca import MIN_KEPT_PROMISE, DualMethod

EXCHANGES = ("all", "frequency")
BETA_GROWTH = 1.25
ALMOST_ONE = 1.0 - 1e-9  # a theta that rounding alone keeps from 1


def best_theta(first_order, quadratic, blocks):
    """The step length theta for which the bound is largest, from sum_j L_j and
    ||sum_j Delta_j||^2/(lam N).

    Since every block gains, L_j >= ||Delta_j||^2/(2 lam N), and theta is 1/2 over the number of
    blocks at the least; near the optimum rounding could say otherwise.
    """
    if first_order >= ALMOST_ONE * quadratic:
        return 1.0
    return max(first_order / quadratic, 0.5 / blocks)


def next_block_beta(beta, kept, blocks):
    """beta after all columns were exchanged, `kept` being the part of the promised rise of D that
    came true; no more than the number of blocks.  Doubled, it would cost epochs that a little
    more of it spares."""
    return min(BETA_GROWTH * beta, blocks) if kept < MIN_KEPT_PROMISE else beta


@dataclass(frozen=True)
class Blocks(DualMethod):
    """Serial steps on blocks of rows side by side, their changes added up.

    Parameters
    ----------
    sampling, step, sigma2, skips
        As for all dual methods; `sampling` must be "permutation".
    blocks : int
        The number of blocks.  `batch_size` is the number of rows of all blocks in an iteration,
        and becomes a multiple of it.  Fewer threads than blocks give the same result.
    exchange : {"all", "frequency"}
        Which columns of w the blocks exchange after an iteration: all of them, for data with few
        columns; or the frequent ones, and rarer ones every second, fourth, eighth time and so on.
    """

    blocks: int = 2
    exchange: str = "all"

    name: ClassVar[str] = "blocks"
    skips_in_batches: ClassVar[bool] = True

    def first_beta(self, beta_b: float, batches: int = 1) -> float:
        return 1.0
