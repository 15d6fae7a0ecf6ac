"""`checkpoint=`: the file that a training goes on from, opened and compared before other work."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from batchsvm.core import checks
from batchsvm.core.saving import Saving, refuse_engine
from batchsvm.engines.streamed.checkpoint import refuse_another
from batchsvm.engines.streamed.checkpoint_file import CheckpointFileError, open_checkpoint
from batchsvm.files.sources import is_source

SEED = "random_state"
RESUMABLE = ("auto", "streamed")


def engine_for(checkpoint: Any, engine: str, X: Any) -> str:
    """With checkpoints a source is streamed, also if it would fit into memory."""
    streams = checkpoint is not None and checks.is_word(engine, "auto") and is_source(X)
    return "streamed" if streams else engine


@contextmanager
def saving_to(
    checkpoint: Any, engine: str, random_state: Any, **asked: Any
) -> Iterator[tuple[Saving | None, int]]:
    """Where a training is saved, and its seed; `asked` are parameters that may not change.

    Without a random_state, the seed is that of the file.
    """
    seed = checks.read_seed(random_state)
    if checkpoint is None:
        yield None, seed
        return
    path = _read_path(checkpoint)
    if isinstance(engine, str) and engine not in RESUMABLE:
        refuse_engine(engine)
    with ExitStack() as stack:
        saved = open_checkpoint(path)
        if saved is not None:
            stack.callback(saved.close)
            before = saved.header.get("asked")
            if random_state is None:
                seed = _saved_seed(path, before)
            refuse_another(path, before, {**asked, SEED: seed})
        yield Saving(path, {**asked, SEED: seed}, saved), seed


def _read_path(checkpoint: Any) -> Path:
    if not isinstance(checkpoint, str | os.PathLike) or not os.fspath(checkpoint):
        words = "the path of a file, or None"
        raise ValueError(f"checkpoint must be {words}, not {checks.shown(checkpoint)}")
    path = Path(os.fsdecode(checkpoint))
    folder = path.absolute().parent
    if path.is_dir():
        raise ValueError(f"checkpoint must be the path of a file, but {path} is a folder")
    if not folder.is_dir() or not os.access(folder, os.W_OK):
        raise ValueError(
            f"checkpoint must be a file in a folder that can be written to, not {path}"
        )
    return path


def _saved_seed(path: Path, asked: Any) -> int:
    seed = asked.get(SEED) if isinstance(asked, dict) else None
    if type(seed) is not int or not 0 <= seed < 2**64:
        raise CheckpointFileError(path, "does not say which random_state it is of")
    return seed
