"""How this package uses Numba: one cache on disk, one line of explanation, one way into kernels.

Numba's disk cache watches only the file that a kernel is written in, while our kernels call
losses and rows that live in other files.  The cache folder is therefore named by a hash of all
compiled sources, inside the user's own cache folder.  Numba executes what it finds there, so
every cache file ends with a checksum, and a damaged one is compiled anew.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import io
import os
import re
import shutil
import signal
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numba
from numba import types
from numba.core import config, event
from numba.core.caching import IndexDataCacheFile, NullCache
from numba.extending import overload_method, register_jitable
from numba.misc.appdirs import user_cache_dir

PACKAGE = Path(__file__).parent
# Where the text that kernels are compiled from stands.
COMPILED_SOURCES = (
    "compiled.py", "losses/*.py", "core/vectors.py", "methods/*.py", "engines/*.py",
    "engines/cpu/*.py", "files/decimals.py", "files/libsvm.py",
)  # fmt: skip
KEPT_FOLDERS = 4  # caches of other versions that are kept, the last used ones
CHECKSUM_BYTES = 32
_FOLDER = re.compile(r"batchsvm-[0-9a-f]{16}")
# Kernels allocate nothing, and so need no reference counts (_nrt), which would cost an atomic
# operation at every use of an array.  Sums may be reordered (to vectorise them); NaN and
# infinity keep their meaning.
JIT_OPTIONS: dict[str, Any] = {
    "nogil": True,
    "_nrt": False,
    "error_model": "numpy",
    "fastmath": {"reassoc", "contract", "nsz", "arcp"},
}

# Of functions whose sums are made in the order that they say.
IN_ORDER: dict[str, Any] = {**JIT_OPTIONS, "fastmath": {"contract"}, "forceinline": True}


def user_cache() -> Path:
    """The folder for what can be made again, in the user's own cache."""
    return Path(user_cache_dir("batchsvm", appauthor=False))


@functools.cache
def cache_folder() -> Path | None:
    """Folder of the compiled kernels: the user's cache, keyed by a hash of the compiled sources.

    None if it cannot be written to.  Numba would then fall back to folders that do not
    know our hash, and might serve stale code.
    """
    digest = hashlib.sha256(numba.__version__.encode())
    for source in sorted(path for glob in COMPILED_SOURCES for path in PACKAGE.glob(glob)):
        digest.update(source.read_bytes())
    base = Path(config.CACHE_DIR or user_cache())
    folder = base / f"batchsvm-{digest.hexdigest()[:16]}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        os.utime(folder)  # this folder is the last used one
    except OSError:
        return None
    if not os.access(folder, os.W_OK):
        return None
    _remove_old_folders(folder)
    return folder


def _remove_old_folders(current: Path) -> None:
    """Remove caches of other versions, but for the last used ones."""
    others = []
    for folder in current.parent.iterdir():
        if folder != current and _FOLDER.fullmatch(folder.name):
            with contextlib.suppress(OSError):  # another process has removed it
                others.append((folder.stat().st_mtime, folder))
    for _, folder in sorted(others, reverse=True)[KEPT_FOLDERS:]:
        shutil.rmtree(folder, ignore_errors=True)


class _CheckedCacheFile(IndexDataCacheFile):
    """Cache files that end with a checksum; a damaged one counts as missing."""

    @contextlib.contextmanager
    def _open_for_write(self, filepath: str) -> Iterator[io.BytesIO]:
        content = io.BytesIO()
        yield content
        written = content.getvalue()
        temporary = f"{filepath}.tmp.{uuid.uuid4().hex[:16]}"
        try:
            with open(temporary, "wb") as sink:
                sink.write(written + hashlib.sha256(written).digest())
                sink.flush()
                os.fsync(sink.fileno())
            os.replace(temporary, filepath)
        finally:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(temporary)

    def _load_index(self) -> dict[Any, Any]:
        return super()._load_index() if _is_whole(self._index_path) else {}

    def _load_data(self, name: str) -> Any:
        path = self._data_path(name)
        if not _is_whole(path):
            raise FileNotFoundError(path)  # which Numba answers by compiling
        return super()._load_data(name)


def _is_whole(path: str) -> bool:
    """Whether a file ends with the checksum of the rest of it."""
    try:
        content = Path(path).read_bytes()
    except OSError:
        return False
    body, checksum = content[:-CHECKSUM_BYTES], content[-CHECKSUM_BYTES:]
    return hashlib.sha256(body).digest() == checksum


