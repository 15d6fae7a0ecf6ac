"""Bad parameters of estimators get one sentence, before any work."""

from __future__ import annotations

import pytest

import batchsvm
from batchsvm import BatchSVC, BatchSVCCV, BatchSVR, losses


@pytest.mark.parametrize(
    ("parameters", "sentence"),
    [
        ({"loss": "hing"}, "loss must be one of 'hinge'.* not 'hing'; did you mean 'hinge'"),
        ({"loss": "huber"}, "loss must be one of 'hinge', 'smoothed_hinge'.* not 'huber'"),
        ({"loss": losses.Huber()}, "loss must be one for classification, not Huber"),
        ({"lam": 1.0, "C": 2.0}, "lam and C must not both be given, but lam is 1.0 and C is 2.0"),
        ({"lam": -1.0}, "lam must be a finite positive number, not -1.0"),
        ({"C": 0}, "C must be a finite positive number, not 0"),
        ({"method": "sgd"}, "method must be one of 'auto'"),
        ({"batch_size": 0}, "batch_size must be 'auto' or an integer from 1"),
        ({"batch_size": 10**6}, "batch_size must be 'auto' or an integer from 1 to n = 150"),
        ({"tol": -1}, "tol must be from 0 to below 1, not -1"),
        ({"max_epochs": 0}, "max_epochs must be a finite positive number, not 0"),
        ({"fit_intercept": "yes"}, "fit_intercept must be one of True, False, not 'yes'"),
        ({"intercept": "none"}, "intercept must be one of 'penalised', 'free', not 'none'"),
        ({"intercept_scaling": 0.0}, "intercept_scaling must be a finite positive number"),
        ({"class_weight": "even"}, "class_weight must be one of 'balanced', not 'even'"),
        ({"class_weight": [1, 2]}, "class_weight must be None, 'balanced' or a dict"),
        ({"class_weight": {0: -1.0}}, "class_weight of 0 must be"),
        ({"warm_start": 3}, "warm_start must be one of True, False, not 3"),
        ({"n_jobs": 0}, "n_jobs must be a positive integer"),
        ({"random_state": "x"}, "random_state must be None, an integer"),
        ({"verbose": -1}, "verbose must be 0 for silence"),
    ],
)
def test_one_sentence_for_a_bad_parameter(parameters, sentence, iris):
    with pytest.raises(ValueError, match=sentence):
        BatchSVC(**parameters).fit(*iris)


@pytest.mark.parametrize(
    ("parameters", "sentence"),
    [
        ({"loss": "hinge"}, "loss must be one of 'absolute', 'epsilon_insensitive'"),
        ({"epsilon": -0.1}, "epsilon must be a number >= 0, or None, not -0.1"),
        ({"loss": "quantile", "quantile": 1.0}, "quantile must be strictly between 0 and 1"),
        ({"loss": "huber", "epsilon": 0}, "delta of loss Huber must be a positive number"),
    ],
)
def test_one_sentence_for_a_bad_parameter_of_regression(parameters, sentence, diabetes):
    with pytest.raises(ValueError, match=sentence):
        BatchSVR(**parameters).fit(*diabetes)


@pytest.mark.parametrize(
    ("parameters", "sentence"),
    [
        ({"lams": 0}, "lams must be a positive integer"),
        ({"lams": [1.0, 0.0]}, "lams must hold"),
        ({"scoring": "acuracy"}, "scoring must be a callable, None, or a name"),
    ],
)
def test_one_sentence_for_a_bad_parameter_of_cross_validation(parameters, sentence, iris):
    with pytest.raises(ValueError, match=sentence):
        BatchSVCCV(**parameters).fit(*iris)


def test_regression_targets_are_no_classes(diabetes):
    with pytest.raises(ValueError, match="Unknown label type"):
        BatchSVC().fit(diabetes[0], diabetes[1] + 0.5)


@pytest.mark.parametrize("estimator", [BatchSVC(), BatchSVCCV()])
@pytest.mark.parametrize("label", [1, "a"])
def test_one_class_is_refused_by_its_name(estimator, label, iris):
    sentence = f"y must have at least two classes, but it has one class, {label!r}; batchsvm.fit"
    with pytest.raises(ValueError, match=sentence):
        estimator.fit(iris[0], [label] * 150)
    batchsvm.fit(iris[0], [label] * 150, lam=0.1)
