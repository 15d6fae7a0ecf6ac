"""Losses, conjugates and objectives written a second time, the textbook way.

Nothing here is shared with the package: piecewise definitions, dense float64 algebra.
"""

from __future__ import annotations

import numpy as np
from scipy.special import xlogy


def hinge(a, m=1.0):
    return np.where(a < m, m - a, 0.0)


def smoothed_hinge(a, g):
    return np.select([a >= 1, a <= 1 - g], [0.0, 1 - a - g / 2], (1 - a) ** 2 / (2 * g))


def squared_hinge(a, m=1.0):
    return np.where(a < m, (m - a) ** 2, 0.0)


def logistic(a):
    return np.logaddexp(0.0, -a)


def absolute(a, _=0.0):
    return np.where(a >= 0, a, -a)


def epsilon_insensitive(a, eps):
    return np.select([a > eps, a < -eps], [a - eps, -a - eps], 0.0)


def squared_epsilon_insensitive(a, eps):
    return np.select([a > eps, a < -eps], [(a - eps) ** 2, (a + eps) ** 2], 0.0)


def squared_error(a, f):
    return f * a**2


def quantile(a, tau):
    return np.where(a < 0, -tau * a, (1 - tau) * a)


def huber(a, delta):
    return np.where(np.abs(a) <= delta, a**2 / 2, delta * np.abs(a) - delta**2 / 2)


VALUES = {
    "hinge": hinge,
    "smoothed_hinge": smoothed_hinge,
    "squared_hinge": squared_hinge,
    "logistic": logistic,
    "absolute": absolute,
    "epsilon_insensitive": epsilon_insensitive,
    "squared_epsilon_insensitive": squared_epsilon_insensitive,
    "squared_error": squared_error,
    "quantile": quantile,
    "huber": huber,
}

# phi*(-alpha), from the tables in Shalev-Shwartz and Zhang and by hand.
CONJUGATES = {
    "hinge": lambda v, m=1.0: -m * v,
    "smoothed_hinge": lambda v, g: -v + g * v**2 / 2,
    "squared_hinge": lambda v, m=1.0: -m * v + v**2 / 4,
    "logistic": lambda v: xlogy(v, v) + xlogy(1 - v, 1 - v),
    "absolute": lambda v, _=0.0: np.zeros_like(v),
    "epsilon_insensitive": lambda v, eps: eps * np.abs(v),
    "squared_epsilon_insensitive": lambda v, eps: eps * np.abs(v) + v**2 / 4,
    "squared_error": lambda v, f: v**2 / (4 * f),
    "quantile": lambda v, tau: np.zeros_like(v),
    "huber": lambda v, delta: v**2 / 2,
}

DEFAULTS = {
    "smoothed_hinge": (1.0,),
    "epsilon_insensitive": (0.1,),
    "squared_epsilon_insensitive": (0.1,),
    "squared_error": (0.5,),
    "quantile": (0.5,),
    "huber": (1.0,),
}
REGRESSION = {"absolute", "epsilon_insensitive", "squared_epsilon_insensitive",
              "squared_error", "quantile", "huber"}  # fmt: skip


def dense(X):
    return np.asarray(X.toarray() if hasattr(X, "toarray") else X, dtype=np.float64)


def w_of_alpha(X, y, alpha, name, lam, c=None):
    X = dense(X)
    N = X.shape[0] if c is None else np.sum(c)
    return X.T @ (alpha * (1.0 if name in REGRESSION else y)) / (lam * N)


def primal(X, y, w, name, lam, c=None, parameters=None):
    X = dense(X)
    c = np.ones(X.shape[0]) if c is None else np.asarray(c, float)
    z = X @ w
    a = z - y if name in REGRESSION else y * z
    values = VALUES[name](a, *(parameters or DEFAULTS.get(name, ())))
    return (c * values).sum() / c.sum() + lam / 2 * w @ w


def dual(X, y, alpha, name, lam, c=None, parameters=None):
    X = dense(X)
    c = np.ones(X.shape[0]) if c is None else np.asarray(c, float)
    kept = c > 0
    relative = alpha[kept] / c[kept]
    conjugates = c[kept] * CONJUGATES[name](relative, *(parameters or DEFAULTS.get(name, ())))
    linear = (alpha * y).sum() if name in REGRESSION else 0.0
    w = w_of_alpha(X, y, alpha, name, lam, c)
    return (linear - conjugates.sum()) / c.sum() - lam / 2 * w @ w
