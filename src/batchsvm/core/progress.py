"""One progress bar for all problems of a call, whose measure is the gap."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from math import isfinite, log
from threading import Lock
from typing import Any

from batchsvm.core.certificate import Certificate
from batchsvm.core.options import FitOptions
from batchsvm.core.solution import Checkpoint

SMALLEST = 1e-16


class GapMeter:
    """How far problems have come, from their first gap down to tol.

    Between the two it moves with the logarithm of the gap, which a linearly convergent method
    lowers at a constant rate.
    """

    def __init__(self, names: list[str], tol: float) -> None:
        self.names, self.tol = names, max(tol, SMALLEST)
        self.first: dict[int, float] = {}
        self.best: dict[int, Certificate] = {}
        self.gaps = [1.0] * len(names)
        self.shares = [0.0] * len(names)
        self.epoch = 0.0
        self._lock = Lock()  # problems may be trained by several threads

    def see(self, k: int, seen: Checkpoint) -> None:
        """Problem k has been certified."""
        with self._lock:
            before = self.best.get(k, seen.certificate)
            self.best[k] = before.joined(seen.certificate)
            gap = self.best[k].relative_gap
            self.gaps[k], self.epoch = gap, max(self.epoch, seen.epoch)
            self.shares[k] = max(self.shares[k], self._share_of(k, gap))

    def _share_of(self, k: int, gap: float) -> float:
        gap = max(gap, SMALLEST)
        if not isfinite(gap):
            return 0.0
        first = self.first.setdefault(k, gap)
        if gap <= self.tol:
            return 1.0
        return min(max(log(first / gap) / log(first / self.tol), 0.0), 1.0)

    @property
    def share(self) -> float:
        """How much of the way is done, in the mean over all problems."""
        return sum(self.shares) / len(self.shares)

    @property
    def words(self) -> str:
        worst = max(range(len(self.gaps)), key=self.gaps.__getitem__)
        text = f"gap {self.gaps[worst]:.2g}, tol {self.tol:.2g}, epoch {self.epoch:.3g}"
        if len(self.gaps) == 1:
            return text
        done = sum(share == 1.0 for share in self.shares)
        return f"{done} of {len(self.gaps)} done, {self.names[worst]}: {text}"


@contextmanager
def gap_bar(names: list[str], tol: float) -> Iterator[Callable[[int, Checkpoint], None]]:
    """A bar on the terminal while the block runs; call the result at each certificate."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    meter = GapMeter(names, tol)
    columns = (
        TextColumn("{task.description}", markup=False), BarColumn(bar_width=30),
        TextColumn("{task.fields[words]}", markup=False), TimeElapsedColumn(),
    )  # fmt: skip
    with Progress(*columns, console=Console(stderr=True)) as bars:
        task = bars.add_task("training", total=1.0, words=meter.words)

        def see(k: int, seen: Checkpoint) -> None:
            meter.see(k, seen)
            bars.update(task, completed=meter.share, words=meter.words)

        yield see


@contextmanager
def packing_bar(name: str) -> Iterator[Callable[[int, int], None]]:
    """A bar on the terminal while a source is read for the first time; call the result with the
    rows and the bytes so far.  Nobody knows how many there will be."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("{task.description}", markup=False), BarColumn(bar_width=30),
        TextColumn("{task.fields[words]}", markup=False), TimeElapsedColumn(),
    )  # fmt: skip
    with Progress(*columns, console=Console(stderr=True)) as bars:
        task = bars.add_task(f"reading {name}", total=None, words="")

        def see(rows: int, size: int) -> None:
            bars.update(task, words=f"{rows:,} rows, {size / 1e6:,.0f} MB")

        yield see


@contextmanager
def with_progress(
    names: list[str], options: FitOptions, callback: Any, shows_bar: bool
) -> Iterator[FitOptions]:
    """The options with this callback, and with a bar if one is asked for."""
    if not shows_bar:
        yield replace(options, callback=callback)
        return
    with gap_bar(names, options.tol) as show:

        def see(k: int, seen: Checkpoint) -> Any:
            show(k, seen)
            return callback(k, seen) if callback is not None else False

        yield replace(options, callback=see)
