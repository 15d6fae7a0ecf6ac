"""The one loop: run a chunk of iterations, look at all rows, certify, record, stop."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import inf
from time import perf_counter
from typing import Any, Protocol

import numpy as np

from batchsvm.certificate import (
    Certificate,
    certify_nothing,
    certify_point,
    certify_zero,
    look_at,
)
from batchsvm.methods import PegasosState, State
from batchsvm.problem import Problem
from batchsvm.solution import Checkpoint, History, Status


class Engine(Protocol):
    """Who runs the iterations."""

    def run(self, stop: int, target: float) -> float: ...

    def look(self, start: int, responses: np.ndarray) -> None: ...

    def looked(self, gap: float) -> None: ...


Callback = Callable[[Checkpoint], Any]

# A certificate costs up to one epoch: one in twenty takes little of the run.
EPOCHS_A_CERTIFICATE = 20.0
GROWTH = 1.3


def checkpoints(iterations: int, per_epoch: float, tail: bool) -> Iterator[int]:
    """The iterations after which to certify, the last one being `iterations`.

    Distances grow geometrically.  A tail average is certified at T, T/2, T/4, ... and
    restarted at each, so that it always covers the second half of the run, as in
    Algorithm 1.

    >>> list(checkpoints(5000, per_epoch=100, tail=False))
    [2000, 4000, 5000]
    >>> list(checkpoints(5000, per_epoch=100, tail=True))
    [2500, 5000]
    """
    if tail:
        halves = [iterations, iterations // 2] if iterations > 1 else [iterations]
        while halves[-1] // 2 >= EPOCHS_A_CERTIFICATE * per_epoch:
            halves.append(halves[-1] // 2)
        yield from reversed(halves)
        return
    at, count = 0.0, 0
    while at < iterations:
        count += 1
        at = max(GROWTH * at, EPOCHS_A_CERTIFICATE * count * per_epoch)
        yield min(max(int(at), count), iterations)


def _stops(
    asked: Iterator[int] | None, ours: Iterator[int], iterations: int
) -> Iterator[tuple[int, bool]]:
    """The iterations asked for, then ours from there on; whether one is ours."""
    last = 0
    for stop in asked or ():
        if stop >= iterations:
            break
        last = stop
        yield stop, False
    yield from ((stop, True) for stop in ours if stop > last)


@dataclass
class Run:
    """A run of one method on one problem, and the best certified point so far."""

    problem: Problem
    state: State
    engine: Engine
    tol: float
    callback: Callback | None = None

    def __post_init__(self) -> None:
        self.status = Status.MAX_EPOCHS
        self.best: Certificate | None = None
        self.w, self.alpha = np.zeros(self.problem.d), np.zeros(self.problem.n)
        self._records: list[tuple[float, ...]] = []
        self._seconds = self._certify_seconds = 0.0
        self._first = self.state.iteration

    def train(self, iterations: int, warm: bool, asked: Iterator[int] | None = None) -> Certificate:
        """Train until the relative gap is at most tol, or for so many iterations.

        Returns the certificate of (self.w, self.alpha), the best certified point; the
        starting point is (0, 0) unless `warm`.  Certificates are made after the
        iterations `asked` for, or when an estimate says that one is worth its price.
        """
        try:
            self.status = self._loop(iterations, warm, asked) or Status.MAX_EPOCHS
        except KeyboardInterrupt:
            if self.best is None:
                raise
            self.status = Status.INTERRUPTED
            self._certify_what_is_there()
        assert self.best is not None
        return self.best

    def history(self) -> History:
        return History(*(np.array(column) for column in zip(*self._records, strict=True)))

    def _loop(self, iterations: int, warm: bool, asked: Iterator[int] | None) -> Status | None:
        state, averaging = self.state, self.state.averaging
        zero = certify_zero(self.problem)
        self._compile()
        status = self._look() if warm else self._record(zero, self.w)
        tail = averaging.on and averaging.is_tail
        ours = checkpoints(iterations, self.problem.n / state.batch_size, tail)
        goal = self.tol * self.problem.primal_at_zero
        for stop, is_ours in _stops(asked, ours, iterations):
            while status is None and state.iteration < self._first + stop:
                # The estimate is of the last iterate: it says nothing about an average.
                target = goal if is_ours and not averaging.on else -inf
                began = perf_counter()
                estimate = self.engine.run(self._first + stop, target)
                self._seconds += perf_counter() - began
                at_stop = state.iteration >= self._first + stop
                status = self._look(certifies=at_stop, may_certify=is_ours)
                if is_ours and estimate <= goal:  # it was too hopeful
                    goal /= 2
            if status is not None:
                return status
            averaging.restart()
        return status

    def _compile(self) -> None:
        """Have the kernels compiled before the clock runs: do nothing with each of them."""
        state = self.state
        self.engine.run(state.iteration, -inf)
        certify_nothing(self.problem, self.w, state.alpha_of, self.engine.look)

    def _look(self, certifies: bool = True, may_certify: bool = True) -> Status | None:
        """Look at all rows, and certify the point where that is asked for, or where it may be
        done and ends the run.  Returns why to stop here, or None to go on."""
        began = perf_counter()
        w, alpha_of = self.state.primal_point(), self.state.alpha_of
        look = look_at(self.problem, w, alpha_of, self.engine.look)
        self.engine.looked(look.gap)
        within = may_certify and look.gap <= self.tol * self.problem.primal_at_zero
        if not (certifies or within):
            self._seconds += perf_counter() - began
            return None
        recent = self.state.averaging.recent
        if recent is not None:
            other = look_at(self.problem, recent, alpha_of)
            look = other if other.primal < look.primal else look
        certificate = look.certify()
        self._certify_seconds += perf_counter() - began
        return self._record(certificate, look.w)

    def _certify_what_is_there(self) -> None:
        """After Ctrl-C, the better of where training stands and of the best point so far; as it
        may have come while that was being copied, both are certified anew.

        It is heard when a kernel returns, before its iterations are counted.  The w and alpha of
        a dual method belong together all the same; those of Pegasos need the count.
        """
        alpha, here = self.alpha, self.state.primal_point()
        self.best = certify_point(self.problem, self.w, lambda i, j: alpha[i:j])
        if isinstance(self.state, PegasosState):
            return
        certificate = certify_point(self.problem, here, self.state.alpha_of)
        if certificate.gap < self.best.gap:
            self._keep(certificate, here)

    def _keep_alpha(self, start: int, stop: int) -> None:
        self.alpha[start:stop] = self.state.alpha_of(start, stop)

    def _keep(self, certificate: Certificate, w: np.ndarray) -> None:
        """Note a certified point, and keep it if it is the best one."""
        state = self.state
        iteration = state.iteration - self._first
        self._records.append(
            (
                iteration, iteration * state.batch_size / self.problem.n, self._seconds,
                self._certify_seconds, certificate.primal, certificate.dual, certificate.gap,
                state.beta, state.refused,
            )
        )  # fmt: skip
        if self.best is None or certificate.gap < self.best.gap:
            self.w[:] = w
            self.problem.matrix.over_blocks(self._keep_alpha)
            self.best = certificate

    def _record(self, certificate: Certificate, w: np.ndarray) -> Status | None:
        """Note a certified point.  Returns why to stop here, or None to go on."""
        self._keep(certificate, w)
        state, asked = self.state, False
        if self.callback is not None:
            iteration, epoch, seconds = self._records[-1][:3]
            seen = _read_only(w), _read_only(state.iterate)
            asked = self.callback(Checkpoint(int(iteration), epoch, seconds, certificate, *seen))
        if certificate.gap + certificate.rounding <= self.tol * self.problem.primal_at_zero:
            return Status.CONVERGED
        if not np.isfinite(certificate.gap):
            return Status.DIVERGED
        if certificate.gap <= certificate.rounding:
            return Status.PRECISION
        return Status.STOPPED if asked else None


def _read_only(array: np.ndarray) -> np.ndarray:
    view = array.view()
    view.flags.writeable = False
    return view
