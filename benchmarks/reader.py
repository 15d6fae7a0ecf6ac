"""How fast LIBSVM text is read: ours against scikit-learn's load_svmlight_file.

    BATCHSVM_DATA=folder python benchmarks/reader.py

Plain text (unpacked into a temporary folder) and bzip2; the best of three for ours and for
scikit-learn, in one process, compiling left out.
"""

from __future__ import annotations

import bz2
import os
import tempfile
import time
from pathlib import Path

from sklearn.datasets import load_svmlight_file

from batchsvm.files import read_libsvm

SETS = ("rcv1", "arxiv", "news20", "cov")


def best(read, path, times=3):
    taken = []
    for _ in range(times):
        began = time.perf_counter()
        read(str(path))
        taken.append(time.perf_counter() - began)
    return min(taken)


def main():
    folder = os.environ.get("BATCHSVM_DATA")
    if not folder:
        raise SystemExit("set BATCHSVM_DATA to the folder that holds rcv1.train.svm.bz2 etc.")
    print("| data | text | scikit-learn | batchsvm | ratio | bzip2: scikit-learn | batchsvm |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    with tempfile.TemporaryDirectory() as scratch:
        for name in SETS:
            packed = Path(folder) / f"{name}.train.svm.bz2"
            plain = Path(scratch) / f"{name}.svm"
            plain.write_bytes(bz2.decompress(packed.read_bytes()))
            read_libsvm(plain)  # compiles
            theirs, ours = best(load_svmlight_file, plain), best(read_libsvm, plain)
            packed_theirs = best(load_svmlight_file, packed, 1)
            packed_ours = best(read_libsvm, packed, 1)
            print(
                f"| {name} | {plain.stat().st_size / 1e6:.0f} MB | {theirs:.2f} s | {ours:.3f} s"
                f" | {theirs / ours:.1f} | {packed_theirs:.2f} s | {packed_ours:.2f} s |",
                flush=True,
            )
            plain.unlink()


if __name__ == "__main__":
    main()
