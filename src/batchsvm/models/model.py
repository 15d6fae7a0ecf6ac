"""A trained model as plain data: what predicts, what proves it, where it comes from.

This is what a model file holds (see `models/codec.py` and docs/model_file.md).
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np
from scipy.sparse import issparse

from batchsvm.core.arrays import to_host
from batchsvm.core.certificate import Certificate
from batchsvm.core.checks import read_jobs
from batchsvm.core.data_checks import refuse_broken, refuse_masked
from batchsvm.core.dual import dual_of
from batchsvm.core.one_vs_rest import choose
from batchsvm.core.planning import Plan
from batchsvm.core.solution import History, Solution, Solutions, Status
from batchsvm.losses import LOSSES, Loss
from batchsvm.methods import METHODS
from batchsvm.models.codec import ESTIMATES, HISTORY_FIELDS, read_fields, write_model
from batchsvm.models.fingerprint import Fingerprint, fingerprint, labels_digest
from batchsvm.models.scores import scores


def library_version() -> str:
    try:
        return version("batchsvm")
    except PackageNotFoundError:  # the source tree alone
        return "unknown"


@dataclass(frozen=True, eq=False)
class Model:
    """A linear model, its certificates, and a fingerprint of its training data.

    Attributes
    ----------
    coef : ndarray of shape (k, d)
        One row for a regressor or two classes, one for each class otherwise.
    intercept : ndarray of shape (k,)
    classes : ndarray or None
        None for a regressor.
    loss : loss object or None
        None if the loss is not one of this library; its name is in `loss_name`.
    lam : float or None
    intercept_scaling : float
        The value of the column that the intercept is the coefficient of; 0 if there is none.
    alpha : ndarray of shape (k, n) or None
        The dual points that certify the rows of `coef`.
    certificates : tuple of Certificate
        One for each row of `coef`, or none.
    statuses : tuple of str
        Names of the `Status` of each fit.
    method : str
        The method's name; its parameters are in `method_parameters`.
    batch_size : int or None
    history : tuple of dict of ndarray
        The certificates along the way of each fit.
    plan : Plan or None
    zero_based : bool or None
        Whether the indices of the LIBSVM text it was trained on count from 0; None if unknown.
    feature_names : tuple of str or None
        The names of the columns, if they have any.
    label, weights : str or None
        The names of the columns of labels and of weights in the table it was trained on.
    class_weights : ndarray or None
        What the weights of the rows of each class were multiplied by; None if nothing.
    free_intercept : bool
        Whether the intercept is not penalised.
    trained_on : Fingerprint
    library_version : str
    lacks : tuple of str
        What a file of an older version does not hold.
    """

    coef: np.ndarray = field(repr=False)
    intercept: np.ndarray = field(repr=False)
    classes: np.ndarray | None
    loss: Loss | None
    loss_name: str
    lam: float | None
    trained_on: Fingerprint
    intercept_scaling: float = 0.0
    alpha: np.ndarray | None = field(default=None, repr=False)
    certificates: tuple[Certificate, ...] = ()
    statuses: tuple[str, ...] = ()
    method: str = ""
    method_parameters: dict[str, Any] = field(default_factory=dict, repr=False)
    batch_size: int | None = None
    history: tuple[dict[str, np.ndarray], ...] = field(default=(), repr=False)
    plan: Plan | None = field(default=None, repr=False)
    zero_based: bool | None = None
    feature_names: tuple[str, ...] | None = field(default=None, repr=False)
    label: str | None = field(default=None, repr=False)
    weights: str | None = field(default=None, repr=False)
    class_weights: np.ndarray | None = field(default=None, repr=False)
    free_intercept: bool = False
    library_version: str = field(default_factory=library_version)
    lacks: tuple[str, ...] = field(default=(), repr=False)

    @property
    def n_features(self) -> int:
        return self.coef.shape[1]

    @property
    def worst(self) -> Certificate | None:
        """The certificate with the largest gap."""
        return max(self.certificates, key=lambda c: c.relative_gap, default=None)

    def decision_function(self, X: Any, n_jobs: int | None = 1) -> Any:
        """<coef, x> + intercept for each row: shape (n,), or (n, k) for more than two classes.

        Those of an array on a GPU are an array of its library on the same GPU.
        """
        shape = np.shape(X)
        if len(shape) != 2 or shape[1] != self.n_features:
            raise ValueError(
                f"X must have {self.n_features:,} columns, as the training data had, not shape"
                f" {shape}"
            )
        refuse_masked("X", X)
        if issparse(X):
            refuse_broken(X)
        found = scores(X, self.coef, self.intercept, read_jobs(n_jobs))
        return found[:, 0] if found.shape[1] == 1 else found

    def predict(self, X: Any, n_jobs: int | None = 1) -> Any:
        """Labels, or numbers for a regressor."""
        return self.chosen(self.decision_function(X, n_jobs))

    def chosen(self, found: Any) -> Any:
        """The predictions that decision values stand for."""
        return found if self.classes is None else choose(self.classes, found)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a model file; an old file is replaced at once or not at all."""
        write_model(self, path)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Model:
        """Read a model file; nothing in it is executed."""
        return cls(**read_fields(path))


