"""Plots in scikit-learn's manner; matplotlib is imported when a plot is drawn.

    ConvergenceDisplay   primal, dual and gap against epochs or seconds
    SpeedupDisplay       beta_b / b and the speed-up b / beta_b against b
    ScheduleDisplay      beta over the run, and the steps that were refused

Each has `from_...` class methods that compute, `plot` that draws, and afterwards `figure_`
and `axes_`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from batchsvm.api import plan as make_plan
from batchsvm.core.certificate import Certificate
from batchsvm.core.planning import Plan
from batchsvm.core.spectral import beta_b
from batchsvm.displays.panels import (
    DUAL,
    GAP,
    MARK,
    PRIMAL,
    SHADE,
    apart,
    legend,
    put_title,
    two_panels,
)

X_AXES = {"epochs": "epochs", "seconds": "seconds of optimisation"}


def _history_of(estimator: Any, index: int) -> Any:
    history = getattr(estimator, "history_", None)
    if history is None:
        raise ValueError(
            f"estimator must be fitted and have history_, but {type(estimator).__name__} has none"
        )
    if isinstance(history, list | tuple) and not hasattr(history, "primal"):
        if not 0 <= index < len(history):
            raise ValueError(f"index must be from 0 to {len(history) - 1}, not {index!r}")
        return history[index]
    return history


def _certificate_of(estimator: Any, index: int) -> Any:
    """The certificate of the class of that index, or None if the estimator has none."""
    found = getattr(estimator, "certificate_", None)
    return found[index] if isinstance(found, tuple) else found


class ConvergenceDisplay:
    """Primal and dual value, and the gap between them, along a fit.

    Parameters
    ----------
    epochs, seconds, primal, dual, gap : arrays, one entry a certificate
    estimates : array of shape (m, 2), optional
        Epochs, and the gap that each showed without a proof; drawn hollow.
    certificate : Certificate, optional
        Of the model that the fit returned: what the title says.
    tol : float, optional
        The bound that the fit was to reach, as an absolute number: tol times the best primal.
    rounding : float, optional
        The rounding error of the gap, at which smaller gaps are drawn; that of a single
        operation if missing.
    title : str

    Attributes
    ----------
    figure_, axes_, lines_
        What `plot` drew; the lines are those of primal, dual and gap.
    estimated_ : line or None
        The hollow points.

    Examples
    --------
    >>> import batchsvm, numpy as np
    >>> from batchsvm.displays import ConvergenceDisplay
    >>> X, y = np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.5]]), [1, 1, -1]
    >>> solution = batchsvm.fit(X, y, lam=0.1, random_state=0)
    >>> display = ConvergenceDisplay.from_solution(solution)
    >>> display.axes_[1].get_ylabel()
    'gap'
    """

    def __init__(
        self,
        *,
        epochs: Any,
        seconds: Any,
        primal: Any,
        dual: Any,
        gap: Any,
        estimates: Any = None,
        certificate: Certificate | None = None,
        tol: float | None = None,
        rounding: float | None = None,
        title: str = "",
    ) -> None:
        self.epochs, self.seconds = np.asarray(epochs), np.asarray(seconds)
        self.estimates = np.zeros((0, 2)) if estimates is None else np.asarray(estimates)
        self.certificate = certificate
        self.primal, self.dual, self.gap = np.asarray(primal), np.asarray(dual), np.asarray(gap)
        self.tol, self.rounding, self.title = tol, rounding, title

    @classmethod
    def from_history(
        cls, history: Any, *, tol: float | None = None, certificate: Certificate | None = None,
        rounding: float | None = None, title: str = "", **plot: Any,
    ) -> ConvergenceDisplay:  # fmt: skip
        """From a `History`, or anything with its fields."""
        if rounding is None and certificate is not None:
            rounding = certificate.rounding
        return cls(
            epochs=history.epoch, seconds=history.seconds, primal=history.primal,
            dual=history.dual, gap=history.gap, estimates=getattr(history, "estimates", None),
            certificate=certificate, tol=tol, rounding=rounding, title=title,
        ).plot(**plot)  # fmt: skip

    @classmethod
    def from_solution(cls, solution: Any, **plot: Any) -> ConvergenceDisplay:
        """From what `batchsvm.fit` returns."""
        certificate, history = solution.certificate, solution.history
        tol = solution.plan.tol * certificate.primal
        return cls.from_history(history, tol=tol, certificate=certificate, **plot)

    @classmethod
    def from_estimator(cls, estimator: Any, *, index: int = 0, **plot: Any) -> ConvergenceDisplay:
        """From a fitted estimator with `history_`; `index` chooses a class if there are many."""
        history = _history_of(estimator, index)
        tol, certificate = getattr(estimator, "tol", None), _certificate_of(estimator, index)
        absolute = None if tol is None else float(tol) * float(np.nanmin(history.primal))
        return cls.from_history(history, tol=absolute, certificate=certificate, **plot)

    def plot(self, axes: Any = None, *, x: str = "epochs") -> ConvergenceDisplay:
        """Draw against "epochs" or "seconds" onto two axes, new ones if none are given."""
        if x not in X_AXES:
            raise ValueError(f"x must be 'epochs' or 'seconds', not {x!r}")
        self.figure_, self.axes_ = two_panels(axes)
        values, gap = self.axes_
        at = getattr(self, x)
        good = np.isfinite(self.gap)
        style = {"marker": "o", "markersize": 3.5, "linewidth": 1.6}
        upper = values.plot(at[good], self.primal[good], color=PRIMAL, label="primal P(w)", **style)
        lower = values.plot(at[good], self.dual[good], color=DUAL, label="dual D(α)", **style)
        values.fill_between(at[good], self.dual[good], self.primal[good], color=SHADE, zorder=0)
        best = float(np.max(self.dual[good], initial=-np.inf))
        worst = float(np.min(self.primal[good], initial=np.inf))
        values.set_ylabel("objective")
        if self.certificate is not None:
            best, worst = self.certificate.dual, self.certificate.primal
        low, high = apart(best, worst)
        put_title(values, self.title or f"The optimum lies between {low} and {high}.")
        legend(values, 2)
        # A gap within rounding may be zero or below, where a logarithmic axis has no place.
        size = float(np.max(np.abs(self.primal[good]), initial=0.0))
        floor = self.rounding or np.finfo(float).eps * size
        drawn = np.maximum(self.gap, floor)
        shown = good & (drawn > 0)
        line = gap.plot(at[shown], drawn[shown], color=GAP, label="certified", **style)
        estimates = self._estimates_at(x, floor)
        self.estimated_ = None
        if len(estimates):
            [self.estimated_] = gap.plot(
                *estimates.T, "o", color=GAP, markerfacecolor="none", markersize=3.5,
                markeredgewidth=0.8, label="estimated, proves nothing",
            )  # fmt: skip
            legend(gap, 2)
        if shown.any():
            gap.set_yscale("log")
        if (self.gap[shown] <= floor).any():
            gap.annotate(
                "rounding", (0.99, floor), xycoords=("axes fraction", "data"), va="bottom",
                ha="right", color=MARK, fontsize="small",
            )  # fmt: skip
        if self.tol:
            gap.axhline(self.tol, color=MARK, linestyle="--", linewidth=1)
            gap.annotate(
                "tol P(w)", (0.01, self.tol), xycoords=("axes fraction", "data"), va="bottom",
                color=MARK, fontsize="small",
            )  # fmt: skip
            low, high = gap.get_ylim()
            gap.set_ylim(min(low, self.tol / 2), high)
        gap.set_ylabel("gap")
        gap.set_xlabel(X_AXES[x])
        for axis in self.axes_:
            axis.grid(alpha=0.25)
        self.lines_ = [*upper, *lower, *line]
        return self

    def _estimates_at(self, x: str, floor: float) -> np.ndarray:
        """The estimates between the first and the last certificate; epochs are turned into seconds
        as if all took the same time between two certificates."""
        known = self.estimates[np.isfinite(self.estimates).all(axis=1)]
        known = known[known[:, 0] < self.epochs[-1]] if self.epochs.size else known[:0]
        at = known[:, 0] if x == "epochs" else np.interp(known[:, 0], self.epochs, self.seconds)
        return np.column_stack([at, np.maximum(known[:, 1], floor)])[known[:, 1] > 0]


class SpeedupDisplay:
    """What batches can bring on some data, before any training.

    Parameters
    ----------
    b, beta : arrays
        Batch sizes, and beta_b of each.
    sigma2 : float
    batch_size : int, optional
        A batch size to mark, such as the largest one with beta_b <= 2.

    Examples
    --------
    >>> import numpy as np
    >>> from batchsvm.displays import SpeedupDisplay
    >>> display = SpeedupDisplay.from_data(np.eye(8))
    >>> round(float(display.sigma2), 4)
    0.125
    """

    def __init__(
        self, *, b: Any, beta: Any, sigma2: float, batch_size: int | None = None, title: str = ""
    ) -> None:
        self.b, self.beta = np.asarray(b), np.asarray(beta)
        self.sigma2, self.batch_size, self.title = sigma2, batch_size, title

    @property
    def speedup(self) -> np.ndarray:
        return self.b / self.beta

    @classmethod
    def from_data(
        cls, X: Any, y: Any = None, *, plot: bool = True, **options: Any
    ) -> SpeedupDisplay:
        """From data; `options` are those of `batchsvm.plan`."""
        return cls.from_plan(make_plan(X, y, **options), plot=plot)

    @classmethod
    def from_plan(cls, plan: Plan, *, plot: bool = True, **options: Any) -> SpeedupDisplay:
        """From what `batchsvm.plan` returns."""
        b = np.unique(np.geomspace(1, plan.n, 200).round().astype(int))
        beta = np.array([beta_b(int(k), plan.n, plan.sigma2) for k in b])
        display = cls(b=b, beta=beta, sigma2=float(plan.sigma2), batch_size=plan.batch_limit)
        return display.plot(**options) if plot else display

    def plot(self, axes: Any = None) -> SpeedupDisplay:
        """Draw onto two axes, new ones if none are given."""
        self.figure_, self.axes_ = two_panels(axes, (3, 2))
        upper, lower = self.axes_
        upper.plot(self.b, self.speedup, color=PRIMAL, linewidth=2, label="speed-up b/β$_b$")
        upper.plot(self.b, self.b, color=MARK, linewidth=1, linestyle=":", label="b, the ideal")
        upper.set_yscale("log", base=2)
        upper.set_ylim(0.8, max(float(self.speedup.max()) * 2.5, 4))
        upper.set_ylabel("speed-up")
        lower.plot(self.b, self.beta / self.b, color=DUAL, linewidth=2)
        lower.set_ylabel("β$_b$ / b")
        lower.set_ylim(0, 1.05)
        lower.set_xlabel("batch size b")
        lower.set_xscale("log")
        lower.xaxis.set_major_formatter("{x:,.0f}")
        upper.yaxis.set_major_formatter("{x:,.0f}")
        for axis in self.axes_:
            axis.axvline(1 / self.sigma2, color=MARK, linestyle="--", linewidth=1)
            axis.grid(alpha=0.25)
        upper.annotate(
            f" 1/σ² = {1 / self.sigma2:.3g}", (1 / self.sigma2, 0.04), color=MARK,
            xycoords=("data", "axes fraction"), fontsize="small",
        )  # fmt: skip
        if self.batch_size is not None:
            beta = float(np.interp(self.batch_size, self.b, self.beta))
            upper.plot(
                [self.batch_size], [self.batch_size / beta], "o", color=DUAL,
                label=f"b = {self.batch_size:,}",
            )  # fmt: skip
        legend(upper, 3)
        put_title(upper, self.title or "What batches can bring on this data")
        return self


class ScheduleDisplay:
    """beta over a run, and how many steps the aggressive rule refused.

    Parameters
    ----------
    iteration, beta, refused : arrays, one entry a certificate

    Examples
    --------
    >>> import batchsvm, numpy as np
    >>> from batchsvm.displays import ScheduleDisplay
    >>> X = np.random.default_rng(0).normal(size=(50, 3))
    >>> y = X[:, 0] > 0
    >>> solution = batchsvm.fit(X, y, lam=0.1, method="aggressive", batch_size=8, random_state=0)
    >>> display = ScheduleDisplay.from_solution(solution)
    >>> display.axes_[0].get_ylabel()
    'β'
    """

    def __init__(
        self, *, iteration: Any, beta: Any, refused: Any, beta_b: float | None = None,
        title: str = "",
    ) -> None:  # fmt: skip
        self.iteration, self.beta = np.asarray(iteration), np.asarray(beta, dtype=float)
        self.refused, self.beta_b, self.title = np.asarray(refused), beta_b, title

    @classmethod
    def from_history(
        cls, history: Any, *, beta_b: float | None = None, title: str = "", **plot: Any
    ) -> ScheduleDisplay:
        return cls(
            iteration=history.iteration, beta=history.beta, refused=history.refused,
            beta_b=beta_b, title=title,
        ).plot(**plot)  # fmt: skip

    @classmethod
    def from_solution(cls, solution: Any, **plot: Any) -> ScheduleDisplay:
        """From what `batchsvm.fit` returns."""
        bound = beta_b(solution.batch_size, solution.plan.n, solution.plan.sigma2)
        return cls.from_history(solution.history, beta_b=bound, **plot)

    @classmethod
    def from_estimator(cls, estimator: Any, *, index: int = 0, **plot: Any) -> ScheduleDisplay:
        """From a fitted estimator with `history_`; `index` chooses a class if there are many."""
        return cls.from_history(_history_of(estimator, index), **plot)

    def plot(self, axes: Any = None) -> ScheduleDisplay:
        """Draw onto two axes, new ones if none are given."""
        self.figure_, self.axes_ = two_panels(axes)
        upper, lower = self.axes_
        known = np.isfinite(self.beta)
        upper.plot(
            self.iteration[known], self.beta[known], color=PRIMAL, linewidth=1.6, marker="o",
            markersize=3.5, label="β in force",
        )  # fmt: skip
        if not known.any():
            upper.text(
                0.5, 0.5, "Pegasos has no β", transform=upper.transAxes, ha="center", color=MARK
            )
        elif self.beta_b is not None:
            upper.axhline(
                self.beta_b, color=MARK, linestyle="--", linewidth=1,
                label=f"β$_b$ = {self.beta_b:.3g}, the safe one",
            )  # fmt: skip
        if known.any():
            legend(upper, 2)
        upper.set_ylabel("β")
        put_title(upper, self.title or "Step lengths along the run")
        lower.plot(
            self.iteration, self.refused, color=DUAL, linewidth=1.6, marker="o", markersize=3.5
        )
        lower.set_ylabel("steps refused so far")
        lower.set_xlabel("iterations")
        lower.set_ylim(bottom=0, top=max(float(np.max(self.refused, initial=0)) * 1.1, 2))
        lower.yaxis.get_major_locator().set_params(integer=True)
        for axis in self.axes_:
            axis.grid(alpha=0.25)
        return self
