"""Our estimators under the names and parameters of scikit-learn's, for scikit-learn's own tests.

This is a pytest plugin (`-p sklearn_adapter`).  It puts the classes below in the place of
LinearSVC, LinearSVR, SGDClassifier and SGDRegressor before scikit-learn's tests are collected,
deselects tests that use none of these, and writes the outcome of each test to the file that the
environment variable OUTCOMES names.  Nothing of scikit-learn's tests is copied.
"""

from __future__ import annotations

import inspect
import json
import os
import warnings

import sklearn.linear_model
import sklearn.svm
from sklearn.utils.metaestimators import available_if

from batchsvm import BatchSVC, BatchSVR

FITTED = ("stream_", "_stream_rng")


class Adapted:
    """A subclass of one of our estimators that fits by one with our names of parameters."""

    method = batch_size = engine = precision = "auto"
    device = n_jobs = None

    def _refuse(self):
        """Refuse what we do not do, in scikit-learn's words."""

    def _fitted_by(self, ours):
        kept = {
            name: value
            for name, value in vars(ours).items()
            if name.endswith("_") or name in (*FITTED, "n_features_in_")
        }
        self.__dict__.update(kept)
        return self

    def fit(self, X, y, sample_weight=None):
        self._refuse()
        return self._fitted_by(self._ours().fit(X, y, sample_weight))


class LinearSVC(Adapted, BatchSVC):
    def __init__(
        self, penalty="l2", loss="squared_hinge", *, dual="auto", tol=1e-4, C=1.0,
        multi_class="ovr", fit_intercept=True, intercept_scaling=1, class_weight=None, verbose=0,
        random_state=None, max_iter=1000,
    ):  # fmt: skip
        for name, value in list(locals().items()):
            if name not in ("self", "__class__"):
                setattr(self, name, value)

    def _refuse(self):
        if self.penalty != "l2" or self.multi_class != "ovr":
            raise ValueError("Unsupported set of arguments: we have L2 and one against the rest")

    def _ours(self):
        return BatchSVC(
            self.loss, C=self.C, tol=self.tol, max_epochs=self.max_iter,
            fit_intercept=self.fit_intercept, intercept_scaling=self.intercept_scaling,
            class_weight=self.class_weight, random_state=self.random_state, verbose=self.verbose,
        )  # fmt: skip


class LinearSVR(Adapted, BatchSVR):
    def __init__(
        self, *, epsilon=0.0, tol=1e-4, C=1.0, loss="epsilon_insensitive", fit_intercept=True,
        intercept_scaling=1.0, dual="auto", verbose=0, random_state=None, max_iter=1000,
    ):  # fmt: skip
        for name, value in list(locals().items()):
            if name not in ("self", "__class__"):
                setattr(self, name, value)

    def _ours(self):
        return BatchSVR(
            self.loss, epsilon=self.epsilon, C=self.C, tol=self.tol, max_epochs=self.max_iter,
            fit_intercept=self.fit_intercept, intercept_scaling=self.intercept_scaling,
            random_state=self.random_state, verbose=self.verbose,
        )  # fmt: skip


class _Stochastic(Adapted):
    """What the two estimators of stochastic gradients share."""

    def _refuse(self):
        for name, plain in (("penalty", "l2"), ("early_stopping", False), ("average", False)):
            if getattr(self, name) not in (plain, 0):
                raise ValueError(f"{name} must be {plain!r}: we have nothing else")

    def _common(self):
        return {
            "lam": self.alpha, "tol": 1e-3 if self.tol is None else self.tol,
            "max_epochs": self.max_iter, "fit_intercept": self.fit_intercept,
            "random_state": self.random_state, "warm_start": self.warm_start,
            "verbose": self.verbose,
        }  # fmt: skip

    def fit(self, X, y, coef_init=None, intercept_init=None, sample_weight=None):
        self._refuse()
        if coef_init is not None or intercept_init is not None:
            raise ValueError("coef_init and intercept_init must be None: we start from alpha")
        ours = self.__dict__.get("_inner") if self.warm_start else None
        ours = self._ours() if ours is None else ours.set_params(**self._ours().get_params())
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # these tests stop after five epochs
            ours.fit(X, y, sample_weight)
        self._inner = ours
        return self._fitted_by(ours)

    def _take(self, X, y, *rest, **named):
        self._refuse()
        if "_inner" not in self.__dict__ or not hasattr(self, "coef_"):
            self._inner = self._ours()
        ours = self._inner.set_params(**self._ours().get_params())
        return self._fitted_by(ours.partial_fit(X, y, *rest, **named))


