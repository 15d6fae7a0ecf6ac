"""Blocks: after an iteration alpha and w are a part theta of the way to what the blocks did, all
rows the same part, and D does not fall."""

from __future__ import annotations

from math import inf

import numpy as np
import pytest

import oracle
from batchsvm.core.layout import Schedule
from batchsvm.core.parallel import StopFlag
from batchsvm.core.problem import make_problem
from batchsvm.engines import place_on
from batchsvm.losses import LOSSES
from batchsvm.methods import Blocks
from helpers import HOST_ENGINES, toy

LAM, BLOCKS, BATCH = 0.01, 3, 12
WHERE = [(name, jobs) for name in HOST_ENGINES for jobs in ((1, 2) if name == "cpu" else (1,))]


def alike(loss_name, n=36):
    """Rows much alike, so that blocks repeat each other's steps."""
    rng = np.random.default_rng(4)
    X = 1.0 + 0.3 * rng.normal(size=(n, 3))
    y = 2.0 + X @ [0.5, -1.0, 1.0] + rng.normal(size=n)
    weight = rng.integers(1, 4, size=n) / 2
    if LOSSES[loss_name].task == "classification":
        return X, np.where(rng.random(n) < 0.7, 1.0, -1.0), weight
    return X, y, weight


class Run:
    """A trainer of blocks that is moved iteration by iteration."""

    def __init__(self, data, X, y, loss_name, weight=None, skips=True):
        self.X, self.y, self.name, self.loss = X, y, loss_name, LOSSES[loss_name]()
        self.c = np.ones(len(y)) if weight is None else weight
        self.trainer = data.trainer(make_problem(data.targets(y, weight), self.loss, LAM))
        schedule = Schedule(Blocks(blocks=BLOCKS, skips=skips), BATCH, workers=data.jobs, seed=1)
        self.trainer.start(schedule)
        self.count = 0

    @property
    def host(self):
        return self.trainer.trainers[0] if hasattr(self.trainer, "trainers") else self.trainer

    def point(self):
        """w and alpha now."""
        which = np.ones(1, np.bool_)
        self.trainer.keep_dual(which)
        return self.trainer.point()[:, 0].copy(), self.trainer.best()[1].fetch()[:, 0].copy()

    def dual(self, alpha):
        return oracle.dual(self.X, self.y, alpha, self.name, LAM, self.c)

    def step(self):
        self.count += 1
        self.trainer.run(self.count, np.array([-inf]), StopFlag())

    def rows_of_last_step(self):
        """The rows that each block visited in the iteration just made, all rows being visited."""
        visits, share = self.host.visits, BATCH // BLOCKS
        assert (share, BLOCKS, len(self.y)) == (4, 3, 36)
        assert np.all(visits.active[:, 0] == 12)
        # Each block has a third of the order of each segment, four rows, and takes four rows of
        # all its thirds at a time: (1, 1, 2), (1, 2, 1) and (2, 1, 1) of the parts 0, 1 and 2.
        starts = [[0, 0, 0], [1, 1, 2], [2, 3, 3], [4, 4, 4]]
        begin, end = starts[(self.count - 1) % 3], starts[(self.count - 1) % 3 + 1]
        places = [
            [
                12 * s + 4 * p + k
                for s in range(3)
                for p in [(j + s) % 3]
                for k in range(begin[p], end[p])
            ]
            for j in range(3)
        ]
        return [visits.order[own] for own in places]

    def apart(self, w, alpha, rows):
        """Serial steps on these rows from w: w and alpha after them, and what they gain to first
        order, N times."""
        begin, w, alpha = w, w.copy(), alpha.copy()
        unit, gain = 1 / (LAM * self.c.sum()), 0.0
        classifies = self.loss.task == "classification"
        for i in rows:
            x, c = self.X[i], self.c[i]
            sign, offset = (self.y[i], 0.0) if classifies else (1.0, self.y[i])
            old = alpha[i] / c
            new = float(self.loss.dual_step(old, sign * (x @ w) - offset, x @ x * c * unit))
            gain += c * (self.loss.conjugate(old) - self.loss.conjugate(new))
            gain -= c * (new - old) * (sign * (x @ begin) - offset)
            alpha[i] = new * c
            w += unit * sign * c * (new - old) * x
        return w, alpha, gain


