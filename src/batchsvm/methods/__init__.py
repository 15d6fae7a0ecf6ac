"""The methods of the paper: their parameters, their state, what an iteration decides."""

from batchsvm.methods.averaging import AVERAGINGS
from batchsvm.methods.blocks import Blocks, BlockSampler, make_block_sampler
from batchsvm.methods.pegasos import Pegasos, PegasosState, start_pegasos
from batchsvm.methods.sdca import (
    STEPS,
    Aggressive,
    DualMethod,
    DualState,
    Guarded,
    Naive,
    Safe,
    start_dual,
)

Method = Pegasos | DualMethod
State = PegasosState | DualState

METHODS: dict[str, type[Pegasos] | type[DualMethod]] = {
    "pegasos": Pegasos,
    "naive": Naive,
    "safe": Safe,
    "guarded": Guarded,
    "aggressive": Aggressive,
    "blocks": Blocks,
}

__all__ = [
    "AVERAGINGS",
    "METHODS",
    "STEPS",
    "Aggressive",
    "BlockSampler",
    "Blocks",
    "DualMethod",
    "DualState",
    "Guarded",
    "Method",
    "Naive",
    "Pegasos",
    "PegasosState",
    "Safe",
    "State",
    "make_block_sampler",
    "start_dual",
    "start_pegasos",
]
