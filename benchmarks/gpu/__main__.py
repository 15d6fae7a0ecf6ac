"""Measure the gpu engine on a machine with a CUDA device; nothing is downloaded.

    python -m benchmarks.gpu embeddings lbfgs --out docs/benchmarks/gpu.jsonl
    python -m benchmarks.gpu --quick all             every part, on tiny data

A part appends one JSON object per measurement to the file, and prints a line.  The parts:
embeddings, lbfgs, path, one_problem, text, clicks, small.  `lbfgs` needs torch, and `text`
compares with Snap ML where it is installed.  `python -m benchmarks.run report` writes the page from
the file.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Callable
from pathlib import Path

from benchmarks.gpu import dense, lbfgs, small, sparse
from benchmarks.gpu.measuring import Bench, Device, on_cuda

PARTS: dict[str, Callable[[Bench], None]] = {
    "embeddings": dense.embeddings,
    "lbfgs": lbfgs.lbfgs,
    "path": dense.path,
    "one_problem": dense.one_problem,
    "text": sparse.text,
    "clicks": sparse.clicks,
    "small": small.small,
}


def options_of(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("parts", nargs="+", metavar="PART", help=f"{', '.join(PARTS)}, or all")
    parser.add_argument("--out", type=Path, help="the file that measurements are appended to")
    parser.add_argument("--quick", action="store_true", help="tiny data: a trial of the code")
    options = parser.parse_args(arguments)
    if options.parts == ["all"]:
        options.parts = list(PARTS)
    unknown = [part for part in options.parts if part not in PARTS]
    if unknown:
        parser.error(f"there is no part {unknown[0]!r}; the parts are {', '.join(PARTS)}")
    return options


def main(arguments: list[str] | None = None, device: Device | None = None) -> int:
    options = options_of(arguments)
    if device is None:
        from batchsvm.engines.gpu.device import DeviceError

        try:
            device = on_cuda()
        except DeviceError as error:
            print(f"no device: {error}", file=sys.stderr)
            return 1
    bench = Bench(device, options.out, options.quick)
    for part in options.parts:
        bench.part = part
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the results say what has not converged
            PARTS[part](bench)
    return 0


if __name__ == "__main__":
    sys.exit(main())
