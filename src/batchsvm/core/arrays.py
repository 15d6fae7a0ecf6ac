"""Arrays of other libraries (torch, CuPy, JAX and others): what they are, and to NumPy and back.

None of these libraries is imported here.  An array is known by its attributes, and its library
by the module of its type, which the caller has imported.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

CUDA_DEVICES = (2, 13)  # kDLCUDA and kDLCUDAManaged of DLPack
HOST_DEVICES = (1, 3, 11)  # kDLCPU, kDLCUDAHost and kDLROCMHost
OTHER_DEVICES = {7: "Vulkan", 8: "Metal", 10: "ROCm", 14: "oneAPI", 15: "WebGPU"}


def is_device_array(x: Any) -> bool:
    """Whether x is an array or a sparse matrix in the memory of a CUDA device."""
    if type(x) is np.ndarray:
        return False
    if _is_cupy_sparse(x):
        return True
    if hasattr(x, "__dlpack_device__"):
        try:
            return int(x.__dlpack_device__()[0]) in CUDA_DEVICES
        except Exception:  # of data that DLPack cannot describe, such as words of pyarrow
            return False
    return hasattr(x, "__cuda_array_interface__")


def other_device(x: Any) -> str | None:
    """The device on which x is, if that is neither this host nor a CUDA device."""
    if isinstance(x, np.ndarray) or not hasattr(x, "__dlpack_device__"):
        return None
    try:
        kind = int(x.__dlpack_device__()[0])
    except Exception:  # a device that DLPack does not know, such as torch's "meta"
        home = str(x.device) if _is_torch(x) else "cpu"
        return None if home.partition(":")[0] in ("cpu", "cuda") else f"{home!r}, a device of torch"
    if kind in CUDA_DEVICES or kind in HOST_DEVICES:
        return None
    return (
        f"a {OTHER_DEVICES[kind]} device" if kind in OTHER_DEVICES else f"a device of kind {kind}"
    )


def device_number(x: Any) -> int | None:
    """The number of the CUDA device on which x is; None for what is on the host."""
    if not is_device_array(x):
        return None
    if _is_cupy_sparse(x):
        return int(x.data.device.id)
    if hasattr(x, "__dlpack_device__"):
        return int(x.__dlpack_device__()[1])
    return 0


def _is_cupy_sparse(x: Any) -> bool:
    return type(x).__module__.startswith("cupyx") and hasattr(x, "tocsr")


def namespace_of(x: Any) -> Any:
    """The module with the functions of the library of x; None for NumPy, and for what is no array.

    A CuPy sparse matrix has the functions of CuPy.
    """
    if isinstance(x, np.ndarray | np.generic):
        return None
    for kind in type(x).__mro__:
        home = kind.__module__.partition(".")[0]
        if home in ("torch", "cupy", "cupyx"):  # their arrays need not name their namespace
            return sys.modules.get("torch" if home == "torch" else "cupy")
    if hasattr(x, "__array_namespace__"):
        return x.__array_namespace__()
    return None


def is_foreign(x: Any) -> bool:
    """Whether x is an array of another library than NumPy, wherever it is."""
    return not isinstance(x, np.ndarray | np.generic) and (
        hasattr(x, "__dlpack__") or is_device_array(x) or namespace_of(x) is not None
    )


def dtype_name(x: Any) -> str:
    """The name of the type of the entries, such as "float32", in any library."""
    return str(x.dtype).rpartition(".")[2]


def to_host(x: Any) -> Any:
    """An array of any library as a NumPy array, and a CuPy sparse matrix as one of SciPy.

    Arrays in host memory are not copied.  bfloat16, which NumPy knows by name alone, becomes
    float32.  Anything else, such as a list or a table, is returned as it is.
    """
    if not is_foreign(x):
        return _without_bfloat16(x) if isinstance(x, np.ndarray) else x
    try:
        return _without_bfloat16(_copied(x))
    except Exception:
        where = other_device(x)
        if where is None:
            raise
        raise ValueError(f"one on {where} cannot be read from there; copy it to the host") from None


def _copied(x: Any) -> Any:
    if _is_torch(x):
        return _from_torch(x)
    if is_device_array(x) and hasattr(x, "get"):  # CuPy
        return x.get()
    return _from_protocol(x)


def _without_bfloat16(values: Any) -> Any:
    return values.astype(np.float32) if values.dtype.name == "bfloat16" else values


def _is_torch(x: Any) -> bool:
    return getattr(namespace_of(x), "__name__", "") == "torch"


def _from_torch(x: Any) -> np.ndarray:
    if str(x.layout) != "torch.strided":
        raise ValueError(
            f"a torch tensor must be dense, not of layout {x.layout}: sparse data must be a CSR"
            " matrix of SciPy or CuPy"
        )
    x = x.detach().cpu()
    return (x.float() if dtype_name(x) == "bfloat16" else x).numpy()


def _from_protocol(x: Any) -> np.ndarray:
    """By NumPy's own protocols, and by DLPack where these lead to nothing."""
    try:
        values = np.asarray(x)
    except (TypeError, ValueError, RuntimeError):
        return np.from_dlpack(x)
    unread = values.dtype == object and values.ndim == 0  # NumPy has wrapped x itself
    return np.from_dlpack(x) if unread and hasattr(x, "__dlpack__") else values


def like(values: np.ndarray, template: Any) -> Any:
    """The values as an array of the template's library on the template's device.

    Words stay a NumPy array, because no other library has them.
    """
    xp = namespace_of(template)
    if xp is None or values.dtype.kind not in "biuf":
        return values
    values = np.ascontiguousarray(values).reshape(values.shape)
    if not values.flags.writeable:  # torch would share the memory, and warn
        values = values.copy()
    if xp.__name__ == "cupy":  # whose functions take no device
        with template.device:
            return xp.asarray(values)
    try:
        return xp.asarray(values, device=template.device)
    except TypeError:  # a device without float64
        return xp.asarray(values.astype(np.float32), device=template.device)


def moved(x: Any, template: Any) -> Any:
    """x as an array of the template's library on the template's device; x itself if it is one."""
    same_library = namespace_of(x) is namespace_of(template)
    if same_library and (namespace_of(x) is None or x.device == template.device):
        return x
    return like(to_host(x), template)


def cast(x: Any, dtype: Any) -> Any:
    """x with entries of a type of its library."""
    if hasattr(x, "astype"):
        return x.astype(dtype)
    return x.to(dtype) if hasattr(x, "to") else namespace_of(x).astype(x, dtype)
