"""For `make test-gpu`: exit status 0 if CuPy sees a CUDA device; else it says why not."""

import sys


def found() -> str:
    """The devices in words; raises whatever is in the way."""
    import cupy

    runtime = cupy.cuda.runtime
    count = runtime.getDeviceCount()
    name = runtime.getDeviceProperties(0)["name"].decode()
    return f"CUDA devices: {count}, the first is {name}; CuPy {cupy.__version__}"


if __name__ == "__main__":
    try:
        print(found())
    except Exception as error:  # CuPy is missing, or a library of it, or the driver, or a device
        print(f"no device ({type(error).__name__}: {error})")
        sys.exit(1)
