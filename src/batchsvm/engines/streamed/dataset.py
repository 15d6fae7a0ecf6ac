"""The streamed engine's data set: packed parts on a disk, read one after another."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, nullcontext
from dataclasses import replace
from math import inf
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse

from batchsvm.core.data_checks import as_matrix, refuse_device_array
from batchsvm.core.problem import Problem
from batchsvm.core.progress import packing_bar
from batchsvm.core.tuning import DEFAULT_TUNING, Tuning
from batchsvm.engines.cpu.dataset import CpuDataset, PlacedRows
from batchsvm.engines.cpu.rows import CSR, as_scipy
from batchsvm.engines.labels import Labels, OwnTargets
from batchsvm.engines.part_handles import Cut, PerPart, local_rows
from batchsvm.engines.parts import PartsDataset
from batchsvm.engines.streamed.cache import TemporaryFolder, kept_parts
from batchsvm.engines.streamed.memory import (
    Size,
    Spending,
    chunk_bytes,
    dealt_bytes,
    part_bytes,
    read_memory,
    spend,
)
from batchsvm.engines.streamed.packed import LoadedPart, Packed
from batchsvm.engines.streamed.packing import Cutting, MatrixSource, fingerprints, pack
from batchsvm.engines.streamed.part_reader import Origin, PartReader
from batchsvm.engines.streamed.row_access import count_nonzeros
from batchsvm.engines.streamed.trainer import StreamedTrainer
from batchsvm.engines.targets import HostTargets
from batchsvm.files.source import Source
from batchsvm.methods import Method, Newton


class StreamedPart(NamedTuple):
    """A part in memory, and the labels and weights that came with it."""

    number: int
    data: CpuDataset
    y: np.ndarray | None
    weights: np.ndarray | None

    def own(self, argument: Any) -> Any:
        """What this part is given of an argument of `_each`."""
        if isinstance(argument, PerPart):
            argument = argument[self.number]
        if isinstance(argument, Problem) and isinstance(argument.targets, OwnTargets):
            return replace(argument, targets=self.read(argument.targets))
        return argument

    def read(self, targets: OwnTargets) -> HostTargets:
        assert self.y is not None
        return targets.read(self.y, self.weights)


class StreamedDataset(PartsDataset):
    """A `Dataset`: see `engines/protocol.py`.

    Attributes
    ----------
    labels : Labels or None
        What the source said of its rows.
    reused : bool
        Whether the packed parts were in the cache already.
    """

    engine = "streamed"
    keeps_all_alphas = False
    sliceable = True

    def __init__(self, reader: PartReader, jobs: int, tuning: Tuning, budget: int) -> None:
        packed = reader.packed
        self._reader, self._budget = reader, budget
        self._parts: Sequence[int] = range(len(packed.parts))
        self._selected: Sequence[np.ndarray] | None = None  # the rows of each part, in a subset
        self.cut = Cut(packed.rows, [packed.numbers(p) for p in self._parts])
        self.d, self.nonzeros = packed.columns, packed.nonzeros
        self.mean_norm2 = packed.norm2 / packed.rows
        self.jobs, self.tuning, self.memo = jobs, tuning, {}
        self.labels: Labels | None = packed.labels
        self.reused = False
        self._resources = ExitStack()  # closed by the data set that was placed

    @property
    def packed(self) -> Packed:
        return self._reader.packed

    @property
    def feature_names(self) -> tuple[str, ...] | None:
        """The names of the columns, if the source has any."""
        return getattr(self._reader.origin.source, "feature_names", None)

    @property
    def zero_based(self) -> bool | None:
        """Whether the indices of LIBSVM text were taken to count from 0; None if there is none."""
        return getattr(self._reader.origin.source, "zero_based", None)

    @property
    def reads(self) -> float:
        """How often all entries have been read since X was placed."""
        return self._reader.reads / len(self.packed.parts)

    # Visits.

    def visit(self, order: Sequence[int], rows: bool = True) -> Iterator[StreamedPart]:
        """Parts in this order, each closed when the next one is asked for."""
        self.require_open()
        numbers = {self._parts[j]: j for j in range(len(self._parts))}
        for p, loaded in self._reader.visit([self._parts[j] for j in order], rows):
            part = self._part(numbers[p], loaded)
            try:
                yield part
            finally:
                part.data.close()
            self.require_open()

    def _part(self, j: int, loaded: LoadedPart) -> StreamedPart:
        placed = PlacedRows(loaded.rows)
        placed.norms2 = loaded.norms2
        data = CpuDataset(placed, self.jobs, self.tuning)
        data.longest_row = loaded.longest_row
        if self._selected is None:
            return StreamedPart(j, data, loaded.y, loaded.weights)
        rows = self._selected[j]
        y, weights = (None if a is None else a[rows] for a in (loaded.y, loaded.weights))
        part = data.subset(rows)
        part.longest_row = loaded.longest_row
        return StreamedPart(j, part, y, weights)

    def _each(self, work: Callable[..., Any], *arguments: Any, rows: bool = True) -> Iterator[Any]:
        for part in self.visit(range(len(self._parts)), rows):
            yield work(part.data, *(part.own(argument) for argument in arguments))

    def _keep(self, work: Callable[..., Any], *arguments: Any, rows: bool = True) -> PerPart:
        return PerPart(self._each(work, *arguments, rows=rows))

    # Rows that are taken out.

    def sample(self, rows: np.ndarray) -> Any:
        self.require_open()
        rows = np.asarray(rows)
        taken, order = [], []
        for j, place in enumerate(self.cut.places):
            here, local = local_rows(place, rows)
            if here.size:
                local = local if self._selected is None else self._selected[j][local]
                taken.append(self._reader.some_rows(self._parts[j], local))
                order.append(here)
        back = np.argsort(np.concatenate(order))
        if not isinstance(taken[0], CSR):
            return np.concatenate([part.values for part in taken]).astype(np.float64)[back]
        sparse = [as_scipy(part) for part in taken if isinstance(part, CSR)]
        return scipy.sparse.vstack(sparse, "csr")[back]

    def subset(self, rows: np.ndarray) -> StreamedDataset:
        self.require_open()
        found = [local_rows(place, np.asarray(rows)) for place in self.cut.places]
        used = [j for j, (here, _) in enumerate(found) if here.size]
        part = self._view()
        part._resources, part.memo = ExitStack(), {}
        part._parts = [self._parts[j] for j in used]
        before = self._selected
        part._selected = [found[j][1] if before is None else before[j][found[j][1]] for j in used]
        part.cut = Cut(len(rows), [found[j][0] for j in used])
        norms2 = [own.data.norms2.sum() for own in part.visit(range(len(used)), rows=False)]
        part.mean_norm2 = float(np.sum(norms2)) / part.n
        part.nonzeros = sum(
            count_nonzeros(self.packed, p, local)
            for p, local in zip(part._parts, part._selected, strict=True)
        )
        return part

    def share(self, jobs: int) -> StreamedDataset:
        self.require_open()
        view = self._view()
        view._resources, view.jobs = ExitStack(), jobs
        return view

    # Training.

    def spending(self, problem: Problem) -> Spending:
        """How the memory of a fit is divided."""
        packed = self.packed
        largest = max(packed.loaded_bytes(p) for p in self._parts)
        longest = max(packed.parts[p].rows for p in self._parts)
        size = Size(self.n, problem.columns(self.d), largest, longest)
        return spend(self._budget, size, problem.k)

    @property
    def scratch(self) -> Path:
        """Where files may be put for a while."""
        return self.packed.folder

    def problems_at_once(self, method: Method | None = None) -> float:
        return 1 if isinstance(method, Newton) else inf

    def trainer(self, problem: Problem) -> StreamedTrainer:
        self.require_open()
        return StreamedTrainer(self, problem)

    def close(self) -> None:
        super().close()
        self._resources.close()


def place(
    X: Any,
    jobs: int = 1,
    tuning: Tuning = DEFAULT_TUNING,
    keeps_norms: bool = True,
    max_memory: Any = None,
    cache: str | Path | None = None,
    progress: bool = False,
) -> StreamedDataset:
    """A source, or X in memory, as packed parts on the disk.

    Parameters
    ----------
    max_memory : int or str, optional
        Bytes, or words such as "600MB"; a quarter of the memory of this machine if None.
    cache : path, optional
        A folder that keeps the parts for the next time; else they are in a temporary folder.
    progress : bool
        Whether the first pass shows a bar on stderr.
    """
    budget = read_memory(max_memory)
    in_memory = not hasattr(X, "parts")
    source: Source
    if in_memory:
        if cache is not None:
            raise ValueError(f"cache must be None for X in memory, not {str(cache)!r}")
        refuse_device_array(X)
        source = MatrixSource(as_matrix(X))
    else:
        source = X
    cutting = Cutting(part_bytes(budget), chunk_bytes(budget), dealt_bytes(budget), tuning)

    def make(folder: Path) -> Packed:
        with packing_bar(source.name) if progress else nullcontext() as watch:
            return pack(source, folder, cutting, watch)

    with ExitStack() as resources:
        if cache is None:
            folder = resources.enter_context(closing(TemporaryFolder()))
            packed, reused = make(folder.path), False
        else:
            packed, reused = kept_parts(Path(cache), _key(fingerprints(source), cutting), make)
        # After the first pass: before it, to know the chunks of a re-iterable takes a pass.
        reader = PartReader(packed, Origin(source, cutting, fingerprints(source)))
        resources.callback(reader.close)
        data = StreamedDataset(reader, jobs, tuning, budget)
        data._resources, data.reused = resources.pop_all(), reused
    if reused:
        print(f"batchsvm: uses the packed parts in {packed.folder} again", file=sys.stderr)
    return data


def _key(known: list[list[str]], cutting: Cutting) -> dict[str, Any]:
    """What packed parts depend on."""
    return {
        "source": known,
        "part_bytes": cutting.part_bytes,
        "chunk_bytes": cutting.chunk_bytes,
        "dealt_bytes": cutting.dealt_bytes,
        "streamed_parts": cutting.tuning.streamed_parts,
        "min_part_rows": cutting.tuning.min_part_rows,
    }
