"""CUDA C compiled by NVRTC through CuPy, which keeps what it has compiled on disk; and cuBLAS.

Each method launches one kernel of the `.cu` file that it names.  `tests/engines/simulated.py` has
the same methods in NumPy.
"""

from __future__ import annotations

from functools import lru_cache
from importlib import resources
from typing import TYPE_CHECKING, Any

import numpy as np

from batchsvm.core.certificate import SUM_COUNT
from batchsvm.losses import Loss

if TYPE_CHECKING:
    from batchsvm.engines.gpu.gram import GramState
    from batchsvm.engines.gpu.passes import PointPass
    from batchsvm.engines.gpu.rows import DenseRows
    from batchsvm.engines.gpu.sparse_rows import CsrRows

FORMULAS = {  # arguments of each, beside the parameter of the loss
    "value": ("a",),
    "subgradient": ("a",),
    "conjugate": ("alpha",),
    "dual_step": ("alpha", "a", "q"),
}
CTYPES = {"float32": "float", "float64": "double", "float16": "Half", "bfloat16": "Half"}
TINY = {"float32": "1e-30f", "float64": "1e-300"}
ALMOST_ONE = {"float32": "(1 - 1e-6f)", "float64": "(1 - 1e-9)"}
CHUNK_ROWS = 2048  # summed by one block of threads
THREADS = 256
SOLVE_WARPS = 4  # problems per block of threads


def loss_source(loss: Loss) -> str:
    """The formulas of a loss as device functions; refused if it has none."""
    bodies = getattr(loss, "cuda", None)
    if bodies is None:
        raise ValueError(
            f'loss must have CUDA formulas for engine="gpu", and {type(loss).__name__} has none:'
            " give it the attribute `cuda` (docs/add_a_loss.md), or use another engine"
        )
    [field] = loss._fields  # type: ignore[attr-defined]
    lines = [f"#define CLASSIFICATION {int(loss.task == 'classification')}"]
    for name, arguments in FORMULAS.items():
        listed = ", ".join(f"T {argument}" for argument in (*arguments, field))
        lines.append(f"__device__ inline T loss_{name}({listed}) {{ {bodies[name]} }}")
    return "\n".join(lines)


def in_double(loss: Loss) -> str:
    """The formulas of a loss in double too, beside those in float."""
    return f"#undef T\n#define T double\n{loss_source(loss)}\n#undef T\n#define T float"


def parameter_of(loss: Loss) -> float:
    """The one number that a loss has."""
    return float(tuple(loss)[0])  # type: ignore[arg-type]


@lru_cache
def _file(name: str) -> str:
    return (resources.files(__package__) / "cuda" / name).read_text(encoding="utf-8")


