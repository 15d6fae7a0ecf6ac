"""The one loop: train for a while, make a full pass, certify, record, stop."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from heapq import merge
from math import ceil, inf, isfinite
from typing import TYPE_CHECKING

import numpy as np

from batchsvm.compiled import clock
from batchsvm.core.best_constant import primal_at_zero
from batchsvm.core.certificate import (
    UNPROVEN,
    Certificate,
    allowed_bound,
    assemble,
    assemble_some,
    certify_point,
    certify_zero,
)
from batchsvm.core.change_over import ChangeOver, Trial
from batchsvm.core.options import FitOptions
from batchsvm.core.parallel import StopFlag
from batchsvm.core.problem import Problem
from batchsvm.core.saving import Note, Resumable, Resumed, Saver
from batchsvm.core.solution import Checkpoint, History, Status, no_estimates
from batchsvm.core.stops import checkpoints, stops_of
from batchsvm.core.warning import warn_user

if TYPE_CHECKING:
    from batchsvm.engines.protocol import Dataset, Dual, Trainer

# Until a full pass has shown P, the goal is made of P(0).  At the optimum P is 0.05 to 0.7 times
# P(0) on text and covertype, so that estimates have to be below this part of the goal.
FIRST_GOAL_PART = 1 / 3
# Where the gap at the last iterate is up to so many times the goal, the mean of recent iterates, if
# there is one, may be within it (docs/design.md has figures).
NEAR = 2.0
MOST_ITERATIONS = 2**62  # no run gets there; max_epochs times n may be infinite


class DataLostError(OSError):
    """Rows cannot be read any more, such as those of a file that has gone."""


class Loop:
    """The training of K problems by one trainer, and the best certified point of each.

    Attributes
    ----------
    best : list of Certificate or None
        Of the points that the trainer has kept.
    statuses : list of Status or None
        Why each problem stopped; None while it is in training.
    changes_over : bool
        Whether training has ended since another trainer is likely to be faster.
    """

    def __init__(
        self,
        data: Dataset,
        problem: Problem,
        trainer: Trainer,
        rows_per_iteration: int,
        options: FitOptions,
        trial: Trial | None = None,
    ) -> None:
        self.data, self.problem, self.trainer = data, problem, trainer
        self.rows_per_iteration, self.options = rows_per_iteration, options
        self.best: list[Certificate | None] = [None] * problem.k
        self.statuses: list[Status | None] = [None] * problem.k
        self._at_zero = trainer.facts.primal_at_zero.tolist()
        self._has_best_constant = [problem.bias is None] * problem.k
        self._seen = [inf] * problem.k  # the smallest P that a full pass has found
        self._records: list[list[tuple[float, ...]]] = [[] for _ in range(problem.k)]
        self._iterations = [0] * problem.k
        self._seconds = self._certify_seconds = 0.0
        self._before = 0, 0.0  # iterations and epochs of an earlier trainer
        self._estimates: np.ndarray | None = None  # of an earlier trainer
        self._trial, self.changes_over = trial, False
        self._change_over: ChangeOver | None = None
        # Whether an estimate may end training, since nobody reads the certificate.
        self._trusts_estimates = not options.proves and trainer.estimates_are_reliable
        # Whether estimates are to be below a part of the goal, since the goal is made of P(0).
        self._aims_lower = trainer.estimates_are_reliable
        self._saver: Saver | None = None
        if options.saving is not None and isinstance(trainer, Resumable):
            self._saver = Saver(trainer, options.saving, self._note)

    def train(self, warm: bool, stop: StopFlag, resumed: Resumed | None = None) -> None:
        """Train until the bound of each problem is within tol, or for max_epochs; the starting
        point is (0, 0) unless `warm`, or where an earlier training was.  Ctrl-C, the stop flag and
        rows that cannot be read any more end it with the best points so far.

        Certificates are made after the iterations asked for, or when an estimate says that one
        is worth its price.  With a trial, training ends where another trainer is to go on, which
        `changes_over` then says.
        """

        def work() -> None:
            if resumed is None:
                self._begin(warm)
            else:
                self._go_on(resumed)
            if self._trial is not None:
                self._change_over = ChangeOver(self._trial, self._gap())
            self._train(stop)

        self._run(work, stop)

    def go_on_with(self, follow: Callable[[Dual], Trainer], stop: StopFlag) -> None:
        """Go on with the trainer, of all rows in each iteration, that `follow` makes from the best
        dual point of the one problem."""

        def work() -> None:
            W, dual = self.trainer.best()
            trainer = follow(dual)
            trainer.keep_primal(W, np.ones(1, np.bool_))
            estimates, rows = self._estimates_of(self.trainer), trainer.facts.rows
            last = self._records[0][-1]
            before = int(last[0]), last[1]
            # Python raises KeyboardInterrupt in calls and loops, not between assignments.
            self.trainer, self.rows_per_iteration, self._iterations = trainer, rows, [0]
            self._before, self._estimates = before, estimates
            self._trusts_estimates = False  # those of Newton's method
            self._train(stop)

        self.changes_over, self._change_over = False, None
        self._run(work, stop)

    def _run(self, work: Callable[[], None], stop: StopFlag) -> None:
        """Do this, whatever ends it."""
        try:
            work()
            interrupted = stop.is_set
            if self._saver is not None and not interrupted:
                self._saver.save()
        except KeyboardInterrupt:
            if None in self.best:
                raise
            interrupted = True
        except DataLostError as error:
            if None in self.best:
                raise
            warn_user(f"{error}: training ends with the best certified point", RuntimeWarning)
            self.statuses = [status or Status.DATA_LOST for status in self.statuses]
            return
        if interrupted and self._open():
            self._certify_what_is_there(stop)
        if interrupted:
            self.changes_over = False
        if self.changes_over:
            return
        last = Status.INTERRUPTED if interrupted else Status.MAX_EPOCHS
        self.statuses = [status or last for status in self.statuses]

    def history(self, k: int) -> History:
        columns = (np.array(column) for column in zip(*self._records[k], strict=True))
        estimates = self._estimates
        if estimates is None:
            estimates = self._estimates_of(self.trainer)
        return replace(History(*columns), estimates=estimates)

    @staticmethod
    def _estimates_of(trainer: Trainer) -> np.ndarray:
        return getattr(trainer, "estimates", no_estimates)()

    def _open(self) -> list[int]:
        """The problems that are still in training."""
        return [k for k, status in enumerate(self.statuses) if status is None]

    def _begin(self, warm: bool) -> None:
        """Certify the starting point."""
        self._aims_lower = self._aims_lower and not warm
        if not warm and self.problem.has_exact_offsets:
            zero = np.zeros((self.problem.columns(self.data.d), self.problem.k))
            certificates = certify_zero(self.problem, self.trainer.facts, len(zero))
            self._note_certificates(certificates)  # (0, 0) is what a trainer begins with
            self._tell(certificates, zero)
        elif self._trusts_estimates:
            self._take_unproven()
        else:
            self._full_pass(self._open(), may_certify=[])

    def _go_on(self, resumed: Resumed) -> None:
        """Take over what an earlier training has noted; its best points are certified anew."""
        note = resumed.note
        self._seconds, self._certify_seconds = note.seconds, note.certify_seconds
        self._records = [
            [(int(line[0]), *line[1:-1], int(line[-1])) for line in lines.tolist()]
            for lines in note.records
        ]
        self._iterations = [int(lines[-1][0]) for lines in self._records]
        found = assemble(self.problem, resumed.sums, resumed.combination)
        self.best = list(found)
        self.statuses = [self._why_stop(k, own, False) for k, own in enumerate(found)]

    def _note(self) -> Note:
        return Note(list(map(np.array, self._records)), self._seconds, self._certify_seconds)

    def _train(self, stop: StopFlag) -> None:
        trainer, options = self.trainer, self.options
        b, n = self.rows_per_iteration, trainer.facts.rows
        iterations = ceil(min((options.max_epochs - self._before[1]) * n / b, MOST_ITERATIONS))
        ours = checkpoints(iterations, n / b, options.averaging == "tail")
        if self._change_over is not None:
            checks = self._change_over.trial.iterations(n / b)
            ours = merge(ours, [at for at in checks if at < iterations])
        asked = None if options.checkpoints is None else iter(options.checkpoints)
        hopes = [1.0] * self.problem.k  # how much below its goal an estimate has to be
        for until, is_ours in stops_of(asked, ours, iterations):
            # The estimate is of the last iterate: it says nothing about an average.
            aims = is_ours and options.averaging is None
            while running := [k for k in self._open() if self._iterations[k] < until]:
                targets = np.full(self.problem.k, np.nan)
                targets[running] = [hopes[k] * self._aim(k) for k in running] if aims else -inf
                began = clock()
                progress = trainer.run(until, targets, stop)
                self._seconds += clock() - began
                self._iterations = progress.iterations.tolist()
                if stop.is_set:
                    return
                at_stop = [k for k in running if self._iterations[k] >= until]
                estimates = progress.estimates.tolist()
                if self._trusts_estimates and estimates[0] <= targets[0]:
                    self._take_unproven()
                    self.statuses[0] = Status.CONVERGED
                    return
                self._full_pass(at_stop, may_certify=running if is_ours else [])
                for k in running if is_ours else ():
                    if estimates[k] <= hopes[k] * self._goal(k):  # too hopeful
                        hopes[k] /= 2
            if not self._open() or self._is_slow():
                return
            trainer.restart_average()

    def _is_slow(self) -> bool:
        """Whether another trainer is to go on, which `changes_over` then says."""
        if self._change_over is not None:
            epoch = self._records[0][-1][1]
            self.changes_over = self._change_over.is_due(epoch, self._gap(), self._goal(0))
        return self.changes_over

    def _gap(self) -> float:
        """That of the best points of the one problem."""
        [best] = self.best
        assert best is not None
        return best.gap

    def _full_pass(self, certifies: list[int], may_certify: list[int]) -> None:
        """Make a full pass, and certify the points for which that is asked, or for which it may
        be done and ends the run."""
        began = clock()
        trainer, problem = self.trainer, self.problem
        W = trainer.point()
        sums = trainer.sums(W, screen=True)
        gaps = sums.gaps(problem.lam)
        primals = sums.primals(problem.lam)
        self._seen = [min(pair) for pair in zip(self._seen, primals, strict=True)]
        self._aims_lower = False
        # A certificate that costs nothing is made whatever it says.
        free = trainer.knows_point
        within = [k for k in may_certify if free or gaps[k] <= self._goal(k)]
        near = [k for k in may_certify if gaps[k] <= NEAR * self._goal(k)]
        looks = np.isin(range(problem.k), sorted({*certifies, *near} - {*within}))
        recent = trainer.recent_mean() if looks.any() else None
        if recent is not None:
            at_recent = trainer.sums(recent)
            better = looks & np.less(at_recent.primals(problem.lam), primals)
            W = np.where(better, recent, W)
            sums = sums._replace(
                values=np.where(better, at_recent.values, sums.values),
                norms=np.where(better, at_recent.norms, sums.norms),
            )
            lower = sums.primals(problem.lam)
            within += [
                k for k in near
                if better[k] and gaps[k] - (primals[k] - lower[k]) <= self._goal(k)
            ]  # fmt: skip
        which = sorted({*certifies, *within})
        if not which:
            self._seconds += clock() - began
            return
        certificates = assemble_some(problem, sums, trainer.combination(), which)
        self._certify_seconds += clock() - began
        self._record(certificates, W)

    def _record(self, certificates: dict[int, Certificate], W: np.ndarray) -> None:
        """Keep certified points, and stop those problems for which there is a reason."""
        self._keep(certificates, W)
        self._tell(certificates, W)

    def _tell(self, certificates: dict[int, Certificate], W: np.ndarray) -> None:
        """Call the callback with certified points, and stop the problems for which there is a
        reason."""
        callback = self.options.callback
        iterates = None if callback is None else self.trainer.iterate()
        for k, certificate in certificates.items():
            asked = False
            if callback is not None and iterates is not None:
                iteration, epoch, seconds = self._records[k][-1][:3]
                seen = _read_only(W[:, k]), _read_only(iterates[:, k])
                place = int(iteration), epoch, seconds
                asked = callback(k, Checkpoint(*place, certificate, *seen))
            self.statuses[k] = self._why_stop(k, certificate, asked)

    def _goal(self, k: int) -> float:
        """The bound at which problem k is solved, by the smallest P so far."""
        if self.options.goal is not None:
            return self.options.goal(self._seen[k])
        tol, best = self.options.tol, self.best[k]
        primal = self._seen[k] if best is None else min(self._seen[k], best.primal)
        if primal < tol * self._at_zero[k] and not self._has_best_constant[k]:
            found = primal_at_zero(self.data, self.problem.only(k), has_intercept=True)
            self._at_zero[k] = min(self._at_zero[k], found)
            self._has_best_constant[k] = True
        return allowed_bound(tol, primal, self._at_zero[k])

    def _aim(self, k: int) -> float:
        """The estimate of the gap at which a full pass is worth while."""
        return self._goal(k) * (FIRST_GOAL_PART if self._aims_lower else 1.0)

    def _why_stop(self, k: int, certificate: Certificate, asked: bool) -> Status | None:
        best = self.best[k]
        assert best is not None
        if best.bound <= self._goal(k) or best.primal == 0.0:  # no loss is negative
            return Status.CONVERGED
        if not isfinite(certificate.gap):
            return Status.DIVERGED
        if best.gap <= best.rounding:
            return Status.PRECISION
        return Status.STOPPED if asked else None

    def _keep(self, certificates: dict[int, Certificate], W: np.ndarray) -> None:
        """Note certified points, and keep the w and the alpha of each where it is the best one: a
        trainer of many problems is called once for all of them."""
        better_w, better_alpha = np.zeros((2, self.problem.k), np.bool_)
        for k, certificate in certificates.items():
            before = self.best[k]
            better_w[k] = before is None or certificate.has_better_w(before)
            better_alpha[k] = before is None or certificate.has_better_alpha(before)
        if better_w.any():
            self.trainer.keep_primal(W, better_w)
        if better_alpha.any():
            self.trainer.keep_dual(better_alpha)
        self._note_certificates(certificates)

    def _take_unproven(self) -> None:
        """Keep the point of the one problem, whatever came before, without a certificate."""
        one = np.ones(1, np.bool_)
        self.trainer.keep_primal(self.trainer.point(), one)
        self.trainer.keep_dual(one)
        self.best = [UNPROVEN]
        self._note_certificates({0: UNPROVEN})

    def _note_certificates(self, certificates: dict[int, Certificate]) -> None:
        beta, refused = self.trainer.beta.tolist(), self.trainer.refused.tolist()
        for k, certificate in certificates.items():
            before, done = self.best[k], self._iterations[k]
            epochs = done * self.rows_per_iteration / self.trainer.facts.rows
            best = certificate if before is None else before.joined(certificate)
            self.best[k] = best
            self._records[k].append(
                (
                    self._before[0] + done, self._before[1] + epochs, self._seconds,
                    self._certify_seconds, certificate.primal, certificate.dual, best.gap, beta[k],
                    refused[k],
                )
            )  # fmt: skip

    def _certify_what_is_there(self, stop: StopFlag) -> None:
        """After Ctrl-C, the better of where training stands and of the best point so far; as it
        may have come while that was being copied, both are certified anew."""
        trainer, problem, running = self.trainer, self.problem, self._open()
        here = trainer.point().copy()
        best = certify_point(self.data, problem, *trainer.best())
        for k in running:
            self.best[k] = best[k]
        if not (trainer.survives_exceptions or stop.is_set):
            return
        certificates = assemble_some(problem, trainer.sums(here), trainer.combination(), running)
        better = {k: c for k, c in certificates.items() if best[k].joined(c) != best[k]}
        self._keep(better, here)


def _read_only(array: np.ndarray) -> np.ndarray:
    view = array.view()
    view.flags.writeable = False
    return view
