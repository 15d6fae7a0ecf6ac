"""What a checkpoint of the streamed engine holds, and for which training it is.

It is written between two passes, where no part is at work.  The order of a pass follows from the
seed and its number, and rows that stay in memory are saved by their numbers, so that the next
pass is, to the last bit, the one that would have come.  Two alphas are the bulk of it: the present
one and the best one.

Resuming takes one read of all parts: alpha is compared with its box, rows that stay in memory are
taken out again, and the sums of the best point are made, of which the loop makes its certificate.
"""

from __future__ import annotations

import json
from dataclasses import replace
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from batchsvm.core.certificate import Sums
from batchsvm.core.layout import Schedule
from batchsvm.core.problem import OutsideBoxError, Problem
from batchsvm.core.saving import Note, Saving
from batchsvm.engines.labels import OwnTargets
from batchsvm.engines.part_handles import parts_of, size_of
from batchsvm.engines.parts import PairwiseSum, add_point_sums
from batchsvm.engines.streamed.alphas import Alphas
from batchsvm.engines.streamed.checkpoint_file import (
    CheckpointFileError,
    SavedState,
    all_finite,
    write_checkpoint,
)
from batchsvm.engines.streamed.packed import ORDER, raw_bytes
from batchsvm.engines.streamed.resident import Resident

if TYPE_CHECKING:
    from batchsvm.engines.streamed.dataset import StreamedDataset

RECORD_NUMBERS = 9  # of an entry of a history
MAX_COUNT = 2**62

# What differs, in words, where values would tell nobody anything.
OTHER = {
    "cut": "another cut into parts, which depends on max_memory and on the data",
    "data": "other rows of X",
    "labels": "other labels",
    "weights": "other weights",
    "targets": "another y, sample_weight or offset",
}


class State(NamedTuple):
    """What a trainer has at the end of a pass; the arrays are its own."""

    now: Alphas
    best: Alphas
    vectors: dict[str, np.ndarray]  # (K, p) each
    numbers: dict[str, np.ndarray]  # (K,) each
    counts: dict[str, int]
    resident: Resident


# Which training it is.


def description(data: StreamedDataset, problem: Problem, schedule: Schedule) -> dict[str, Any]:
    """What has to be the same for a training to go on, beside the parameters of the call."""
    packed = data.packed
    facts: dict[str, list[Any]] = {"cut": [], "data": [], "labels": [], "weights": []}
    kinds = {ORDER: "cut", "y": "labels", "weights": "weights"}
    for part in packed.parts:
        facts["cut"].append([part.number, part.rows])
        for name, checksum in sorted(part.checksums.items()):
            facts[kinds.get(name, "data")].append([name, checksum])
    labels = packed.labels
    if labels is not None and labels.classes is not None:
        facts["labels"].append(labels.classes.tolist())
    return {
        "rows": data.n,
        "columns": data.d,
        "problems": problem.k,
        "method": repr(schedule.method),
        "batch_size": schedule.batch_size,
        "batches": schedule.batches,
        **{name: _digest(json.dumps(found).encode()) for name, found in facts.items()},
        "targets": _targets_digest(problem),
    }


def _digest(content: bytes) -> str:
    return blake2b(content, digest_size=16).hexdigest()


def _targets_digest(problem: Problem) -> str:
    """Of what the caller gave beside the rows."""
    found = blake2b(digest_size=16)
    for own in parts_of(problem.targets):
        shape = own.shape if isinstance(own, OwnTargets) else own
        how = own.how if isinstance(own, OwnTargets) else "given"
        words = how, shape.k, shape.classes, shape.columns_of(problem.k).tolist()
        found.update(repr(words).encode())
        by_class = own.class_weights if isinstance(own, OwnTargets) else None
        for array in (shape.y, shape.sample_weight, shape.offset, by_class):
            if array is None:
                found.update(b"none")
                continue
            plain = np.ascontiguousarray(array)
            found.update(f"{plain.dtype.str} {plain.shape}".encode())
            found.update(raw_bytes(plain))
    return found.hexdigest()


def refuse_another(path: Path, before: Any, now: dict[str, Any]) -> None:
    """Refuse a file that is of another training, in words that say what differs."""
    if not isinstance(before, dict):
        raise CheckpointFileError(path, "does not say of which training it is")
    for name, value in now.items():
        saved = before.get(name)
        if saved == value:
            continue
        what = OTHER.get(name) or f"{name} {_shown(saved)}, not {_shown(value)}"
        raise ValueError(
            f"checkpoint must be a file of the same training, but {path} is of one with {what};"
            " name another file, or remove this one"
        )


