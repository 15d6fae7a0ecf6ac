"""Damaged files as sources: an error that names the file, or rows, and nothing else."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from batchsvm.files import DataFileError, write
from batchsvm.files.sources import open_source

FILES = ["a.svm.gz", "a.svm.xz", "a.svm.bz2", "a.csv.gz", "a.parquet", "a.npz", "s.npz", "a.npy"]


def saved(folder, name):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(200, 6)), np.arange(200)
    write(folder / name, sp.csr_array(X) if name[0] == "s" else X, y)
    return folder / name, "label" if "csv" in name or "parquet" in name else None


@pytest.mark.parametrize("name", FILES)
@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.integers(0, 10**6), st.binary(min_size=1, max_size=4))
def test_any_damage_is_an_error_that_names_the_file_or_none(tmp_path, name, where, bytes_):
    path, y = saved(tmp_path, name)
    text = bytearray(path.read_bytes())
    where %= len(text)
    text[where : where + len(bytes_)] = bytes_
    path.write_bytes(text)
    try:
        rows = [c.X.shape for _, cs in open_source(path, y=y).one_pass(1000) for c in cs]
        assert all(n > 0 for n, _ in rows)
    except DataFileError as error:
        assert name in str(error)
