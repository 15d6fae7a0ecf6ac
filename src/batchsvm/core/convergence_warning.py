"""Convergence warnings: what to say of a fit that stopped above tol, and what to do about it."""

from __future__ import annotations

from collections.abc import Sequence

from batchsvm.core.solution import Solution, Status
from batchsvm.core.tuning import DEFAULT_TUNING
from batchsvm.core.warning import warn_user
from batchsvm.losses import TINY
from batchsvm.methods import Naive, Newton, Pegasos
from batchsvm.methods.newton import is_smooth

ZERO = (
    " The model is w = 0, where training began: no point after it was certified with a smaller gap,"
    " which takes more epochs."
)
GO_ON = "pass this solution as initial"


def warn_unless_converged(solution: Solution, max_epochs: float, also: str = "") -> None:
    """Warn if the gap is above tol, or if there is something else to say."""
    words = [words for words in (convergence_problem(solution, max_epochs), also) if words]
    if words:
        warn_of_convergence(" ".join(words))


def warn_of_problems(
    solutions: Sequence[Solution],
    names: Sequence[str],
    max_epochs: float,
    go_on: str = GO_ON,
    what: str = "classes",
) -> None:
    """One warning for all problems that stopped above tol."""
    sentence = problems_sentence(solutions, names, max_epochs, go_on, what)
    if sentence is not None:
        warn_of_convergence(sentence)


def problems_sentence(
    solutions: Sequence[Solution],
    names: Sequence[str],
    max_epochs: float,
    go_on: str = GO_ON,
    what: str = "classes",
) -> str | None:
    """How many problems stopped above tol, in the words of the worst; None if none did."""
    stopped = [
        k for k, solution in enumerate(solutions) if convergence_problem(solution, max_epochs)
    ]
    if not stopped:
        return None
    worst = max(stopped, key=lambda k: solutions[k].certificate.relative_gap)
    sentence = convergence_problem(solutions[worst], max_epochs, go_on)
    if len(solutions) > 1:
        sentence = (
            f"{len(stopped)} of {len(solutions)} {what} stopped early. The worst is"
            f" {names[worst]}, where {sentence}"
        )
    return sentence


def warn_of_convergence(sentence: str) -> None:
    from sklearn.exceptions import ConvergenceWarning  # half a second to import

    warn_user(sentence, ConvergenceWarning)


def convergence_problem(solution: Solution, max_epochs: float, go_on: str = GO_ON) -> str | None:
    """That the gap is above tol, how large it is, and what to do about it; None if it is not.

    `go_on` says how to go on after Ctrl-C.
    """
    if solution.status in (Status.CONVERGED, Status.STOPPED):
        return None
    certificate, plan = solution.certificate, solution.plan
    return (
        f"{solution.status.value}: the objective, {certificate.primal:.4g}, is proven to be at most"
        f" {certificate.bound:.3g} above its optimum, which is {certificate.relative_gap:.3g} of"
        f" it; tol is {plan.tol:g}."
        f"{ZERO if _never_left_zero(solution) else ''}"
        f" {_advice(solution, max_epochs, go_on)}"
    )


def _never_left_zero(solution: Solution) -> bool:
    early = solution.status in (Status.MAX_EPOCHS, Status.INTERRUPTED, Status.DATA_LOST)
    return early and not solution.w.any() and int(solution.history.gap.argmin()) == 0


def _advice(solution: Solution, max_epochs: float, go_on: str) -> str:
    method, b = solution.method, solution.batch_size
    more = f"To get closer, raise max_epochs (now {max_epochs:g})"
    if solution.status in (Status.INTERRUPTED, Status.DATA_LOST):
        return f"To go on from here, {go_on}."
    if solution.status is Status.ROUNDED:
        return "To have a smaller bound, give X in float64."
    if solution.status is Status.PRECISION:
        provable = 2 * solution.certificate.rounding / max(solution.certificate.primal, TINY)
        if provable >= 1.0:
            return (
                "Float64 can prove nothing better here; scale the rows of X, or use a larger lam."
            )
        return f"Float64 can prove a tol of about {provable:.1g} here."
    if isinstance(method, Naive) and b > 1:
        return f'Naive steps may never converge with batches of {b}: use method="aggressive".'
    if isinstance(method, Pegasos):
        return f'{more}, or use method="auto".'
    if b > 1 and not isinstance(method, Newton):
        return f"{more}, or use a smaller batch_size."
    if _newton_is_cheap(solution):
        return (
            f'{more}, use method="newton" with batch_size="auto", use a larger lam, or scale the'
            " columns of X."
        )
    return f"{more}, use a larger lam, or scale the columns of X."


def _newton_is_cheap(solution: Solution) -> bool:
    """Whether another method has trained on few columns, and the loss is one for which every engine
    has Newton's."""
    few = Newton().forms_hessian(solution.w.size, DEFAULT_TUNING.max_hessian_columns)
    return few and is_smooth(solution.loss) and not isinstance(solution.method, Newton)
