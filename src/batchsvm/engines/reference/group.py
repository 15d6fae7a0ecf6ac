"""Several problems in one trainer: one trainer each, one after another."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from batchsvm.core.certificate import Sums
from batchsvm.core.dual import HostDual
from batchsvm.core.layout import Schedule
from batchsvm.core.parallel import StopFlag
from batchsvm.core.problem import join_facts
from batchsvm.engines.protocol import Dual, Progress
from batchsvm.engines.trainer import HostTrainer


class TrainerGroup:
    """A `Trainer` of K problems: see `engines/protocol.py`."""

    knows_point = False

    def __init__(self, trainers: list[HostTrainer]) -> None:
        self.trainers = trainers
        self.facts = join_facts([trainer.facts for trainer in trainers])

    def start(self, schedule: Schedule, dual: Dual | None = None) -> None:
        for k, trainer in enumerate(self.trainers):
            own = None if dual is None else dual.only(k)
            trainer.start(replace(schedule, seed=(schedule.seed + k) % 2**64), own)
        self.survives_exceptions = all(t.survives_exceptions for t in self.trainers)

    @property
    def estimates_are_reliable(self) -> bool:
        return all(trainer.estimates_are_reliable for trainer in self.trainers)

    @property
    def beta(self) -> np.ndarray:
        return np.concatenate([trainer.beta for trainer in self.trainers])

    @property
    def refused(self) -> np.ndarray:
        return np.concatenate([trainer.refused for trainer in self.trainers])

    def run(self, until: int, targets: np.ndarray, stop: StopFlag) -> Progress:
        found = [
            trainer.run(until, targets[k : k + 1], stop) for k, trainer in enumerate(self.trainers)
        ]
        return Progress(*(np.concatenate(column) for column in zip(*found, strict=True)))

    def point(self) -> np.ndarray:
        return np.hstack([trainer.point() for trainer in self.trainers])

    def iterate(self) -> np.ndarray:
        return np.hstack([trainer.iterate() for trainer in self.trainers])

    def recent_mean(self) -> np.ndarray | None:
        means = [trainer.recent_mean() for trainer in self.trainers]
        if any(mean is None for mean in means):
            return None
        return np.hstack([mean for mean in means if mean is not None])

    def sums(self, W: np.ndarray, screen: bool = False) -> Sums:
        found = [t.sums(W[:, [k]], screen) for k, t in enumerate(self.trainers)]
        values = np.hstack([sums.values for sums in found])
        norms = np.concatenate([sums.norms for sums in found])
        return Sums(values, norms, self.facts)

    def combination(self) -> np.ndarray:
        return np.hstack([trainer.combination() for trainer in self.trainers])

    def keep_primal(self, W: np.ndarray, which: np.ndarray) -> None:
        for k, trainer in enumerate(self.trainers):
            trainer.keep_primal(W[:, [k]], which[k : k + 1])

    def keep_dual(self, which: np.ndarray) -> None:
        for k, trainer in enumerate(self.trainers):
            trainer.keep_dual(which[k : k + 1])

    def best(self) -> tuple[np.ndarray, HostDual]:
        found = [trainer.best() for trainer in self.trainers]
        alpha = np.hstack([dual.fetch() for _, dual in found])
        return np.hstack([W for W, _ in found]), HostDual(np.asfortranarray(alpha))

    def restart_average(self) -> None:
        for trainer in self.trainers:
            trainer.restart_average()