def model_of_solution(solution: Solution, y: Any = None) -> Model:
    """The model of a `Solution`; with `y`, the labels it was trained on, a digest of them."""
    digest = None if y is None else labels_digest(y)
    return Model(
        coef=solution.w[np.newaxis].copy(),
        intercept=np.zeros(1),
        classes=solution.classes,
        trained_on=Fingerprint(solution.plan.n, solution.w.size, digest),
        **_proof_of_solutions([solution]),
    )


def model_of_solutions(
    solutions: Solutions, X: Any, y: Any, intercept_scaling: float = 0.0
) -> Model:
    """The model of many problems over the rows X; `intercept_scaling` is that of a penalised
    intercept, and 0 otherwise."""
    classes = solutions.classes if solutions.classes is not None else solutions[0].classes
    return Model(
        coef=solutions.coef,
        intercept=solutions.intercept,
        classes=classes,
        trained_on=fingerprint(X, y),
        intercept_scaling=float(intercept_scaling),
        free_intercept=solutions[0].free_intercept,
        **_proof_of_solutions(solutions),
    )


def _proof_of_solutions(solutions: Sequence[Solution]) -> dict[str, Any]:
    """How solutions were found, and what proves them."""
    first = solutions[0]
    return {
        "loss": first.loss,
        "loss_name": name_of_loss(first.loss),
        "lam": first.lam,
        "alpha": np.array([solution.alpha for solution in solutions]),
        "certificates": tuple(solution.certificate for solution in solutions),
        "statuses": tuple(solution.status.name for solution in solutions),
        "method": first.method.name,
        "method_parameters": parameters_of(first.method),
        "batch_size": first.batch_size,
        "history": tuple(history_of(solution.history) for solution in solutions),
        "plan": first.plan,
    }


def solution_of_model(model: Model) -> Solution:
    """The solution that a model of one fit without an intercept came from."""
    if model.coef.shape[0] != 1 or model.intercept_scaling or model.intercept.any():
        raise ValueError(
            "model must be of one fit without an intercept to be a Solution, not of"
            f" {model.coef.shape[0]} with intercept {model.intercept.tolist()}; load it with"
            " batchsvm.load"
        )
    for name in ("alpha", "plan", "loss", "lam", "batch_size"):
        if getattr(model, name) is None:
            raise ValueError(f"model must come from a fit, but it has no {name}")
    for name in ("certificates", "history", "statuses", "method"):
        if not getattr(model, name):
            raise ValueError(f"model must come from a fit, but it has no {name}")
    assert model.alpha is not None
    assert model.plan is not None
    assert model.loss is not None
    assert model.lam is not None
    assert model.batch_size is not None
    history = dict(model.history[0])
    for name in ("iteration", "refused"):
        history[name] = history[name].astype(np.int64)
    return Solution(
        model.coef[0], dual_of(model.alpha[0]), model.certificates[0], History(**history),
        Status[model.statuses[0]], model.plan, model.classes, model.loss, model.lam,
        METHODS[model.method](**model.method_parameters), model.batch_size,
    )  # fmt: skip


