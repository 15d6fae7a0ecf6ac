"""The data of the benchmarks on a device: fixed recipes, so that figures can be compared.

`xp` is numpy, or cupy to generate on the device; the two give different numbers of one kind.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

FIELDS = 39  # of a row of clicks
NARROW_FIELDS, NARROW = 13, 100  # fields with so few values


def embeddings(
    n: int, d: int, classes: int, signal: float = 0.1, common: float = 1.0, seed: int = 0,
    xp: Any = np, block: int = 65536,
) -> tuple[Any, Any]:  # fmt: skip
    """X (float32, rows of norm 1) and labels (int32): class means and a common mean in noise whose
    spectrum decays.

    With signal=0.1, d=2048, classes=1000, sigma^2 is about 0.61 with common=1, and about 0.12 with
    common=0 (centred).
    """
    random = xp.random.default_rng(seed)
    scale = _scale(xp, d)
    means = random.standard_normal((classes, d), dtype=xp.float32) * scale
    centre = random.standard_normal(d, dtype=xp.float32) * scale * common
    labels = random.integers(0, classes, n).astype(xp.int32)
    X = xp.empty((n, d), dtype=xp.float32)
    for start in range(0, n, block):
        stop = min(n, start + block)
        rows = random.standard_normal((stop - start, d), dtype=xp.float32) * scale
        rows += signal * means[labels[start:stop]] + centre
        X[start:stop] = rows / xp.linalg.norm(rows, axis=1, keepdims=True)
    return X, labels


def two_classes(
    n: int, d: int, common: float = 0.0, noise: float = 0.5, seed: int = 0, xp: Any = np,
    block: int = 131072,
) -> tuple[Any, Any]:  # fmt: skip
    """X (float32, rows of norm 1) and y (-1 and +1): a noisy linear rule on rows of that kind."""
    random = xp.random.default_rng(seed)
    scale = _scale(xp, d)
    centre = random.standard_normal(d, dtype=xp.float32) * scale * common
    rule = random.standard_normal(d, dtype=xp.float32)
    spread = float(xp.linalg.norm(rule * scale))
    X, y = xp.empty((n, d), dtype=xp.float32), xp.empty(n, dtype=xp.float32)
    for start in range(0, n, block):
        stop = min(n, start + block)
        rows = random.standard_normal((stop - start, d), dtype=xp.float32) * scale
        value = rows @ rule / spread
        value += noise * random.standard_normal(stop - start, dtype=xp.float32)
        y[start:stop] = xp.where(value > 0, 1.0, -1.0)
        rows += centre
        X[start:stop] = rows / xp.linalg.norm(rows, axis=1, keepdims=True)
    return X, y


def _scale(xp: Any, d: int) -> Any:
    return xp.arange(1, d + 1, dtype=xp.float32) ** -0.5


def text(
    n: int = 20_242, d: int = 47_236, words: int = 74, noise: float = 0.25, seed: int = 0
) -> tuple[sp.csr_matrix, np.ndarray]:
    """CSR (float64, rows of norm 1) on the host, and y: words by Zipf's law with idf weights, a
    sparse noisy rule.  The default shape is that of rcv1, with 1.35 million non-zeros."""
    random = np.random.default_rng(seed)
    X = text_rows(n, d, words, random)
    return X, noisy_labels(X, text_rule(d, random), noise, random)


def text_rows(n: int, d: int, words: int, random: np.random.Generator) -> sp.csr_matrix:
    """Rows of text."""
    p = 1 / np.arange(1, d + 1) ** 0.9
    p /= p.sum()
    counts = random.poisson(words, n).clip(5)
    columns = np.searchsorted(np.cumsum(p), random.random(counts.sum())).clip(0, d - 1)
    idf = np.log(1 / (p * words)).clip(0.2)
    values = idf[columns] * (0.5 + random.random(columns.size))
    X = sp.csr_matrix((values, (np.repeat(np.arange(n), counts), columns)), shape=(n, d))
    X.sum_duplicates()
    norms = np.sqrt(np.asarray(X.multiply(X).sum(axis=1)).ravel())
    X = sp.csr_matrix(sp.diags(1 / norms) @ X)
    X.sort_indices()
    return X


def text_rule(d: int, random: np.random.Generator) -> np.ndarray:
    return random.standard_normal(d) * (random.random(d) < 0.3)


def noisy_labels(
    X: sp.csr_matrix, rule: np.ndarray, noise: float, random: np.random.Generator
) -> np.ndarray:
    """-1 and +1, half of each: a linear rule, and noise."""
    score = X @ rule
    noisy = score + noise * score.std() * random.standard_normal(X.shape[0])
    return np.where(noisy > np.median(score), 1.0, -1.0)


def clicks(
    n: int, d: int = 1_000_000, seed: int = 0, xp: Any = np, block: int = 1_000_000
) -> tuple[Any, Any]:
    """Columns (int32, (n, 39), increasing along a row) and y: one entry per field, as in the logs
    of clicks; the values of a field follow a power law, and 26 % of the rows are positive."""
    random = xp.random.default_rng(seed)
    sizes = np.full(FIELDS, NARROW)
    sizes[NARROW_FIELDS:] = (d - NARROW * NARROW_FIELDS) // (FIELDS - NARROW_FIELDS)
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    rule = random.standard_normal(d, dtype=xp.float32)
    columns, y = xp.empty((n, FIELDS), dtype=xp.int32), xp.empty(n, dtype=xp.float32)
    for start in range(0, n, block):
        stop = min(n, start + block)
        score = xp.zeros(stop - start, dtype=xp.float32)
        for field in range(FIELDS):
            draws = random.random(stop - start, dtype=xp.float32)
            size = int(sizes[field])
            chosen = xp.minimum((size**draws - 1).astype(xp.int32), size - 1)
            columns[start:stop, field] = chosen + int(starts[field])
            score += rule[columns[start:stop, field]]
        noisy = score / FIELDS**0.5 + random.standard_normal(stop - start, dtype=xp.float32)
        y[start:stop] = xp.where(noisy > 0.9, 1.0, -1.0)
    return columns, y


def clicks_csr(columns: Any, d: int, xp: Any, csr: Any) -> Any:
    """The rows of `clicks` as a CSR matrix of float32, every entry 1/sqrt(39)."""
    n, fields = columns.shape
    data = xp.full(n * fields, fields**-0.5, dtype=xp.float32)
    index = xp.int32 if n * fields < 2**31 else xp.int64
    indptr = xp.arange(0, n * fields + 1, fields, dtype=index)
    return csr((data, columns.reshape(-1), indptr), shape=(n, d))
