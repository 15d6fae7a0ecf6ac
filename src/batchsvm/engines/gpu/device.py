"""One CUDA device: its arrays, its products, its kernels, and work that is repeated on it.

This file, `uploads.py`, `cublas.py` and `kernels.py` are the only ones that know CuPy.  Everything
else in this folder works with `device.xp`, the array module, and with what a `CudaDevice` offers,
so that the tests can put NumPy in its place (`tests/simulated.py`) and run all but the CUDA code
anywhere.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from itertools import accumulate
from math import prod
from threading import RLock
from typing import Any, NamedTuple

import numpy as np

from batchsvm.engines.gpu.cublas import Cublas
from batchsvm.engines.gpu.sparse_kernels import DeviceKernels
from batchsvm.engines.gpu.uploads import (
    ALIGNMENT,
    LARGE_BYTES,
    SMALL_BYTES,
    SmallUploads,
    upload_in_blocks,
)

INSTALL = "pip install 'batchsvm[gpu-cuda12]' or 'batchsvm[gpu-cuda13]'"
PINNED_BYTES = 2**16  # from here on, arrays are fetched by way of memory that the device writes to
ROUNDS_PER_GRAPH = 8  # launched at once: a launch from Python takes longer than a small kernel


class DeviceError(RuntimeError):
    """There is no device to work on, or no library to reach it by."""


def _cupy() -> Any:
    try:
        import cupy
    except ImportError as error:
        raise DeviceError(
            f'engine="gpu" needs CuPy, which cannot be imported ({error}): {INSTALL}, by the'
            " version of the CUDA driver"
        ) from None
    return cupy


def device_count() -> int:
    """How many CUDA devices CuPy sees; refused with a sentence if it is not there."""
    cupy = _cupy()
    try:
        return int(cupy.cuda.runtime.getDeviceCount())
    except cupy.cuda.runtime.CUDARuntimeError as error:
        raise DeviceError(
            f'engine="gpu" needs a CUDA device, and none was found ({error}): nvidia-smi shows'
            ' what the driver sees; use engine="cpu" on this machine'
        ) from None


class DeviceMemory(NamedTuple):
    """Bytes of a device."""

    free: int
    total: int


def device_of(number: int | None = None) -> CudaDevice:
    """The device of this number; None is CuPy's current one."""
    count = device_count()
    if number is None:
        number = int(_cupy().cuda.runtime.getDevice())
    if not 0 <= number < count:
        raise ValueError(f"device must be from 0 to {count - 1}, not {number}")
    return _device(number)


@lru_cache
def _device(number: int) -> CudaDevice:
    # It stays until the process ends: to end a handle of cuBLAS would break a graph that is being
    # captured, and the garbage collector runs at any time.
    return CudaDevice(number)