class Kernel:
    """A compiled function that Python calls; kept on disk between processes.

    A loss class from outside the package is compiled without the disk cache, because
    nothing would tell the cache that its source has changed.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        functools.update_wrapper(self, function)
        self._function = function
        self._cached = numba.njit(**JIT_OPTIONS)(function)
        folder = cache_folder()
        if folder is not None:
            previous, config.CACHE_DIR = config.CACHE_DIR, str(folder)
            try:
                self._cached.enable_caching()
            finally:
                config.CACHE_DIR = previous
            file = self._cached._cache._cache_file
            file.__class__ = _CheckedCacheFile

    @functools.cached_property
    def _uncached(self) -> Any:
        return numba.njit(**JIT_OPTIONS)(self._function)

    def __call__(self, *args: Any) -> Any:
        for argument in args:
            if isinstance(argument, tuple) and _is_foreign(argument):
                return self._uncached(*args)
        return self._cached(*args)


def _is_foreign(argument: tuple[Any, ...]) -> bool:
    """Whether this is a loss whose class is not ours, or a struct (a NamedTuple) of ours that
    holds one: as its loss, or as the one that it smooths."""
    if not _is_ours(argument.__class__):
        return True
    parts = (getattr(argument, name, None) for name in ("loss", "base"))
    return any(isinstance(part, tuple) and _is_foreign(part) for part in parts)


@functools.cache
def _is_ours(kind: Any) -> bool:
    return not hasattr(kind, "_fields") or kind.__module__.startswith("batchsvm.")


STRUCT_METHODS: set[str] = set()


def struct_methods(*methods: Callable[..., Any]) -> None:
    """Let kernels call these methods on any of our structs (NamedTuples) that has them.

    The struct's class is known when a kernel is compiled, so a kernel is written once
    for all losses and storages, and the method's own Python body is what gets compiled.
    Names are shared by all structs: a method has the same arguments in each of them, and no
    field of any may bear the name of a method.
    """
    for method in methods:
        if method.__name__ not in STRUCT_METHODS:
            STRUCT_METHODS.add(method.__name__)
            _register(method)


def _register(method: Callable[..., Any]) -> None:
    name = method.__name__

    @functools.wraps(method)
    def overload(self: Any, *args: Any) -> Any:
        return getattr(self.instance_class, name, None)

    # Inlined by LLVM: passing a struct to a call costs more than what most methods do.
    options = {**JIT_OPTIONS, "forceinline": True}
    overload_method(types.BaseNamedTuple, name, jit_options=options)(overload)


def callable_in_kernels(function: Callable[..., Any]) -> None:
    """Let kernels call this plain function."""
    register_jitable(function)


def summed_in_order(function: Callable[..., Any]) -> Callable[..., Any]:
    """Let kernels call this plain function, whose sums are made in the order that it says."""
    return register_jitable(**IN_ORDER)(function)


def _compiles_ours(event: Any) -> bool:
    module = event.data["dispatcher"].py_func.__module__ or ""
    return bool(module.startswith("batchsvm."))


class _CompileNotice(event.Listener):
    """Says before the wait that kernels are being compiled: one line for those of one fit."""

    quiet_until = 0.0
    depth = 0  # compiling a kernel compiles what it calls

    def on_start(self, event: Any) -> None:
        self.depth += 1
        due = self.depth == 1 and time.monotonic() > self.quiet_until
        if due and _compiles_ours(event):
            cached = not isinstance(event.data["dispatcher"]._cache, NullCache)
            kept = f"kept in {cache_folder()}" if cached else "for this process alone"
            print(
                "batchsvm: compiling for this kind of data and loss; this takes a few seconds,"
                f" once ({kept})",
                file=sys.stderr,
                flush=True,
            )

    def on_end(self, event: Any) -> None:
        self.depth -= 1
        self.quiet_until = time.monotonic() + 2.0


class _CtrlCAfterCompiling(event.Listener):
    """Keeps Ctrl-C back until a kernel is compiled: LLVM's callbacks swallow an exception that is
    raised in them, and with it the wish to stop."""

    depth = 0
    before: Any = None  # the handler in whose place this one is
    pressed: tuple[Any, ...] | None = None

    def on_start(self, event: Any) -> None:
        if threading.current_thread() is not threading.main_thread():
            return  # signals come to the main thread
        self.depth += 1
        handler = signal.getsignal(signal.SIGINT)
        if self.depth == 1 and callable(handler) and _compiles_ours(event):
            self.before, self.pressed = handler, None
            signal.signal(signal.SIGINT, self._press)

    def _press(self, *signal_and_frame: Any) -> None:
        self.pressed = signal_and_frame

    def on_end(self, event: Any) -> None:
        if threading.current_thread() is not threading.main_thread():
            return
        self.depth -= 1
        if self.depth == 0 and self.before is not None:
            before, self.before = self.before, None
            signal.signal(signal.SIGINT, before)
            if self.pressed is not None:
                before(*self.pressed)


class _CompileTime(event.Listener):
    """Adds up the time in which kernels are compiled; Numba compiles one at a time."""

    seconds, depth, began = 0.0, 0, 0.0

    def on_start(self, event: Any) -> None:
        self.depth += 1
        if self.depth == 1:
            self.began = time.perf_counter()

    def on_end(self, event: Any) -> None:
        self.depth -= 1
        if self.depth == 0:
            self.seconds += time.perf_counter() - self.began


_compile_time = _CompileTime()


def clock() -> float:
    """A clock in seconds that stands still while kernels are compiled."""
    return time.perf_counter() - _compile_time.seconds


event.register("numba:compile", _CompileNotice())
event.register("numba:compile", _CtrlCAfterCompiling())
event.register("numba:compile", _compile_time)
