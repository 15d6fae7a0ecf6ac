"""Data files: read(path) and write(path, X, y), the format told by the name's end."""

from __future__ import annotations

from batchsvm.files.errors import DataFileError, IndexBaseError, SourceChangedError
from batchsvm.files.formats import FORMATS, Data, read, write
from batchsvm.files.libsvm import read_libsvm
from batchsvm.files.sources import open_source

__all__ = [
    "FORMATS",
    "Data",
    "DataFileError",
    "IndexBaseError",
    "SourceChangedError",
    "open_source",
    "read",
    "read_libsvm",
    "write",
]