def model_of_estimator(estimator: Any, y: Any = None) -> Model:
    """The model of a fitted linear estimator of any library, as far as it tells.

    `coef_`, `intercept_` and, for a classifier, `classes_` are needed; certificates and the
    rest are taken over where the estimator has them.
    """
    y = to_host(y)
    found = estimator.coef_.toarray() if issparse(estimator.coef_) else to_host(estimator.coef_)
    coef = np.atleast_2d(np.asarray(found, dtype=np.float64))
    intercept = np.asarray(to_host(getattr(estimator, "intercept_", 0.0)), dtype=np.float64)
    certificates = getattr(estimator, "certificates_", getattr(estimator, "certificate_", ()))
    certificates = (certificates,) if isinstance(certificates, Certificate) else certificates
    loss = getattr(estimator, "loss_", getattr(estimator, "loss", None))
    lam = getattr(estimator, "lam_", getattr(estimator, "lam", None))
    plan = getattr(estimator, "plan_", None)
    rows = plan.n if isinstance(plan, Plan) else 0
    certificates = tuple(c for c in certificates if isinstance(c, Certificate))
    return Model(
        coef=coef.copy(),
        intercept=np.broadcast_to(intercept.ravel(), coef.shape[:1]).copy(),
        classes=to_host(getattr(estimator, "classes_", None)),
        loss=loss if hasattr(loss, "_fields") else None,
        loss_name=loss if isinstance(loss, str) else name_of_loss(loss),
        lam=None if lam is None else float(lam),
        trained_on=Fingerprint(
            rows if y is None else len(y), coef.shape[1], None if y is None else labels_digest(y)
        ),
        certificates=certificates,
        **(_proof_of(estimator) if certificates else {}),
        plan=plan if isinstance(plan, Plan) else None,
        feature_names=_names_of(estimator),
    )


def _names_of(estimator: Any) -> tuple[str, ...] | None:
    """The names of the columns it was fitted on, if each has its own."""
    names = getattr(estimator, "feature_names_in_", None)
    if names is None or len(set(names)) < len(names):
        return None
    return tuple(str(name) for name in names)


def _proof_of(estimator: Any) -> dict[str, Any]:
    """What one of our estimators knows beside its certificates: how to compute them again."""
    histories = estimator.history_
    histories = histories if isinstance(histories, tuple) else (histories,)
    known: dict[str, Any] = {"history": tuple(history_of(history) for history in histories)}
    free = estimator.fit_intercept and estimator.intercept == "free"
    known["alpha"] = np.atleast_2d(to_host(estimator.dual_coef_)).copy()
    known["free_intercept"] = free
    if estimator.fit_intercept and not free:
        known["intercept_scaling"] = float(estimator.intercept_scaling)
    factors = to_host(getattr(estimator, "class_weight_", None))
    if factors is not None and (factors != 1).any():
        known["class_weights"] = factors.copy()
    return known


def name_of_loss(loss: Any) -> str:
    """The name that `fit` knows a loss by, or the name of its class."""
    for name, kind in LOSSES.items():
        if type(loss) is kind:
            return name
    return type(loss).__name__


def parameters_of(method: Any) -> dict[str, Any]:
    return {name: value for name, value in vars(method).items() if not name.startswith("_")}


def history_of(history: Any) -> dict[str, np.ndarray]:
    names = (*HISTORY_FIELDS, ESTIMATES)
    return {name: np.asarray(getattr(history, name), dtype=float) for name in names}


def save(model: Any, path: str | os.PathLike[str], y: Any = None) -> None:
    """Save a `Solution`, a `Model` or a fitted linear estimator as a model file.

    Parameters
    ----------
    model : Solution, Model or estimator
    path : path
        Replaced at once: an interrupted save leaves the old file whole.
    y : array, optional
        The labels it was trained on, for the fingerprint.

    Examples
    --------
    >>> import batchsvm, numpy as np, pathlib, tempfile
    >>> X, y = np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.5]]), [1, 1, -1]
    >>> solution = batchsvm.fit(X, y, lam=0.1, random_state=0)
    >>> folder = tempfile.TemporaryDirectory()
    >>> path = pathlib.Path(folder.name) / "three.model"
    >>> batchsvm.save(solution, path, y)
    >>> model = batchsvm.load(path)
    >>> model.predict(X)
    array([ 1,  1, -1])
    >>> model.certificates[0] == solution.certificate
    True
    >>> folder.cleanup()
    """
    if hasattr(model, "coef_"):
        model = model_of_estimator(model, y)
    elif isinstance(model, Solution):
        model = model_of_solution(model, y)
    if not isinstance(model, Model):
        raise TypeError(
            "model must be a Solution, a Model or a fitted linear estimator with coef_, not"
            f" {type(model).__name__}"
        )
    model.save(path)


def load(path: str | os.PathLike[str]) -> Model:
    """Read a model file; nothing in it is executed.

    Raises
    ------
    ModelFileError
        If the file is damaged, cut short, or something else; the message says which.
    """
    return Model.load(path)
