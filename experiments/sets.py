"""The data of the experiments: see `batchsvm.datasets`, which `batchsvm data get` uses too."""

from __future__ import annotations

from batchsvm.datasets import FULL, QUICK, SETS, TINY, Data, Info, load

__all__ = ["FULL", "QUICK", "SETS", "TINY", "Data", "Info", "load"]
