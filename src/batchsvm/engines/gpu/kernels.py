"""CUDA C compiled by NVRTC through CuPy, which keeps what it has compiled on disk.

Each method launches one kernel of the `.cu` file that it names.  `tests/simulated.py` has
the same methods in NumPy.
"""

from __future__ import annotations

from functools import cached_property, lru_cache
from importlib import resources
from typing import TYPE_CHECKING, Any

import numpy as np

from batchsvm.core.certificate import SUM_COUNT
from batchsvm.losses import Loss

if TYPE_CHECKING:
    from batchsvm.engines.gpu.passes import PointPass
    from batchsvm.engines.gpu.rounds import GramState
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
HALF_OF_THE_DIGITS = {"float32": "2e-4f", "float64": "1e-9"}
ALMOST_ONE = {"float32": "(1 - 1e-6f)", "float64": "(1 - 1e-9)"}
COOPERATIVE = ("sparse.cu", "asynchronous.cu")  # blocks wait for each other in these
CHUNK_ROWS = 2048  # summed by one block of threads
THREADS = 256
FEW_PROBLEMS = 4  # up to so many, a block of threads is as large as it can be
SOLVE_WARPS = 8  # problems per block of threads, each with a warp
SOLVE_THREADS = 64  # problems per block of threads, each with a thread
MANY_PROBLEMS = 256  # from here on, a thread for each makes up for the warps that are missing
MAX_SHARED_BYTES = 200 * 2**10  # of a Gram matrix that a block of threads shares


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
    [field] = loss._fields  # type: ignore[attr-defined]
    return float(getattr(loss, field))


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
            lines += [f"#define HALF_OF_THE_DIGITS {HALF_OF_THE_DIGITS[real]}"]
            lines += [f"#define {word} {value}" for word, value in defines.items()]
            parts = ["\n".join(lines), _file("reduce.cuh")]
            parts += [_file("numbers.cuh")] if "SOURCE" in defines else []
            parts += [_file("strips.cuh")] if "STRIPS" in defines else []
            if loss is not None:
                parts += [loss_source(loss), _file("examples.cuh")]
                parts += [_file("permutation.cuh")] if file == "asynchronous.cu" else []
                if file in COOPERATIVE:
                    parts += [_file("grid.cuh"), in_double(loss) if real == "float32" else ""]
            options = ("-std=c++17", *(("--use_fast_math",) if real == "float32" else ()))
            module = self._cupy.RawModule(code="\n".join([*parts, _file(file)]), options=options)
            self._functions[key] = module.get_function(name)
        return self._functions[key]

    @cached_property
    def _shared_bytes(self) -> int:
        """What a block of threads may share on this device, if it asks for it."""
        attributes = self._cupy.cuda.Device().attributes
        return min(MAX_SHARED_BYTES, int(attributes["MaxSharedMemoryPerBlockOptin"]))

    # Rows (rows.cu).

    def gather(self, rows: DenseRows, cut: Any, out: Any, state: GramState | None = None) -> None:
        """out[r] = the row cut[r]; with a state, the rows of the batches of its round."""
        kernel = self.function("rows.cu", "gather", str(out.dtype), **_source_of(rows))
        batch_rows, batches = (1, 1) if state is None else (state.B, state.S)
        arguments = rows.values, cut, *_round_of(state), out, batch_rows, batches, rows.d
        kernel((len(out),), (THREADS,), _typed(arguments))

    def row_products(
        self, rows: DenseRows, cut: Any, W: Any, out: Any, state: GramState | None = None
    ) -> None:
        """Products of W with the rows of the cut where they lie; with a state, of its round."""
        kernel = self.function("direct.cu", "row_products", str(out.dtype), **_source_of(rows))
        K, places = out.shape
        stride = W.strides[0] // W.itemsize
        arguments = rows.values, W, stride, cut, *_round_of(state), out, *_sizes(state, places)
        kernel((-(-places * 32 // THREADS),), (THREADS,), _typed((*arguments, rows.d, K)))

    def add_rows(
        self, rows: DenseRows, cut: Any, changes: Any, out: Any, state: GramState | None = None
    ) -> None:
        """Sums of changes times rows in parts, out (parts, K, d); with a state, of its round."""
        kernel = self.function("direct.cu", "add_rows", str(out.dtype), **_source_of(rows))
        K, places = changes.shape
        arguments = rows.values, changes, cut, *_round_of(state), out, *_sizes(state, places)
        threads = min(THREADS, -(-rows.d // 32) * 32)
        grid = len(out), -(-rows.d // threads), K
        kernel(grid, (threads,), _typed((*arguments, rows.d, K)))

    def norms2(self, rows: DenseRows, out: Any) -> None:
        kernel = self.function("rows.cu", "row_norms2", "float64", **_source_of(rows))
        blocks = -(-rows.n * 32 // THREADS)
        arguments = rows.values, out, np.int64(rows.n), rows.d
        kernel((blocks,), (THREADS,), _typed(arguments))

    # Rounds (gram.cu, round.cu).

    def solve(self, state: GramState) -> None:
        """The steps of the batches of a round."""
        s, real = state, np.dtype(state.real)
        arguments = (
            s.products, s.gram, int(s.gram_is_kept), s.alpha, s.fresh, s.changes, s.W,
            s.W.shape[1], s.d, s.cut, s.order, s.round, *_targets(s.targets), s.constants,
            s.problems, s.unit, s.bias, s.beta, s.estimate, s.partial, s.K,
        )  # fmt: skip
        parameter = real.type(parameter_of(s.loss))
        if self._has_thread_per_problem(s):
            kernel = self.function(
                "gram_many.cu", "solve_many", s.real, s.loss, B=s.B, THREADS=SOLVE_THREADS
            )
            grid, threads = (-(-s.K // SOLVE_THREADS), s.S), SOLVE_THREADS
            shared = s.B * (s.B + SOLVE_THREADS) * real.itemsize
            self._launch(kernel, grid, threads, (*arguments, parameter), shared)
            return
        shared = s.B * s.B * real.itemsize
        shared = shared if shared <= self._shared_bytes else 0
        kernel = self.function("gram.cu", "solve", s.real, s.loss, B=s.B, SHARED=int(shared > 0))
        # Warps without a problem help to copy the Gram matrix.
        warps = SOLVE_WARPS if shared else min(SOLVE_WARPS, s.K)
        grid, threads = (-(-s.K // warps), s.S), 32 * warps
        self._launch(kernel, grid, threads, (*arguments, s.sweeps, parameter), shared)

    def _has_thread_per_problem(self, s: GramState) -> bool:
        """Or else a warp, which passes over rows at rest."""
        has_rest = getattr(s.loss, "corners", True)
        if has_rest or s.K < MANY_PROBLEMS or s.sweeps > 1:
            return False
        return s.B * (s.B + SOLVE_THREADS) * np.dtype(s.real).itemsize <= self._shared_bytes

    def _launch(
        self, kernel: Any, grid: tuple[int, int], threads: int, arguments: Any, shared: int
    ) -> None:
        """Launch a kernel whose blocks of threads share so many bytes."""
        if kernel.max_dynamic_shared_size_bytes < shared:
            kernel.max_dynamic_shared_size_bytes = shared
        kernel(grid, (threads,), _typed(arguments), shared_mem=shared)

    def finish(self, state: GramState, gamma: float) -> None:
        """beta and theta of the batches of a round, w and alpha moved by theta; the next round."""
        s, real = state, np.dtype(state.real).type
        kernel = self.function("round.cu", "finish", s.real)
        threads = min(1024, -(-s.d // 32) * 32) if s.K <= FEW_PROBLEMS else THREADS
        kernel(
            (s.K,),
            (threads,),
            _typed(
                (
                    s.W, s.Delta, s.partial, s.beta, s.refused, s.alpha, s.fresh, s.order, s.round,
                    s.ticket, s.unit, s.bias, s.K, s.S, s.B, s.d, s.W.shape[1], len(s.Delta),
                    real(gamma), real(s.curvature),
                )
            ),
        )  # fmt: skip

    def advance(self, state: GramState) -> None:
        """The next round, where `finish` has not ended this one."""
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
                    products, at.dual.alpha, at.dual.cut, *divmod(begin, at.dual.B), count,
                    at.dual.B, *_targets(at.targets), at.constants, at.problems, at.lengths,
                    at.bias, at.w_bias, at.per_length, at.constant_error,
                    np.float64(at.relative_error), K, *_box(at.loss), out,
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
                    at.dual.alpha, at.dual.cut, *divmod(begin, at.dual.B), count, at.dual.B,
                    *_targets(at.targets), at.constants, at.problems, K, *_box(at.loss)[:2], out,
                )
            ),
        )  # fmt: skip

    def _sums_kernel(self, name: str, at: PointPass) -> Any:
        alpha = CTYPES[at.dual.alpha.dtype.name]
        return self.function(
            "sums.cu",
            name,
            "float64",
            at.loss,
            ALPHA=alpha,
            CHUNK=CHUNK_ROWS,
            ABSOLUTE=int(at.dual.is_absolute),
        )


def _round_of(state: GramState | None) -> tuple[Any, Any]:
    return (None, None) if state is None else (state.order, state.round)


def _sizes(state: GramState | None, places: int) -> tuple[int, int]:
    return (places, 1) if state is None else (state.B, state.S)


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