class CudaKernels:
    """The kernels of one device."""

    def __init__(self, cupy: Any) -> None:
        self._cupy = cupy
        self._functions: dict[Any, Any] = {}

    # Compiling and launching.

    def function(
        self, file: str, name: str, real: str, loss: Loss | None = None, **defines: Any
    ) -> Any:
        """A kernel of a file, for numbers of this type and for the formulas of a loss."""
        key = file, name, real, None if loss is None else type(loss), tuple(defines.items())
        if key not in self._functions:
            lines = [f"#define T {CTYPES[real]}", f"#define TINY {TINY[real]}"]
            lines += [f"#define ALMOST_ONE {ALMOST_ONE[real]}"]
            lines += [f"#define {word} {value}" for word, value in defines.items()]
            parts = ["\n".join(lines), _file("reduce.cuh")]
            parts += [_file("readers.cuh")] if "SOURCE" in defines else []
            if loss is not None:
                parts += [loss_source(loss), _file("examples.cuh")]
                parts += [in_double(loss)] if real == "float32" and "RULE" in defines else []
            options = ("-std=c++17", *(("--use_fast_math",) if real == "float32" else ()))
            module = self._cupy.RawModule(code="\n".join([*parts, _file(file)]), options=options)
            self._functions[key] = module.get_function(name)
        return self._functions[key]

    # Rows (rows.cu).

    def gather(self, rows: DenseRows, cut: Any, out: Any, state: GramState | None = None) -> None:
        """out[r] = the row cut[r]; with a state, the rows of the batches of its round."""
        kernel = self.function("rows.cu", "gather", str(out.dtype), **_source_of(rows))
        order, round_ = (None, None) if state is None else (state.order, state.round)
        batch_rows, batches = (1, 1) if state is None else (state.B, state.S)
        arguments = rows.values, cut, order, round_, out, batch_rows, batches, rows.d
        kernel((len(out),), (THREADS,), _typed(arguments))

    def norms2(self, rows: DenseRows, out: Any) -> None:
        kernel = self.function("rows.cu", "row_norms2", "float64", **_source_of(rows))
        blocks = -(-rows.n * 32 // THREADS)
        arguments = rows.values, out, np.int64(rows.n), rows.d
        kernel((blocks,), (THREADS,), _typed(arguments))

    # Rounds (gram.cu, round.cu).

    def solve(self, state: GramState) -> None:
        """The steps of the batches of a round."""
        s = state
        kernel = self.function("gram.cu", "solve", s.real, s.loss, B=s.B)
        warps = min(SOLVE_WARPS, s.K)
        real = np.dtype(s.real).type
        kernel(
            (-(-s.K // warps), s.S),
            (32 * warps,),
            _typed(
                (
                    s.products, s.gram, int(s.gram_is_kept), s.alpha, s.fresh, s.changes, s.W,
                    s.W.shape[1], s.d, s.cut, s.order, s.round, *_targets(s.targets), s.constants,
                    s.problems, s.unit, s.bias, s.beta, s.estimate, s.partial, s.K, s.sweeps,
                    real(parameter_of(s.loss)),
                )
            ),
        )  # fmt: skip

    def finish(self, state: GramState, gamma: float) -> None:
        """beta and theta of several batches, and w and alpha moved by theta."""
        s, real = state, np.dtype(state.real).type
        kernel = self.function("round.cu", "finish", s.real)
        kernel(
            (s.K,),
            (THREADS,),
            _typed(
                (
                    s.W, s.Delta, s.partial, s.beta, s.theta, s.refused, s.unit, s.bias, s.K, s.S,
                    s.d, s.W.shape[1], real(gamma), real(s.curvature),
                )
            ),
        )  # fmt: skip
        kernel = self.function("round.cu", "apply", s.real)
        arguments = s.alpha, s.fresh, s.theta, s.order, s.round, s.K, s.B
        kernel((-(-s.K * s.B // THREADS), s.S), (THREADS,), _typed(arguments))

    def advance(self, state: GramState) -> None:
        self.function("round.cu", "advance", state.real)((1,), (1,), (state.round,))

    # Sums for certificates (sums.cu).

    def point_sums(self, at: PointPass, products: Any, begin: int) -> Any:
        """The seven sums over the positions from `begin` on, (7, K), from products (K, count)."""
        K, count = products.shape
        chunks = -(-count // CHUNK_ROWS)
        out = self._cupy.empty((SUM_COUNT, chunks, K))
        kernel = self._sums_kernel("point_sums", at)
        kernel(
            (chunks, K),
            (THREADS,),
            _typed(
                (
                    products, at.dual.alpha, at.dual.cut, np.int64(begin), count, at.dual.B,
                    *_targets(at.targets), at.constants, at.problems, at.norms2, at.bias, at.w_bias,
                    at.per_length, at.constant_error, np.float64(at.relative_error), K,
                    *_box(at.loss), out,
                )
            ),
        )  # fmt: skip
        return out.sum(axis=1)

    def coefficients(self, at: PointPass, begin: int, out: Any) -> None:
        """alpha_i s_i of the positions from `begin` on, into out (K, count)."""
        K, count = out.shape
        kernel = self._sums_kernel("coefficients", at)
        kernel(
            (-(-count // THREADS), K),
            (THREADS,),
            _typed(
                (
                    at.dual.alpha, at.dual.cut, np.int64(begin), count, at.dual.B,
                    *_targets(at.targets), at.constants, at.problems, K, *_box(at.loss)[:2], out,
                )
            ),
        )  # fmt: skip

    def _sums_kernel(self, name: str, at: PointPass) -> Any:
        alpha = CTYPES[str(at.dual.alpha.dtype)]
        return self.function(
            "sums.cu", name, "float64", at.loss, ALPHA=alpha, CHUNK=CHUNK_ROWS
        )

    # cuBLAS.

    def matmul(
        self, A: Any, B: Any, out: Any, transpose_b: bool, accumulate: bool, precision: str
    ) -> None:
        cublas = self._cupy.cuda.cublas
        handle = self._cupy.cuda.device.get_cublas_handle()
        compute = {
            "tf32": cublas.CUBLAS_COMPUTE_32F_FAST_TF32,
            "float32": cublas.CUBLAS_COMPUTE_32F,
            "float64": cublas.CUBLAS_COMPUTE_64F_PEDANTIC,  # no emulation: certificates rely on it
        }[precision]
        real = np.float64 if precision == "float64" else np.float32
        kind = self._cupy.cuda.runtime.CUDA_R_64F if real is np.float64 else 0
        one, zero = np.array(1, real), np.array(1 if accumulate else 0, real)
        m, n, k = out.shape[-2], out.shape[-1], A.shape[-1]
        leading = [array.strides[-2] // array.itemsize for array in (A, B, out)]
        # cuBLAS is column-major, where our arrays are their transposes: out' = B' A'.
        operations = cublas.CUBLAS_OP_T if transpose_b else cublas.CUBLAS_OP_N, cublas.CUBLAS_OP_N
        if out.ndim == 2:
            cublas.gemmEx(
                handle, *operations, n, m, k, one.ctypes.data, B.data.ptr, kind, leading[1],
                A.data.ptr, kind, leading[0], zero.ctypes.data, out.data.ptr, kind, leading[2],
                compute, -1,
            )  # fmt: skip
            return
        steps = [array.strides[0] // array.itemsize for array in (A, B, out)]
        cublas.gemmStridedBatchedEx(
            handle, *operations, n, m, k, one.ctypes.data, B.data.ptr, kind, leading[1], steps[1],
            A.data.ptr, kind, leading[0], steps[0], zero.ctypes.data, out.data.ptr, kind,
            leading[2], steps[2], len(out), compute, -1,
        )  # fmt: skip


def _source_of(rows: DenseRows | CsrRows) -> dict[str, Any]:
    halves = {"float16": 16, "bfloat16": 32}
    half = {"HALF": halves[rows.kind]} if rows.kind in halves else {}
    return {"SOURCE": CTYPES[rows.kind], **half}


def _targets(targets: Any) -> tuple[Any, ...]:
    """Codes, y, weights and offsets, and the distances between the columns of two problems."""
    columns = targets.y, targets.weights, targets.offsets
    strides = [0 if array is None or len(array) == 1 else array.shape[1] for array in columns]
    return (targets.codes, *columns, *map(np.int64, strides))


def _box(loss: Loss) -> tuple[np.float64, ...]:
    return np.float64(loss.lower), np.float64(loss.upper), np.float64(parameter_of(loss))


def _typed(arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    """Arguments as a kernel takes them: no array is a null pointer, an int is 32 bits wide."""
    return tuple(
        np.uintp(0) if a is None else np.int32(a) if type(a) is int else a for a in arguments
    )
