"""Which trainer runs a method on a device: known when training starts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from batchsvm.core.layout import Schedule
from batchsvm.core.problem import Facts, Problem
from batchsvm.engines.gpu.asynchronous import AsynchronousTrainer
from batchsvm.engines.gpu.gram import GramTrainer
from batchsvm.engines.gpu.group import GroupTrainer
from batchsvm.engines.gpu.sparse import BatchTrainer
from batchsvm.engines.protocol import Dual
from batchsvm.methods import Aggressive, Asynchronous, Gram, Naive, Newton, Pegasos, Safe

if TYPE_CHECKING:
    from batchsvm.engines.gpu.dataset import GpuDataset

TRAINERS: dict[Any, Any] = {
    Gram: GramTrainer,
    Asynchronous: AsynchronousTrainer,
    Aggressive: BatchTrainer,
    Safe: BatchTrainer,
    Naive: BatchTrainer,
    Pegasos: BatchTrainer,
}


class GpuTrainer:
    """A `Trainer` (see `engines/protocol.py`) that is the one of its method once it has started."""

    def __init__(self, data: GpuDataset, problem: Problem, facts: Facts) -> None:
        self.data, self.problem, self.facts = data, problem, facts

    def start(self, schedule: Schedule, dual: Dual | None = None) -> None:
        refuse_schedule(schedule, self.problem.k, self.data.rows.is_dense)
        trainer = TRAINERS[type(schedule.method)](self.data, self.problem, self.facts)
        trainer.start(schedule, dual)
        self._trainer = trainer

    def __getattr__(self, name: str) -> Any:
        if name == "_trainer":
            raise AttributeError("this trainer has not been started")
        return getattr(self._trainer, name)


def refuse_schedule(schedule: Schedule, k: int, is_dense: bool) -> None:
    """Refuse what this engine does not offer."""
    method = schedule.method
    offered = [
        kind.name
        for kind, trainer in TRAINERS.items()
        if (k == 1 or issubclass(trainer, GroupTrainer))
        and (trainer.takes_dense if is_dense else trainer.takes_sparse)
    ]
    if method.name not in offered:
        listed = '"' + '", "'.join(offered) + '"'
        listed = '" or "'.join(listed.rsplit('", "', 1))
        where = "" if is_dense else "for sparse rows "
        many = f"for {k} problems at once " if k > 1 else ""
        raise ValueError(
            f'method must be {listed} {where}{many}on the gpu engine, not "{method.name}"'
        )
    assert not isinstance(method, Newton)  # which has a trainer of its own
    if method.sampling != "permutation":
        raise ValueError(
            'sampling must be "permutation" on the gpu engine, where batches keep their rows, not'
            f' "{method.sampling}"'
        )
    if isinstance(method, Gram) and method.step != "general":
        raise ValueError(
            f'step must be "general" for "gram" on the gpu engine, not "{method.step}"'
        )
    if isinstance(method, Aggressive) and method.rounds != 1:
        raise ValueError(f"rounds must be 1 on the gpu engine, not {method.rounds}")
    if schedule.averaging is not None:
        raise ValueError(
            f"averaging must be None on the gpu engine, which keeps no averages, not"
            f' "{schedule.averaging}"'
        )
