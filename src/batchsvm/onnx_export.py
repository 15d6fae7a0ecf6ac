"""Models for ONNX runtimes, through skl2onnx (an extra: pip install 'batchsvm[onnx]').

A linear model is a linear model: whatever has coefficients is put into scikit-learn's own
linear classifier or regressor, for which skl2onnx has a converter.  ONNX computes in
float32, so that scores agree to about 1e-6 of their size.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from batchsvm.atomic import replacing
from batchsvm.model import Model, model_of_estimator, model_of_solution


def to_onnx(model: Any, path: str | os.PathLike[str] | None = None) -> bytes:
    """A model in ONNX, also written to `path` if one is given.

    Parameters
    ----------
    model : Model, Solution or fitted linear estimator
        An estimator is anything with `coef_`, `intercept_` and, for a classifier, `classes_`.
    path : path, optional
        Replaced at once.

    Returns
    -------
    bytes
        A graph with the input X (float32, shape (n, d)).  A classifier has the outputs
        `label` and `probabilities`, the latter being its decision values, one column a class
        (minus and plus the score for two classes); a regressor has `variable`.
    """
    try:
        from skl2onnx import convert_sklearn
        from skl2onnx.common.data_types import FloatTensorType
    except ImportError:
        raise ModuleNotFoundError(
            "ONNX export needs skl2onnx: pip install 'batchsvm[onnx]'"
        ) from None
    made = _as_model(model)
    shell = _scikit_learn(made)
    options = {id(shell): {"raw_scores": True}} if made.classes is not None else None
    graph = convert_sklearn(
        shell,
        initial_types=[("X", FloatTensorType([None, made.n_features]))],
        options=options,
    )
    content: bytes = graph.SerializeToString()
    if path is not None:
        with replacing(path) as sink:
            sink.write(content)
    return content


def _as_model(model: Any) -> Model:
    if isinstance(model, Model):
        return model
    if hasattr(model, "coef_"):
        return model_of_estimator(model)
    if hasattr(model, "w") and hasattr(model, "certificate"):
        return model_of_solution(model)
    raise TypeError(
        "model must be a Model, a Solution or a fitted linear estimator with coef_, not"
        f" {type(model).__name__}"
    )


def _scikit_learn(model: Model) -> Any:
    """scikit-learn's linear model with these coefficients."""
    from sklearn.linear_model import LinearRegression
    from sklearn.svm import LinearSVC

    if model.classes is None:
        shell = LinearRegression()
        shell.coef_, shell.intercept_ = model.coef[0], float(model.intercept[0])
    else:
        shell = LinearSVC()
        shell.coef_, shell.intercept_ = model.coef, model.intercept
        shell.classes_ = _labels(model.classes)
    shell.n_features_in_ = model.n_features
    return shell


def _labels(classes: np.ndarray) -> np.ndarray:
    """ONNX knows labels that are integers or words."""
    if classes.size < 2:
        raise ValueError(f"model must have two or more classes for ONNX, not {classes.tolist()}")
    if classes.dtype.kind == "f":
        if not (classes == classes.astype(np.int64)).all():
            raise ValueError(f"classes must be integers or words for ONNX, not {classes.tolist()}")
        return classes.astype(np.int64)
    return classes.astype(str) if classes.dtype.kind in "OU" else classes.astype(np.int64)
