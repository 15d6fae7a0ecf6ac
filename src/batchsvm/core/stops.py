"""After how many iterations the loop stops to certify."""

from __future__ import annotations

from collections.abc import Iterator

# A certificate costs up to one epoch: one in twenty takes little of the run.
EPOCHS_PER_CERTIFICATE = 20.0
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
        while halves[-1] // 2 >= EPOCHS_PER_CERTIFICATE * per_epoch:
            halves.append(halves[-1] // 2)
        yield from reversed(halves)
        return
    at, count = 0.0, 0
    while at < iterations:
        count += 1
        at = max(GROWTH * at, EPOCHS_PER_CERTIFICATE * count * per_epoch)
        yield min(max(int(at), count), iterations)


def stops_of(
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
