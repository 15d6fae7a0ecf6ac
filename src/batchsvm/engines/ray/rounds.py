"""How much work is done between two exchanges, by whom, and how far a round goes.

In a round all workers train at the same w.  Their changes of w are added up; beta and theta are
those of batches at the same time (`methods/gram.py`), with workers in the place of batches.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from batchsvm.engines.ray.local_training import CURVED, GAIN, SQUARE
from batchsvm.methods.gram import joint_theta, next_joint_beta

FIRST_EPOCHS = 1 / 8  # of the first round, which shows how fast the workers are
FIRST_SECONDS = 0.2  # of work per round, until it is known what an exchange costs
WORK_PER_EXCHANGE = 5.0  # work takes so many times as long as the exchange
MAX_EPOCHS = 1.0  # of one round: more would fit w to the rows of each worker alone
FIXED_EPOCHS = 1 / 4  # of a round whose size is not to depend on the clock
FEW_ROUNDS = 3  # do not tell what an exchange costs
MAX_GROWTH = 4.0  # of a round, since one measurement may be wrong
SMOOTHING = 0.7


class RoundSize:
    """How many iterations a round has, of all workers together.

    Attributes
    ----------
    iterations : int
    exchange_seconds : float
        What an exchange has cost, in the mean of recent rounds.
    """

    def __init__(self, per_epoch: int, fixed: bool) -> None:
        self._per_epoch, self._fixed = per_epoch, fixed
        self.iterations = max(1, round((FIXED_EPOCHS if fixed else FIRST_EPOCHS) * per_epoch))
        self.exchange_seconds, self._rounds = 0.0, 0

    def learn(self, iterations: int, work_seconds: float, exchange_seconds: float) -> None:
        """From a round: the time of the slowest worker, and what came on top of it."""
        before = self.exchange_seconds or exchange_seconds
        self.exchange_seconds = SMOOTHING * before + (1 - SMOOTHING) * exchange_seconds
        self._rounds += 1
        if self._fixed or work_seconds <= 0.0:
            return
        wanted = WORK_PER_EXCHANGE * self.exchange_seconds
        if self._rounds <= FEW_ROUNDS:
            wanted = max(wanted, FIRST_SECONDS)
        found = iterations * wanted / work_seconds
        low, high = self.iterations / MAX_GROWTH, self.iterations * MAX_GROWTH
        most = min(high, MAX_EPOCHS * self._per_epoch)
        self.iterations = max(1, int(min(max(found, low), most)))


class Shares:
    """Iterations dealt out to workers such that all come to the end of an epoch together."""

    def __init__(self, per_epoch: np.ndarray) -> None:
        self._parts = per_epoch / per_epoch.sum()
        self._done = np.zeros(per_epoch.size)  # beyond what a worker is due, if positive

    def deal(self, iterations: int) -> np.ndarray:
        """How many of them each worker gets.

        >>> shares = Shares(np.array([3, 2]))
        >>> [shares.deal(1).tolist() for _ in range(5)], shares.deal(10).tolist()
        ([[1, 0], [0, 1], [1, 0], [0, 1], [1, 0]], [6, 4])
        """
        wanted = iterations * self._parts - self._done
        given = np.maximum(np.floor(wanted + 1e-9), 0.0).astype(np.int64)
        while (left := iterations - int(given.sum())) != 0:
            order = np.argsort(given - wanted, kind="stable")
            if left > 0:
                given[order[:left]] += 1
            else:
                able = [p for p in order[::-1] if given[p] > 0]
                given[able[:-left]] -= 1
        self._done += given - iterations * self._parts
        return given

    def take_back(self, given: np.ndarray) -> None:
        """These iterations have not been done."""
        self._done -= given - given.sum() * self._parts


class Step(NamedTuple):
    """How far a round goes, for each problem."""

    thetas: np.ndarray
    betas: np.ndarray  # of the next round


def joint_step(
    numbers: np.ndarray, products: np.ndarray, squares: np.ndarray, lam_n: np.ndarray,
    betas: np.ndarray,
) -> Step:  # fmt: skip
    """beta and theta of each problem.

    Parameters
    ----------
    numbers : ndarray of shape (workers, 7, problems)
        What the workers that took part have reported.
    products, squares : ndarray of shape (problems,)
        <w, sum Delta> and ||sum Delta||^2.
    lam_n, betas : ndarray of shape (problems,)
        lam N, and beta of this round.
    """
    workers, _, problems = numbers.shape
    gains, apart, curved = (numbers[:, line].sum(axis=0) for line in (GAIN, SQUARE, CURVED))
    thetas, following = np.ones(problems), betas.copy()
    for k in range(problems) if workers > 1 else ():  # one worker alone has taken whole steps
        first_order = float(gains[k] - lam_n[k] * products[k])
        if first_order + 0.5 * curved[k] > 0.0:
            quadratic = float(lam_n[k] * squares[k])
            thetas[k] = joint_theta(first_order, quadratic, float(curved[k]), workers)
        else:
            thetas[k] = 0.0  # D would fall
        following[k] = next_joint_beta(float(betas[k]), float(squares[k]), float(apart[k]), workers)
    return Step(thetas, following)
