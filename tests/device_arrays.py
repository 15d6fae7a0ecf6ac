"""Arrays on a GPU, for tests on machines that have none."""

from __future__ import annotations

import numpy as np


class FakeDeviceArray:
    """NumPy inside, and a CUDA device in the words of DLPack; NumPy must not read it by itself."""

    def __init__(self, values, kind=2):
        self.values, self.kind = np.asarray(values), kind
        self.shape, self.ndim, self.dtype = self.values.shape, self.values.ndim, self.values.dtype

    def __len__(self):
        return len(self.values)

    def __dlpack_device__(self):
        return self.kind, 0

    def __dlpack__(self, **options):
        raise BufferError("this array is on a GPU")

    def __array__(self, dtype=None, copy=None):
        raise TypeError("implicit conversion to a NumPy array is not allowed")

    def get(self):
        return self.values


def fake_cupy_sparse(matrix):
    """A sparse matrix whose type claims to be CuPy's; `get` is SciPy's."""
    parts = {name: getattr(matrix, name) for name in ("data", "indices", "indptr", "shape")}
    methods = {"get": lambda self: matrix, "tocsr": lambda self: self}
    kind = type("csr_matrix", (), {**parts, **methods, "__module__": "cupyx.scipy.sparse._csr"})
    return kind()