@pytest.mark.parametrize(("engine", "jobs"), WHERE)
@pytest.mark.parametrize("loss_name", ["hinge", "squared_hinge", "huber"])
def test_a_step_goes_the_same_part_of_the_way_for_all_rows(engine, jobs, loss_name):
    X, y, weight = alike(loss_name)
    shortened, N = 0, weight.sum()
    with place_on(engine, X, jobs) as data:
        run = Run(data, X, y, loss_name, weight, skips=False)
        for _ in range(9):
            w, alpha = run.point()
            refused = int(run.trainer.refused[0])
            run.step()
            merged_alpha, total, gain = alpha.copy(), np.zeros_like(w), 0.0
            for rows in run.rows_of_last_step():
                own_w, own_alpha, own_gain = run.apart(w, alpha, rows)
                merged_alpha[rows] = own_alpha[rows]
                total += own_w - w
                gain += own_gain
            quadratic = LAM * N * total @ total
            theta = min(1.0, gain / quadratic)
            assert theta > 0.5 / BLOCKS
            found_w, found_alpha = run.point()
            np.testing.assert_allclose(found_w, w + theta * total, rtol=1e-10, atol=1e-12)
            expected = (1 - theta) * alpha + theta * merged_alpha
            np.testing.assert_allclose(found_alpha, expected, rtol=1e-10, atol=1e-12)
            assert run.trainer.beta[0] == pytest.approx(1 / theta, rel=1e-10)
            assert run.trainer.refused[0] - refused == (theta < 1)
            shortened += theta < 1
            rise = N * (run.dual(found_alpha) - run.dual(alpha))
            assert rise >= theta * gain - theta**2 / 2 * quadratic - 1e-9
    assert shortened > 3


@pytest.mark.parametrize(("engine", "jobs"), WHERE)
def test_theta_is_the_best_one_for_the_hinge(engine, jobs):
    """Its conjugate is linear, so that the bound is D itself along the step."""
    X, y, _ = alike("hinge")
    with place_on(engine, X, jobs) as data:
        run, thetas = Run(data, X, y, "hinge"), []
        grid = np.linspace(0.0, 1.0, 1001)
        for _ in range(6):
            _, alpha = run.point()
            run.step()
            _, after = run.point()
            thetas.append(1 / run.trainer.beta[0])
            direction = (after - alpha) / thetas[-1]
            values = [run.dual(alpha + t * direction) for t in grid]
            assert grid[np.argmax(values)] == pytest.approx(thetas[-1], abs=2e-3)
        assert min(thetas) < 1


@pytest.mark.parametrize(("engine", "jobs"), WHERE)
@pytest.mark.parametrize("loss_name", ["hinge", "smoothed_hinge", "epsilon_insensitive"])
def test_the_dual_never_falls(engine, jobs, loss_name):
    X, y, weight = alike(loss_name)
    with place_on(engine, X, jobs) as data:
        run = Run(data, X, y, loss_name, weight)
        values = [run.dual(run.point()[1])]
        for _ in range(60):
            run.step()
            w, alpha = run.point()
            values.append(run.dual(alpha))
            expected = oracle.w_of_alpha(X, y, alpha, loss_name, LAM, weight)
            np.testing.assert_allclose(w, expected, rtol=1e-9, atol=1e-12)
        assert run.trainer.refused[0] > 0
    assert np.min(np.diff(values)) >= -1e-13
    assert values[-1] > values[0]


@pytest.mark.parametrize(("engine", "jobs"), WHERE)
def test_blocks_that_have_nothing_in_common_are_added_up_whole(engine, jobs):
    y = toy("hinge")[1][:36]
    with place_on(engine, np.eye(36), jobs) as data:
        run = Run(data, np.eye(36), y, "hinge")
        run.step()
        assert run.trainer.beta[0] == 1.0
        assert run.trainer.refused[0] == 0
        _, alpha = run.point()
        rows = np.concatenate(run.rows_of_last_step())
        full = min(1.0, LAM * 36)  # the serial step: 1/q, or the end of the box
        np.testing.assert_allclose(alpha[rows], full)
        assert np.count_nonzero(alpha) == rows.size == BATCH
