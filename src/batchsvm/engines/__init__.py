"""Who executes a run of iterations: compiled code, or plain NumPy as its oracle."""

from batchsvm.engines import cpu, reference

ENGINES = {"cpu": cpu.run, "reference": reference.run}

__all__ = ["ENGINES"]
