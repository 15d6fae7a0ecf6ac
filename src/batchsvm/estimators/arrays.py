"""What an estimator makes of arrays of torch, CuPy, JAX and other libraries.

It is scikit-learn's array API convention.  With `sklearn.set_config(array_api_dispatch=True)`,
fitted attributes and predictions are arrays of X's library on X's device.  Without it, arrays in
host memory are used like NumPy arrays, and those on a GPU, which NumPy cannot read, are treated
as with it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import expit
from sklearn import get_config

from batchsvm.core.arrays import is_device_array, like, namespace_of, to_host
from batchsvm.core.data_checks import refuse_other_device


def dispatches() -> bool:
    """Whether scikit-learn's array API support is switched on."""
    return bool(get_config().get("array_api_dispatch"))


def following(values: Any, X: Any) -> Any:
    """NumPy values as what the convention wants of this X."""
    if isinstance(values, np.ndarray) and (dispatches() or is_device_array(X)):
        return like(values, X)
    return values


def labels_for(labels: np.ndarray, X: Any, y: Any) -> Any:
    """The labels as an array of y's library, if the fit is one of the array API."""
    return like(labels, y) if dispatches() or is_device_array(X) else labels


def on_host(X: Any) -> Any:
    """X as scikit-learn's checks take it: as it is if it is on a GPU or no array, and as NumPy's
    view of it otherwise; float16 of another library as float32."""
    refuse_other_device(X)
    if is_device_array(X) or (namespace_of(X) is None and not isinstance(X, np.ndarray)):
        return X
    found = to_host(X)
    return found.astype(np.float32) if found is not X and found.dtype == np.float16 else found


def refuse_other_library(estimator: Any, X: Any, method: str) -> None:
    """Refuse what scikit-learn's convention refuses: other arrays than those of fit.

    A model that was trained on a GPU predicts on the host all the same, and the reverse.
    """
    coef = estimator.coef_
    if not dispatches() or is_device_array(X) or is_device_array(coef):
        return
    X_place, coef_place = _place(X), _place(coef)
    if X_place != coef_place:
        raise ValueError(
            f"Inputs passed to {type(estimator).__name__}.{method}() must use the same namespace"
            f" and the same device as those passed to fit(), which were {_words(*coef_place)}, not"
            f" {_words(*X_place)}"
        )


def _place(x: Any) -> tuple[Any, Any]:
    xp = namespace_of(x)
    return xp, None if xp is None else x.device


def _words(xp: Any, device: Any) -> str:
    return "arrays of NumPy" if xp is None else f"arrays of {xp.__name__} on {device}"


def probabilities(scores: Any) -> Any:
    """The probabilities of the classes from decision values, in the library of these.

    For more than two classes, those of one against the rest are divided by their sum.
    """
    xp = namespace_of(scores)
    if xp is not None:
        found = 1.0 / (1.0 + xp.exp(-scores))
        if found.ndim == 1:
            return xp.stack([1.0 - found, found], axis=1)
        total = xp.sum(found, axis=1, keepdims=True)
        uniform = xp.full_like(found, 1.0 / found.shape[1])
        return xp.where(total > 0, found / total, uniform)
    found = expit(scores)
    if found.ndim == 1:
        return np.column_stack([1.0 - found, found])
    total = found.sum(axis=1, keepdims=True)
    uniform = np.full_like(found, 1.0 / found.shape[1])
    return np.divide(found, total, out=uniform, where=total > 0)
