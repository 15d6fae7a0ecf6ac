"""Who executes a run of iterations: compiled code, or plain NumPy as its oracle."""

from batchsvm.engines import cpu, reference

ENGINES: dict[str, type[cpu.Engine] | type[reference.Engine]] = {
    "cpu": cpu.Engine,
    "reference": reference.Engine,
}

__all__ = ["ENGINES"]
