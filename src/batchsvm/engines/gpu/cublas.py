"""Matrix products by cuBLAS, called directly.

CuPy's own calls choose their precision for the whole process, and are refused while a CUDA graph is
captured.  A handle of our own, with a stream and work space that it keeps, may be captured.
"""

from __future__ import annotations

import ctypes
import os
from typing import Any

import numpy as np

WORKSPACE_BYTES = 2**25
DEFAULT_ALGORITHM = -1
REAL_32F, REAL_64F = 0, 1  # cudaDataType
COMPUTE = {"tf32": 77, "float32": 68, "float64": 70}  # cublasComputeType_t
# Certificates rely on float64, which a user can have cuBLAS emulate; this type is never emulated.
# It is slower by a sixth.
PEDANTIC_64F = 71
EMULATES = "CUBLAS_EMULATE_DOUBLE_PRECISION"


def _load() -> ctypes.CDLL:
    """The library, which CuPy has found and loaded before."""
    from cupy.cuda import cublas, runtime  # noqa: F401

    version = runtime.runtimeGetVersion() // 1000
    try:
        return ctypes.CDLL(f"libcublas.so.{version}")
    except OSError as error:
        raise OSError(
            f"libcublas.so.{version} must be installed ({error}): pip install"
            f" 'cupy-cuda{version}x[ctk]'"
        ) from None


class Cublas:
    """A handle on one stream."""

    def __init__(self, cupy: Any, stream: Any) -> None:
        self._library = _load()
        self._handle = ctypes.c_void_p()
        emulated = os.environ.get(EMULATES, "0") not in ("", "0")
        self._compute = {**COMPUTE, "float64": PEDANTIC_64F} if emulated else COMPUTE
        self._workspace = cupy.cuda.alloc(WORKSPACE_BYTES)
        self._call("cublasCreate_v2", ctypes.byref(self._handle))
        self.set_stream(stream)

    def set_stream(self, stream: Any) -> None:
        """Work on this stream from now on; its work space has to be given anew."""
        self._call("cublasSetStream_v2", self._handle, ctypes.c_void_p(stream.ptr))
        self._call(
            "cublasSetWorkspace_v2", self._handle, ctypes.c_void_p(self._workspace.ptr),
            ctypes.c_size_t(WORKSPACE_BYTES),
        )  # fmt: skip

    def _call(self, name: str, *arguments: Any) -> None:
        status = getattr(self._library, name)(*arguments)
        if status:
            raise RuntimeError(f"{name} of cuBLAS failed with status {status}")

    def matmul(
        self, A: Any, B: Any, out: Any, transpose_b: bool, accumulate: bool, precision: str
    ) -> None:
        """out = A B or A B', added to out if `accumulate`; stacks are multiplied one by one."""
        real: Any = ctypes.c_double if precision == "float64" else ctypes.c_float
        kind = REAL_64F if precision == "float64" else REAL_32F
        one, keep = real(1.0), real(1.0 if accumulate else 0.0)
        m, n, k = out.shape[-2], out.shape[-1], A.shape[-1]
        a, b, c = (_Operand(array) for array in (A, B, out))
        stacked = out.ndim == 3

        def matrix(operand: _Operand) -> list[Any]:
            stride = [ctypes.c_longlong(operand.stride)] if stacked else []
            return [operand.pointer, kind, operand.leading, *stride]

        # cuBLAS is column-major, where our arrays are their transposes: out' = B' A'.
        self._call(
            "cublasGemmStridedBatchedEx" if stacked else "cublasGemmEx",
            self._handle, int(transpose_b), 0, n, m, k, ctypes.byref(one), *matrix(b), *matrix(a),
            ctypes.byref(keep), *matrix(c), *([len(out)] if stacked else []),
            self._compute[precision], DEFAULT_ALGORITHM,
        )  # fmt: skip


class _Operand:
    """An array as cuBLAS takes it."""

    def __init__(self, array: Any) -> None:
        item = np.dtype(array.dtype).itemsize
        self.pointer = ctypes.c_void_p(array.data.ptr)
        self.leading = array.strides[-2] // item
        self.stride = array.strides[0] // item