class CudaDevice:
    """A device and the stream on which all of this engine's work runs, one after another.

    The stream waits for what others have put on the default stream, and they for it.  Threads
    enter the device one at a time.
    """

    def __init__(self, number: int) -> None:
        cupy = _cupy()
        self.xp, self.number = cupy, number
        self._device = cupy.cuda.Device(number)
        with self._device:
            self._stream = cupy.cuda.Stream()
            self._small_uploads = SmallUploads(cupy, self._stream)
            self._cublas = Cublas(cupy, self._stream)
            properties = cupy.cuda.runtime.getDeviceProperties(number)
        self.name = properties["name"].decode()
        self.multiprocessors = int(properties["multiProcessorCount"])
        self.kernels = DeviceKernels(cupy)
        self._lock = RLock()
        self._depth = 0  # how often the thread that is here has entered

    def __enter__(self) -> CudaDevice:
        self._lock.acquire()
        try:
            if self._depth == 0:
                self._device.__enter__()
                self._stream.__enter__()
        except BaseException:
            self._lock.release()
            raise
        self._depth += 1
        return self

    def __exit__(self, *error: Any) -> None:
        self._depth -= 1
        if self._depth == 0:
            self._stream.__exit__(*error)
            self._device.__exit__(*error)
        self._lock.release()

    @property
    def memory(self) -> DeviceMemory:
        """What is free, with what CuPy has set aside and does not use."""
        with self._device:
            free, total = self._device.mem_info
            return DeviceMemory(free + self.xp.get_default_memory_pool().free_bytes(), total)

    def zeros(self, *arrays: tuple[tuple[int, ...], str]) -> list[Any]:
        """Arrays of zeros of these shapes and types that lie in one piece of memory: to clear it
        takes one call."""
        sizes = [prod(shape) * np.dtype(kind).itemsize for shape, kind in arrays]
        begins = [0, *accumulate(-(-size // ALIGNMENT) * ALIGNMENT for size in sizes)]
        whole = self.xp.zeros(max(begins[-1], 1), np.uint8).data
        return [
            self.xp.ndarray(shape, kind, whole + begin)
            for (shape, kind), begin in zip(arrays, begins, strict=False)
        ]

    def upload(self, array: Any, dtype: Any = None) -> Any:
        """An array of this host, or of this device, on this device."""
        if isinstance(array, np.ndarray):
            array = np.asarray(array, dtype, order="C")
            if array.nbytes <= SMALL_BYTES:
                with self._lock:
                    return self._small_uploads.upload(array)
        return self.xp.asarray(array, dtype)

    def upload_large(self, *arrays: np.ndarray) -> list[Any]:
        """Several arrays on this device, the large ones in blocks."""
        arrays = tuple(map(np.ascontiguousarray, arrays))
        large = [array for array in arrays if array.nbytes >= LARGE_BYTES]
        there = iter(upload_in_blocks(self.xp, self._stream, large) if large else ())
        return [
            next(there) if array.nbytes >= LARGE_BYTES else self.upload(array) for array in arrays
        ]

    def to_host(self, array: Any) -> np.ndarray:
        if array.nbytes < PINNED_BYTES:
            return self.xp.asnumpy(array)
        return self.to_host_for_a_moment(array).copy()

    def to_host_for_a_moment(self, array: Any) -> np.ndarray:
        """The same in memory that the device writes to by itself, several times as fast; there is
        little of it, so that nobody keeps it."""
        import cupyx

        out = cupyx.empty_pinned(array.shape, array.dtype)
        return self.xp.asnumpy(array, out=out)

    def synchronize(self) -> None:
        self._stream.synchronize()

    def matmul(
        self,
        A: Any,
        B: Any,
        out: Any,
        transpose_b: bool = False,
        accumulate: bool = False,
        precision: str = "float64",
    ) -> None:
        """out = A B or A B', added to out if `accumulate`; row-major, of one type; A and out may be
        the first columns of wider arrays.  A stack of matrices is multiplied one by one."""
        self._cublas.matmul(A, B, out, transpose_b, accumulate, precision)

    def repeated(self, work: Callable[[], None]) -> Callable[[int], None]:
        """A function that does `work`, which allocates nothing, a number of times."""
        return _Replay(work, self)

    def captured(self, work: Callable[[], None]) -> Any:
        """The work as a CUDA graph, or None where the driver refuses it, as it may while other
        threads use the device.

        It is captured on a stream of its own: the working stream waits for the default stream,
        which nobody may use while it is captured.
        """
        capture = self.xp.cuda.Stream(non_blocking=True)
        self._cublas.set_stream(capture)
        try:
            with capture:
                capture.begin_capture()
                try:
                    work()
                finally:
                    graph = capture.end_capture()
        except RuntimeError:  # of CUDA: nothing was launched
            return None
        finally:
            self._cublas.set_stream(self._stream)
        return graph

    def launch(self, graph: Any) -> None:
        graph.launch(self._stream)


class _Replay:
    """Work captured as a CUDA graph; the first time it runs as it is, which loads its kernels."""

    def __init__(self, work: Callable[[], None], device: CudaDevice) -> None:
        self._work, self._device, self._has_run = work, device, False
        self._graphs: dict[int, Any] = {}

    def _graph(self, rounds: int) -> Any:
        def several() -> None:
            for _ in range(rounds):
                self._work()

        if rounds not in self._graphs:
            self._graphs[rounds] = self._device.captured(several)
        return self._graphs[rounds] or several

    def __call__(self, count: int) -> None:
        if count and not self._has_run:
            self._work()
            self._has_run, count = True, count - 1
        while count:
            rounds = ROUNDS_PER_GRAPH if count >= ROUNDS_PER_GRAPH else 1
            graph = self._graph(rounds)
            if callable(graph):  # launched one by one, it takes longer
                graph()
            else:
                self._device.launch(graph)
            count -= rounds
