"""The LIBSVM reader: exact, the same as scikit-learn's, and clear about what is wrong."""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import random
import struct
from decimal import Decimal, localcontext
from math import frexp
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import dump_svmlight_file, load_svmlight_file

from batchsvm.files import DataFileError, libsvm, read_libsvm, streams


def bits(values):
    return np.asarray(values, dtype=np.float64).view(np.uint64)


def parse(text, low=0, high=2**62):
    return libsvm._parse_block(text.encode() if isinstance(text, str) else text, low, high)


def midpoint(rng):
    """All digits of a number half way between two float64, where rounding is hardest."""
    value = rng.uniform(1, 2) * 2.0 ** rng.randrange(-60, 60)
    mantissa, exponent = frexp(value)
    with localcontext() as context:
        context.prec = 400
        return str((2 * Decimal(int(mantissa * 2**53)) + 1) * Decimal(2) ** (exponent - 54))


NUMBERS = {
    "shortest": lambda rng: repr(struct.unpack("d", struct.pack("Q", rng.getrandbits(62)))[0]),
    "negative": lambda rng: repr(struct.unpack("d", struct.pack("Q", rng.getrandbits(62)))[0] * -1),
    "sixteen digits": lambda rng: f"{rng.random():.16g}",
    "many digits": lambda rng: f"{rng.uniform(-9, 9) * 1e1 ** rng.randrange(-300, 300):.25e}",
    "few digits": lambda rng: f"{rng.gauss(0, 1e9):.{rng.randrange(18)}e}",
    "any exponent": lambda rng: f"{rng.getrandbits(rng.randrange(1, 90))}e{rng.randint(-360, 320)}",
    "subnormal": lambda rng: f"{5e-324 * rng.randrange(1, 10**6):.25g}",
    "around 2^53": lambda rng: f"{2**53 + rng.randrange(-9, 99)}{rng.choice(['', '.5', '.500'])}",
    "midpoints": midpoint,
    "midpoints and zeros": lambda rng: "00" + midpoint(rng),
    "plain": lambda rng: f"{rng.randrange(3)}.{rng.randrange(100000):05d}",
}  # fmt: skip


@pytest.mark.parametrize("kind", NUMBERS)
def test_numbers_are_those_of_python_bit_for_bit(kind):
    rng = random.Random(kind)
    tokens = [NUMBERS[kind](rng) for _ in range(3000)]
    part = parse("".join(f"{t} 1:{t}\n" for t in tokens))
    expected = bits([float(t) for t in tokens])
    np.testing.assert_array_equal(bits(part.labels), expected)
    np.testing.assert_array_equal(bits(part.values), expected)


@pytest.mark.parametrize(
    "token",
    [
        "0", "-0", "+0.0", ".5", "5.", "-.5e1", "1e5", "1E+5", "1e-5", "00012", "0.1", "1e22",
        "1e23", "9007199254740993", "9007199254740993.0000000000000000000001", "1e308",
        "9007199254740992.9999999999999", "1.7976931348623157e308", "1.7976931348623159e308",
        "1e309", "-1e400", "1e-400", "4.9e-324", "2.4703282292062327e-324",
        "2.4703282292062328e-324", "2.2250738585072011e-308", "2.2250738585072014e-308",
        "0." + "0" * 400 + "1e401", "1" + "0" * 400 + "e-400", "123456789012345678901234567890",
        "0.00000000000000000000000000000000012345678901234567890123", "8.5e15", "8.5e-5",
        "1e99999999999999999999", "1e-99999999999999999999", "0e99999999999999999999", "nan",
        "-inf", "Infinity", "10000000000000000000", "18446744073709551615",
        "18446744073709551616",
    ],
)  # fmt: skip
def test_single_numbers(token):
    part = parse(f"{token} 1:{token}\n")
    assert bits(part.labels) == bits(float(token))
    assert bits(part.values) == bits(float(token))


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("one 1:2", "label must be a number, not 'one'"),
        ("1,2 1:2", "label must be a number, not '1,2'"),
        ("1:2 3:4", "label must be a number, not '1:2'"),
        ("1 1:2 x:3", "index:value, not 'x:3'"),
        ("1 1:2 3", "index:value, not '3'"),
        ("1 -1:2", "index:value, not '-1:2'"),
        ("1 1.5:2", "index:value, not '1.5:2'"),
        ("1 :2", "index:value, not ':2'"),
        ("1 1:", "value must be a number, not ''"),
        ("1 1: 2", "value must be a number, not ''"),
        ("1 1:abc", "value must be a number, not 'abc'"),
        ("1 1:1_0", "value must be a number, not '1_0'"),
        ("1 1:0x10", "value must be a number, not '0x10'"),
        ("1 1:1e", "value must be a number, not '1e'"),
        ("1 1:+", "value must be a number, not '+'"),
        ("1 1:2:3", "value must be a number, not '2:3'"),
        ("1 2:1 1:1", "must increase along a line, but 1 does not"),
        ("1 2:1 2:1", "must increase along a line, but 2 does not"),
        ("1 99999999999999999999:1", "at most"),
        ("1 1:é", "value must be a number, not 'é'"),
        ("1 1:\x00", "value must be a number"),
        ("1 1:2 qi:3", "index:value, not 'qi:3'"),
    ],
)
@pytest.mark.parametrize("block", [1 << 24, 16])
def test_malformed_lines_are_reported_with_file_and_line(tmp_path, monkeypatch, line, what, block):
    monkeypatch.setattr(streams, "BLOCK", block)
    path = tmp_path / "bad.svm"
    path.write_text("# head\n+1 1:1 2:2\n\n" + line + "\n-1 oops\n")
    with pytest.raises(DataFileError) as caught:
        read_libsvm(path)
    assert str(caught.value).startswith(f"{path}:4: ")
    assert what in str(caught.value)
    assert caught.value.line == 4
    assert "\n" not in str(caught.value)