def _streams(estimator):
    return hasattr(estimator._ours(), "partial_fit")


class SGDClassifier(_Stochastic, BatchSVC):
    def __init__(
        self, loss="hinge", *, penalty="l2", alpha=0.0001, l1_ratio=0.15, fit_intercept=True,
        max_iter=1000, tol=1e-3, shuffle=True, verbose=0, epsilon=0.1, n_jobs=None,
        random_state=None, learning_rate="optimal", eta0=0.01, power_t=0.5, early_stopping=False,
        validation_fraction=0.1, n_iter_no_change=5, class_weight=None, warm_start=False,
        average=False,
    ):  # fmt: skip
        for name, value in list(locals().items()):
            if name not in ("self", "__class__"):
                setattr(self, name, value)

    def _ours(self):
        loss = {"log_loss": "logistic"}.get(self.loss, self.loss)
        return BatchSVC(loss, class_weight=self.class_weight, **self._common())

    @available_if(_streams)
    def partial_fit(self, X, y, classes=None, sample_weight=None):
        return self._take(X, y, classes, sample_weight=sample_weight)

    @property
    def loss(self):
        return self.__dict__["loss"]

    @loss.setter
    def loss(self, value):
        self.__dict__["loss"] = value


class SGDRegressor(_Stochastic, BatchSVR):
    def __init__(
        self, loss="squared_error", *, penalty="l2", alpha=0.0001, l1_ratio=0.15,
        fit_intercept=True, max_iter=1000, tol=1e-3, shuffle=True, verbose=0, epsilon=0.1,
        random_state=None, learning_rate="invscaling", eta0=0.01, power_t=0.25,
        early_stopping=False, validation_fraction=0.1, n_iter_no_change=5, warm_start=False,
        average=False,
    ):  # fmt: skip
        for name, value in list(locals().items()):
            if name not in ("self", "__class__"):
                setattr(self, name, value)

    def _ours(self):
        return BatchSVR(self.loss, epsilon=self.epsilon, **self._common())

    @available_if(_streams)
    def partial_fit(self, X, y, sample_weight=None):
        return self._take(X, y, sample_weight=sample_weight)


PLACES = {
    sklearn.svm: (LinearSVC, LinearSVR),
    sklearn.linear_model: (SGDClassifier, SGDRegressor),
}
NAMES = tuple(kind.__name__ for kinds in PLACES.values() for kind in kinds)


def pytest_configure(config):
    for module, kinds in PLACES.items():
        for kind in kinds:
            setattr(module, kind.__name__, kind)
    config._outcomes = {}


def _uses_ours(item):
    """Whether a test or one of its parameters names an estimator that was replaced."""
    parameters = getattr(getattr(item, "callspec", None), "params", {})
    text = inspect.getsource(item.function) + repr(parameters)
    if "OneClass" in text and not any(name in text for name in NAMES):
        return False
    return any(name in text for name in (*NAMES, "klass"))


def pytest_collection_modifyitems(config, items):
    kept = [item for item in items if _uses_ours(item)]
    config.hook.pytest_deselected(items=[item for item in items if item not in kept])
    items[:] = kept


def pytest_runtest_logreport(report):
    if report.when == "call" or report.failed:
        OUTCOMES[report.nodeid.rpartition("::")[2]] = (
            report.outcome, report.longreprtext.strip().splitlines()[-1:] or [""],
        )  # fmt: skip


OUTCOMES: dict = {}


def pytest_sessionfinish(session):
    with open(os.environ["OUTCOMES"], "w") as sink:
        json.dump(OUTCOMES, sink)
