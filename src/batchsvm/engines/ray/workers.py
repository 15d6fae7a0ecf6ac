"""The workers as the driver sees them: calls that never wait for ever, and workers replaced.

A worker that has died, or has not answered for `timeout` seconds, is replaced by a new one, which
takes the part of the old one from its origin.  Its `generation` is one more then: what the old one
knew of trainings is gone.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Sequence
from threading import RLock
from time import monotonic
from typing import Any, NamedTuple

from batchsvm.core.parallel import StopFlag
from batchsvm.engines.ray.actors import PULSE, WORK, Actors
from batchsvm.engines.ray.errors import UnknownTrainingError, WorkerLost, WorkersLostError
from batchsvm.engines.ray.library import load_ray
from batchsvm.engines.ray.worker import PartFacts, Placing, Shape, Where
from batchsvm.files.errors import DataFileError

MAX_REPLACEMENTS = 4  # of one worker within a minute
START_SECONDS = 60.0  # a worker has to start within these, or within `timeout` if that is more
LOOK_SECONDS = 0.2  # between two looks at the stop flag
PULSE_SECONDS = 2.0  # between two questions whether a worker is alive
# Errors of Ray that another worker does not meet again.
LOST = (
    "RayActorError", "WorkerCrashedError", "ObjectLostError", "GetTimeoutError", "NodeDiedError",
    "LocalRayletDiedError",
)  # fmt: skip
# Ray keeps smaller results with the driver, so that a sum over the workers would bring them back.
MIN_TREE_BYTES = 100_000


class Call(NamedTuple):
    """A call that is under way."""

    worker: int
    generation: int
    results: Any  # references, or one


class Member(NamedTuple):
    """A worker."""

    actor: Any
    where: Where | None
    generation: int


class Workers:
    """The workers of one placed data set, shared by its views."""

    def __init__(self, actors: Actors, timeout: float) -> None:
        self._actors, self.timeout = actors, timeout
        self._lock = RLock()
        self._members: list[Member] = []
        self._origins: list[Any] = []
        self._placing: Placing | None = None
        self._replaced: dict[int, list[float]] = {}
        self._keys = itertools.count()
        self.min_tree_bytes = MIN_TREE_BYTES

    def __len__(self) -> int:
        return len(self._members)

    def new_key(self) -> int:
        """A number for a training or for some of the rows."""
        return next(self._keys)

    def generation(self, p: int) -> int:
        return self._members[p].generation

    @property
    def actors(self) -> list[Any]:
        return [member.actor for member in self._members]

    @property
    def places(self) -> list[Where | None]:
        return [member.where for member in self._members]

    # Starting and ending.

    def start(self, count: int) -> None:
        actors = [self._actors.start() for _ in range(count)]
        self._members = [Member(actor, None, 0) for actor in actors]
        ray = load_ray()
        asked = [actor.where.remote() for actor in actors]
        seconds = max(self.timeout, START_SECONDS)
        ready, _ = ray.wait(asked, num_returns=count, timeout=seconds)
        if len(ready) < count:
            raise ValueError(
                f"workers must be at most as many as the cluster has room for, not {count}:"
                f" {len(ready)} have started within {seconds:g} s"
            )
        self._members = [
            Member(actor, ray.get(where, timeout=self.timeout), 0)
            for actor, where in zip(actors, asked, strict=True)
        ]

    def read(self, origins: Sequence[Any]) -> list[Shape]:
        self._origins = list(origins)
        return self.gather([self.call(p, "read", origin) for p, origin in enumerate(origins)])

    def place(self, placing: Placing) -> list[PartFacts]:
        self._placing = placing
        return self.gather([self.call(p, "place", placing) for p in range(len(self))])

    def dismiss(self, which: Sequence[int]) -> None:
        """End workers that have nothing to do."""
        for p in sorted(which, reverse=True):
            self._actors.stop(self._members.pop(p).actor)
            del self._origins[p]

    def close(self) -> None:
        members, self._members, self._origins = self._members, [], []
        for member in members:
            self._actors.stop(member.actor)

    # Calls.

    def call(self, p: int, method: str, *arguments: Any, results: int = 1) -> Call:
        """Call a worker; the results stay where they are until somebody asks for them."""
        member = self._members[p]
        thread = PULSE if method in ("pulse", "halt") else WORK
        handle = getattr(member.actor, method).options(
            concurrency_group=thread, num_returns=results
        )
        return Call(p, member.generation, handle.remote(*arguments))

    def wait(self, calls: Sequence[Call], stop: StopFlag | None = None, key: int = -1) -> None:
        """Until all calls are answered, or their workers are lost; if the stop flag is set, the
        rounds of a training are told to end."""
        ray = load_ray()
        watch = _Watch(self, calls)
        waiting = [_first(call) for call in calls]
        while waiting:
            _, waiting = ray.wait(
                waiting, num_returns=len(waiting), timeout=LOOK_SECONDS, fetch_local=False
            )
            if waiting:
                busy = [call for call in calls if _first(call) in waiting]
                watch.look(busy)
                if stop is not None and stop.is_set:
                    for call in busy:
                        self.call(call.worker, "halt", key)

    def gather(self, calls: Sequence[Call]) -> list[Any]:
        """What the calls have returned; raises `WorkerLost`, or what a worker has raised."""
        self.wait(calls)
        return [self.result(call, call.results) for call in calls]

    def result(self, call: Call, reference: Any) -> Any:
        """A result of a call that is answered."""
        ray = load_ray()
        try:
            return ray.get(reference, timeout=self.timeout)
        except ray.exceptions.RayError as error:
            inside = isinstance(error, ray.exceptions.RayTaskError)
            cause = error.cause if inside else error
            kinds = tuple(getattr(ray.exceptions, name) for name in LOST)
            if isinstance(cause, (UnknownTrainingError, *kinds)):
                raise WorkerLost([(call.worker, call.generation)]) from None
            raise cause from None

    def ask(self, asks: Sequence[tuple[int, tuple[Any, ...]]]) -> list[Any]:
        """A call of `ask` for each of some workers, repeated where a worker is lost."""
        found: list[Any] = [None] * len(asks)
        open_ = list(range(len(asks)))
        while open_:
            calls = [self.call(asks[j][0], "ask", *asks[j][1]) for j in open_]
            lost: list[tuple[int, int]] = []
            left = []
            try:
                self.wait(calls)
            except WorkerLost as error:
                lost += error.lost
            for j, call in zip(open_, calls, strict=True):
                if (call.worker, call.generation) in lost:
                    left.append(j)
                    continue
                try:
                    found[j] = self.result(call, call.results)
                except WorkerLost as error:
                    lost += error.lost
                    left.append(j)
            self.replace(lost)
            open_ = left
        return found

    def total(self, calls: Sequence[Call], plus: Callable[[Any, Any], Any], nbytes: int) -> Any:
        """The sum of what the calls return, first or alone, of about so many bytes each: in pairs,
        by the workers themselves, so that the driver gets one of them."""
        if nbytes < self.min_tree_bytes:
            terms = [self.result(call, _first(call)) for call in calls]
            while len(terms) > 1:
                pairs = zip(terms[::2], terms[1::2], strict=False)
                odd = terms[len(terms) // 2 * 2 :]
                terms = [plus(one, other) for one, other in pairs] + odd
            return terms[0]
        calls = list(calls)
        while len(calls) > 1:
            pairs = zip(calls[::2], calls[1::2], strict=False)
            odd = calls[len(calls) // 2 * 2 :]
            sums = [
                self.call(one.worker, "add", plus, _first(one), _first(other))
                for one, other in pairs
            ]
            # Before the next ones are called: a call that waits for its arguments would hold up
            # all calls of that worker after it.
            self.wait(sums)
            calls = sums + odd
        return self.result(calls[0], _first(calls[0]))

    def sum_of(
        self, asks: Sequence[tuple[int, tuple[Any, ...]]], plus: Callable[..., Any], nbytes: int
    ) -> Any:
        """The sum of what `ask` of some workers returns, begun anew where a worker is lost."""
        while True:
            try:
                calls = [self.call(p, "ask", *arguments) for p, arguments in asks]
                self.wait(calls)
                return self.total(calls, plus, nbytes)
            except WorkerLost as error:
                self.replace(error.lost)

    # Replacing.

    def replace(self, lost: Sequence[tuple[int, int]] | Any) -> None:
        """Put new workers in the place of lost ones, unless another thread has done so."""
        for p, generation in sorted(set(lost)):
            with self._lock:
                if self.generation(p) == generation:
                    self._replace(p)

    def _replace(self, p: int) -> None:
        while True:
            self._count(p)
            print(
                f"batchsvm: worker {p + 1} of {len(self)} is lost, and another one takes its part",
                file=sys.stderr,
            )
            old = self._members[p]
            self._actors.end(old.actor, old.where)
            self._members[p] = Member(self._actors.start(), None, old.generation + 1)
            try:
                return self._set_up(p)
            except WorkerLost:
                continue

    def _set_up(self, p: int) -> None:
        ray = load_ray()
        member = self._members[p]
        asked = member.actor.where.remote()
        seconds = max(self.timeout, START_SECONDS)
        ready, _ = ray.wait([asked], timeout=seconds)
        if not ready:
            self._actors.stop(member.actor)
            raise WorkersLostError(
                f"worker {p + 1} of {len(self)} is lost, and the cluster has had no room for"
                f" another one within {seconds:g} s"
            )
        self._members[p] = member._replace(where=self.result(Call(p, 0, asked), asked))
        try:
            self.gather([self.call(p, "read", self._origins[p])])
            self.gather([self.call(p, "place", self._placing)])
        except (OSError, DataFileError) as error:
            raise WorkersLostError(
                f"worker {p + 1} of {len(self)} is lost, and its part cannot be read again"
                f" ({error})"
            ) from None

    def _count(self, p: int) -> None:
        now = monotonic()
        recent = [at for at in self._replaced.get(p, []) if now - at < 60.0]
        if len(recent) >= MAX_REPLACEMENTS:
            raise WorkersLostError(
                f"worker {p + 1} of {len(self)} was lost {len(recent) + 1} times within a minute"
            )
        self._replaced[p] = [*recent, now]


class _Watch:
    """Asks workers that are busy whether they are alive."""

    def __init__(self, workers: Workers, calls: Sequence[Call]) -> None:
        now = monotonic()
        self._workers = workers
        self._heard = {call.worker: now for call in calls}
        self._asked: dict[int, Any] = {}

    def look(self, busy: Sequence[Call]) -> None:
        """Raises `WorkerLost` for those that have not answered for too long."""
        ray, now, lost = load_ray(), monotonic(), []
        for call in busy:
            p = call.worker
            asked = self._asked.get(p)
            if asked is not None and ray.wait([asked], timeout=0)[0]:
                self._heard[p] = now
                del self._asked[p]
            elif asked is None and now - self._heard[p] > PULSE_SECONDS:
                self._asked[p] = self._workers.call(p, "pulse").results
            if now - self._heard[p] > self._workers.timeout:
                lost.append((p, call.generation))
        if lost:
            raise WorkerLost(lost)


def _first(call: Call) -> Any:
    return call.results[0] if isinstance(call.results, list) else call.results