def test_the_first_fault_of_a_line_is_the_one_reported(tmp_path):
    path = tmp_path / "bad.svm"
    path.write_text("1 1:good 2:1 1:1\n")
    with pytest.raises(DataFileError, match=r":1: the value must be a number, not 'good'"):
        read_libsvm(path)


def random_matrix(seed, n=200, d=50):
    rng = np.random.default_rng(seed)
    X = sp.random_array((n, d), density=0.1, rng=rng, format="csr", dtype=np.float64)
    X.data *= 10.0 ** rng.integers(-20, 20, X.nnz)
    return X, rng.integers(-1, 3, n).astype(float)


@pytest.mark.parametrize("block", [1 << 24, 1000, 7])
@pytest.mark.parametrize("zero_based", [True, False])
def test_the_same_as_scikit_learn(tmp_path, monkeypatch, block, zero_based):
    X, y = random_matrix(0)
    path = tmp_path / "a.svm"
    dump_svmlight_file(X, y, str(path), zero_based=zero_based, comment="two\nlines")
    path.write_bytes(path.read_bytes() + b"\n  # the end \n1 qid:3 5:1 \t 7:2\r\n-1")
    monkeypatch.setattr(streams, "BLOCK", block)
    ours, labels = read_libsvm(path)
    theirs, expected = load_svmlight_file(str(path))
    assert ours.shape == theirs.shape
    for name in ("data", "indices", "indptr"):
        np.testing.assert_array_equal(getattr(ours, name), getattr(theirs, name))
    np.testing.assert_array_equal(labels, expected)
    assert ours.indices.dtype == ours.indptr.dtype == np.int32


@pytest.mark.parametrize(
    ("suffix", "pack"), [(".gz", gzip.compress), (".bz2", bz2.compress), (".xz", lzma.compress)]
)
def test_compressed_files(tmp_path, suffix, pack):
    X, y = random_matrix(1)
    plain = tmp_path / "a.svm"
    dump_svmlight_file(X, y, str(plain))
    packed = tmp_path / f"a.svm{suffix}"
    packed.write_bytes(pack(plain.read_bytes()))
    ours, labels = read_libsvm(packed)
    theirs, expected = read_libsvm(plain)
    assert (ours != theirs).nnz == 0
    np.testing.assert_array_equal(labels, expected)
    packed.write_bytes(packed.read_bytes()[:-20])
    with pytest.raises(DataFileError, match=r"a\.svm\.\w+: .*(ends early|decompressed)"):
        read_libsvm(packed)
    packed.write_bytes(b"1 1:2\n")
    with pytest.raises(DataFileError, match="cannot be decompressed"):
        read_libsvm(packed)


def test_columns_and_bases(tmp_path):
    path = tmp_path / "a.svm"
    path.write_text("1 3:1\n")
    assert read_libsvm(path)[0].shape == (1, 3)
    assert read_libsvm(path, zero_based=True)[0].shape == (1, 4)
    assert read_libsvm(path, n_features=10)[0].shape == (1, 10)
    with pytest.raises(DataFileError, match=r"a\.svm:1: the index must be at most 2, not 3"):
        read_libsvm(path, n_features=2)
    path.write_text("1 0:1 3:1\n")
    with pytest.raises(DataFileError, match=r":1: indices must count from 1, not 0"):
        read_libsvm(path, zero_based=False)
    with pytest.raises(DataFileError, match="there are 4 columns, not n_features = 3"):
        read_libsvm(path, n_features=3)
    with pytest.raises(ValueError, match="zero_based must be True, False or 'auto', not 'no'"):
        read_libsvm(path, zero_based="no")
    with pytest.raises(ValueError, match="n_features must be a positive integer or None, not 0"):
        read_libsvm(path, n_features=0)
    path.write_text("1\n-1\n")
    assert read_libsvm(path)[0].shape == (2, 1)
    path.write_text("# nothing\n\n")
    with pytest.raises(DataFileError, match="holds no rows"):
        read_libsvm(path)


def test_indices_beyond_32_bits(tmp_path):
    path = tmp_path / "wide.svm"
    path.write_text(f"1 1:1 {2**31}:2 {2**40}:3\n-1 5:1\n")
    X, _ = read_libsvm(path)
    assert X.shape == (2, 2**40)
    assert X.indices.dtype == np.int64
    assert X.indices.tolist() == [0, 2**31 - 1, 2**40 - 1, 4]


def test_float32_is_float64_rounded(tmp_path):
    path = tmp_path / "a.svm"
    path.write_text("0.1 1:0.1\n")
    X, y = read_libsvm(path, dtype=np.float32)
    assert X.dtype == np.float32
    assert X.data[0] == np.float32(0.1)
    assert y.dtype == np.float64


@pytest.mark.slow
@pytest.mark.skipif("BATCHSVM_DATA" not in os.environ, reason="BATCHSVM_DATA is not set")
@pytest.mark.parametrize("name", ["rcv1", "arxiv", "news20", "cov"])
@pytest.mark.parametrize("part", ["train", "test"])
def test_the_same_as_scikit_learn_on_real_data(name, part):
    path = Path(os.environ["BATCHSVM_DATA"]) / f"{name}.{part}.svm.bz2"
    ours, labels = read_libsvm(path)
    theirs, expected = load_svmlight_file(str(path))
    assert ours.shape == theirs.shape
    for field in ("data", "indices", "indptr"):
        np.testing.assert_array_equal(getattr(ours, field), getattr(theirs, field))
    np.testing.assert_array_equal(labels, expected)
