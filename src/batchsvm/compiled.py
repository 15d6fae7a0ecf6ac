"""How this package compiles: one cache, one line of explanation, one way into kernels.

Numba's disk cache watches only the file that a kernel is written in, while our kernels
call losses and rows that live in other files.  The cache folder is therefore named by a
hash of the whole package, inside the user's own cache folder.
"""

from __future__ import annotations

import functools
import hashlib
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
from numba import types
from numba.core import config, event
from numba.core.caching import NullCache
from numba.extending import overload_method
from numba.misc.appdirs import user_cache_dir

PACKAGE = Path(__file__).parent
# Kernels allocate nothing, and so need no reference counts (_nrt), which would cost an atomic
# operation at every use of an array.  Sums may be reordered (to vectorise them); NaN and
# infinity keep their meaning.
JIT_OPTIONS: dict[str, Any] = {
    "nogil": True,
    "_nrt": False,
    "error_model": "numpy",
    "fastmath": {"reassoc", "contract", "nsz", "arcp"},
}


@functools.cache
def cache_folder() -> Path | None:
    """Folder of the compiled kernels: the user's cache, keyed by a hash of our source.

    None if it cannot be written to.  Numba would then fall back to folders that do not
    know our hash, and might serve stale code.
    """
    digest = hashlib.sha256(numba.__version__.encode())
    for source in sorted(PACKAGE.rglob("*.py")):
        digest.update(source.read_bytes())
    base = config.CACHE_DIR or user_cache_dir("batchsvm", appauthor=False)
    folder = Path(base) / digest.hexdigest()[:16]
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return None
    return folder if os.access(folder, os.W_OK) else None


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

    @functools.cached_property
    def _uncached(self) -> Any:
        return numba.njit(**JIT_OPTIONS)(self._function)

    def __call__(self, *args: Any) -> Any:
        if any(_is_foreign(argument) for argument in args):
            return self._uncached(*args)
        return self._cached(*args)


def _is_foreign(argument: Any) -> bool:
    """Whether this is a struct (a NamedTuple), or holds one, whose class is not ours."""
    if not hasattr(argument, "_fields"):
        return False
    ours = type(argument).__module__.startswith("batchsvm.")
    return not ours or any(_is_foreign(part) for part in argument)


STRUCT_METHODS: set[str] = set()


def struct_method(signature: Callable[..., Any]) -> None:
    """Let kernels call the method of this name on any of our structs (NamedTuples).

    The struct's class is known when a kernel is compiled, so a kernel is written once
    for all losses and storages, and the method's own Python body is what gets compiled.
    Names are shared by all structs: no field of any may bear the name of a method.
    """
    name = signature.__name__
    STRUCT_METHODS.add(name)

    @functools.wraps(signature)
    def overload(self: Any, *args: Any) -> Any:
        return getattr(self.instance_class, name, None)

    # Inlined by LLVM: passing a struct to a call costs more than what most methods do.
    options = {**JIT_OPTIONS, "forceinline": True}
    overload_method(types.BaseNamedTuple, name, jit_options=options)(overload)


class _CompileNotice(event.Listener):
    """Says before the wait that kernels are being compiled: one line for those of one fit."""

    quiet_until = 0.0
    depth = 0  # compiling a kernel compiles what it calls

    def on_start(self, event: Any) -> None:
        self.depth += 1
        module = event.data["dispatcher"].py_func.__module__ or ""
        due = self.depth == 1 and time.monotonic() > self.quiet_until
        if due and module.startswith("batchsvm."):
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


event.register("numba:compile", _CompileNotice())