def _shown(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


# Writing.


def save(saving: Saving, about: dict[str, Any], state: State, note: Note) -> None:
    """Write the state of a trainer, unless there is nothing to go on from."""
    if not all(all_finite(array) for array in state.vectors.values()):
        return
    bins, allowed = state.resident.kept()
    header = {
        "format": "batchsvm checkpoint",
        "asked": saving.asked,
        "found": about,
        **state.counts,
        "allowed": allowed,
        "bins": [parts.size for parts, _ in bins],
        "records": [len(lines) for lines in note.records],
        "seconds": note.seconds,
        "certify_seconds": note.certify_seconds,
    }
    write_checkpoint(
        saving.path,
        header,
        [
            ("now", state.now.values),
            ("best", state.best.values),
            *state.vectors.items(),
            *state.numbers.items(),
            ("resident_parts", np.concatenate([parts for parts, _ in bins])),
            ("resident_rows", np.concatenate([rows for _, rows in bins])),
            ("history", _as_integers(np.concatenate(note.records))),
        ],
    )


def _as_integers(lines: np.ndarray) -> np.ndarray:
    """Histories may hold infinities and NaN, which other arrays may not."""
    return np.ascontiguousarray(lines, np.float64).view(np.int64)


# Reading.


class Found(NamedTuple):
    """What was read beside the arrays."""

    counts: dict[str, int]
    note: Note
    sums: Sums  # of the best point
    combination: np.ndarray


def resume(
    saved: SavedState, about: dict[str, Any], data: StreamedDataset, problem: Problem, state: State
) -> Found:
    """Fill the arrays of `state`, which belong to a trainer that was started at zero."""
    header, path = saved.header, saved.path
    refuse_another(path, header.get("found"), about)
    try:
        counts = {name: _count(header[name]) for name in state.counts}
        sizes = [_count(size) for size in header["bins"]]
        lines = [_count(size) for size in header["records"]]
        allowed, *seconds = (
            _time(header[name]) for name in ("allowed", "seconds", "certify_seconds")
        )
    except (KeyError, TypeError, ValueError):
        raise CheckpointFileError(path, "its header is not one of a checkpoint") from None
    saved.read_into("now", state.now.values)
    saved.read_into("best", state.best.values)
    for name, array in (state.vectors | state.numbers).items():
        saved.read_into(name, array)
    records = _records(saved, lines, problem.k)
    kept = _kept_rows(saved, sizes, data, state.resident)
    sums, combination = _visit(saved, data, problem, state, kept)
    state.resident.join([[p for p, _ in members] for members in kept], allowed)
    return Found(counts, Note(records, *seconds), sums, combination)


def _records(saved: SavedState, lines: list[int], k: int) -> list[np.ndarray]:
    if len(lines) != k or not all(lines) or sum(lines) != saved.length("history"):
        raise CheckpointFileError(saved.path, "its history is not one of these problems")
    whole = np.empty((sum(lines), RECORD_NUMBERS), np.int64)
    saved.read_into("history", whole)
    found = whole.view(np.float64)
    if not ((found[:, 0] >= 0) & (found[:, 0] < MAX_COUNT) & (found[:, -1] < MAX_COUNT)).all():
        raise CheckpointFileError(saved.path, "its history is not one of these problems")
    return np.split(found, np.cumsum(lines)[:-1])


def _kept_rows(
    saved: SavedState, sizes: list[int], data: StreamedDataset, resident: Resident
) -> list[list[tuple[int, np.ndarray]]]:
    """For each bin, its parts in their order, and the rows of each that stay in memory."""
    count = saved.length("resident_parts")
    parts, rows = (np.empty(count, np.int64) for _ in range(2))
    saved.read_into("resident_parts", parts)
    saved.read_into("resident_rows", rows)
    if sum(sizes) != count or len(sizes) != resident.bins:
        raise CheckpointFileError(saved.path, "its rows in memory are not those of these parts")
    found, edges = [], np.cumsum([0, *sizes])
    for j in range(len(sizes)):
        at = slice(edges[j], edges[j + 1])
        runs = np.flatnonzero(np.diff(parts[at], prepend=-1))
        own = zip(parts[at][runs].tolist(), np.split(rows[at], runs[1:]), strict=True)
        found.append([(p, numbers[: resident.quota]) for p, numbers in own] if runs.size else [])
    counts = [size_of(place) for place in data.cut.places]
    seen = set()
    for j, members in enumerate(found):
        for p, numbers in members:
            good = 0 <= p < len(counts) and p not in seen and p % resident.bins == j
            if not good or not _increase(numbers, counts[p]):
                raise CheckpointFileError(
                    saved.path, "its rows in memory are not those of these parts"
                )
            seen.add(p)
    return found


def _increase(numbers: np.ndarray, end: int) -> bool:
    """Whether these are numbers of rows from 0 on, in increasing order."""
    if not numbers.size:
        return True
    return bool(numbers[0] >= 0 and numbers[-1] < end and (np.diff(numbers) > 0).all())


def _visit(
    saved: SavedState,
    data: StreamedDataset,
    problem: Problem,
    state: State,
    kept: list[list[tuple[int, np.ndarray]]],
) -> tuple[Sums, np.ndarray]:
    """The one read: boxes, rows that stay in memory, and the sums of the best point."""
    rows_of = {p: numbers for members in kept for p, numbers in members}
    W, total = state.vectors["best_w"].T, PairwiseSum(add_point_sums)
    for part in data.visit(range(len(data.cut.places))):
        j = part.number
        own = part.own(replace(problem, targets=parts_of(problem.targets)[j]))
        try:
            for alphas in (state.now, state.best):
                part.data.dual(own, alphas.of_part(j))
        except OutsideBoxError as error:
            raise CheckpointFileError(
                saved.path, f"its alpha lies outside of the dual's box: {error.alpha!r}"
            ) from None
        best = part.data.dual(own, state.best.of_part(j), project=False)
        total.add(part.data.point_sums(own, W, best))
        if j in rows_of:
            state.resident.take(j, part.data, own.targets, rows_of[j])
    found: tuple[Sums, np.ndarray] = total.total()
    return found


def _count(value: Any) -> int:
    if type(value) is not int or not 0 <= value < MAX_COUNT:
        raise ValueError("a count is a number from 0 on")
    return value


def _time(value: Any) -> float:
    if type(value) not in (int, float) or not 0.0 <= value < float("inf"):
        raise ValueError("a time is a number from 0 on")
    return float(value)
