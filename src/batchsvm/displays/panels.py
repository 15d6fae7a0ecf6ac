"""What plots are drawn on: two panels over one axis, their titles and legends."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import numpy as np

PRIMAL, DUAL, GAP, MARK, SHADE = "#0b5394", "#c2571a", "#333333", "#7a7a7a", "#dfe8f2"


def load_pyplot() -> Any:
    try:
        import matplotlib.pyplot as pyplot
    except ImportError:
        raise ModuleNotFoundError("plots need matplotlib: pip install 'batchsvm[plot]'") from None
    return pyplot


@contextlib.contextmanager
def on_paper() -> Iterator[None]:
    """Figures drawn inside go to files, not to a screen, and are closed afterwards."""
    pyplot = load_pyplot()
    before = set(pyplot.get_fignums())
    backend = pyplot.get_backend()
    pyplot.switch_backend("agg")
    try:
        yield
    finally:
        for number in set(pyplot.get_fignums()) - before:
            pyplot.close(number)
        if backend.lower() != "agg":
            pyplot.switch_backend(backend)


def two_panels(axes: Any, height_ratios: tuple[float, float] = (1, 1)) -> tuple[Any, Any]:
    """A figure with two panels over one x axis, or the two axes that were given."""
    if axes is None:
        figure, axes = load_pyplot().subplots(
            2, 1, sharex=True, figsize=(6.4, 5.4), layout="constrained",
            gridspec_kw={"height_ratios": height_ratios},
        )  # fmt: skip
        return figure, axes
    axes = np.ravel(np.asarray(axes, dtype=object))
    if axes.size != 2:
        raise ValueError(f"axes must be two axes, one above the other, not {axes.size}")
    return axes[0].figure, axes


def apart(low: float, high: float) -> tuple[str, str]:
    """Two numbers, with as many digits as tell them apart.

    >>> apart(0.505403, 0.505438)
    ('0.50540', '0.50544')
    """
    for digits in range(4, 12):
        if f"{low:.{digits}g}" != f"{high:.{digits}g}":
            break
    lower, upper = (f"{value:#.{digits}g}".removesuffix(".") for value in (low, high))
    return lower, upper


def legend(axis: Any, columns: int) -> None:
    """A legend above the axis, where no line passes."""
    axis.legend(
        frameon=False, loc="lower left", bbox_to_anchor=(0.0, 0.995), ncols=columns,
        borderaxespad=0.1, fontsize="small", columnspacing=1.4,
    )  # fmt: skip


def put_title(axis: Any, text: str) -> None:
    axis.set_title(text, loc="left", pad=24)
