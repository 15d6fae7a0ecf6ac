"""Data files: read(path) and write(path, X, y), the format told by the name's end."""

from __future__ import annotations

from batchsvm.files.errors import DataFileError, IndexBaseError
from batchsvm.files.formats import FORMATS, Data, read, write
from batchsvm.files.libsvm import read_libsvm

__all__ = ["FORMATS", "Data", "DataFileError", "IndexBaseError", "read", "read_libsvm", "write"]
