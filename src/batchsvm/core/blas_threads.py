"""How many threads BLAS and LAPACK take: as many as a fit was given."""

from __future__ import annotations

from contextlib import AbstractContextManager
from functools import cache
from typing import Any


@cache
def _controller() -> Any:
    from threadpoolctl import ThreadpoolController  # which comes with scikit-learn

    return ThreadpoolController()


def blas_threads(jobs: int) -> AbstractContextManager[Any]:
    """Within this context, products and factors of matrices take no more threads than this.  More
    than there are free cores wait for each other: on a busy machine of two cores, the factor of a
    matrix of 1000 columns took seconds."""
    return _controller().limit(limits=jobs, user_api="blas")
