"""The methods of the paper, and Newton's: their parameters, and the rules by which an iteration
decides."""

from batchsvm.methods.asynchronous import Asynchronous
from batchsvm.methods.blocks import Blocks, best_theta, next_block_beta
from batchsvm.methods.gram import Gram, joint_theta, next_joint_beta
from batchsvm.methods.newton import Newton, is_smooth
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

Method = Pegasos | DualMethod | Newton

METHODS: dict[str, type[Pegasos] | type[DualMethod] | type[Newton]] = {
    "pegasos": Pegasos,
    "naive": Naive,
    "safe": Safe,
    "guarded": Guarded,
    "aggressive": Aggressive,
    "blocks": Blocks,
    "gram": Gram,
    "asynchronous": Asynchronous,
    "newton": Newton,
}
SAMPLINGS = ("permutation", "subsets", "replacement")
AVERAGINGS = (None, "tail", "decay")

__all__ = [
    "AVERAGINGS",
    "METHODS",
    "SAMPLINGS",
    "STEPS",
    "Aggressive",
    "Asynchronous",
    "Blocks",
    "DualMethod",
    "Gram",
    "Guarded",
    "Method",
    "Naive",
    "Newton",
    "Pegasos",
    "Safe",
    "best_theta",
    "is_smooth",
    "joint_theta",
    "next_beta",
    "next_block_beta",
    "next_joint_beta",
]
