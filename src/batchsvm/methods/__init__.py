"""The methods of the paper: their parameters, and the rules by which an iteration decides."""

from batchsvm.methods.blocks import Blocks, best_theta
from batchsvm.methods.gram import Gram, joint_theta, next_joint_beta
from batchsvm.methods.pegasos import Pegasos
from batchsvm.methods.sdca import (
    STEPS,
    Aggressive,
    DualMethod,
    Guarded,
    Naive,
    Safe,
    next_beta,
)

Method = Pegasos | DualMethod

METHODS: dict[str, type[Pegasos] | type[DualMethod]] = {
    "pegasos": Pegasos,
    "naive": Naive,
    "safe": Safe,
    "guarded": Guarded,
    "aggressive": Aggressive,
    "blocks": Blocks,
    "gram": Gram,
}
SAMPLINGS = ("permutation", "subsets", "replacement")
AVERAGINGS = (None, "tail", "decay")

__all__ = [
    "AVERAGINGS",
    "METHODS",
    "SAMPLINGS",
    "STEPS",
    "Aggressive",
    "Blocks",
    "DualMethod",
    "Gram",
    "Guarded",
    "Method",
    "Naive",
    "Pegasos",
    "Safe",
    "best_theta",
    "joint_theta",
    "next_beta",
    "next_joint_beta",
]
