"""What the package needs of a loss."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

TINY = 1e-300
POSITIVE = (0.0, np.inf, "a positive number")


class Loss(Protocol):
    """What the package needs of a loss; `losses/__init__.py` says what they mean."""

    @property
    def task(self) -> str: ...  # "classification" or "regression"
    @property
    def lower(self) -> float: ...
    @property
    def upper(self) -> float: ...
    @property
    def lipschitz(self) -> float: ...

    def value(self, a: Any) -> Any: ...
    def subgradient(self, a: Any) -> Any: ...
    def conjugate(self, alpha: Any) -> Any: ...
    def second_derivative(self, a: Any) -> Any: ...
    def dual_step(self, alpha: Any, a: Any, q: Any) -> Any: ...
