"""Timings against the solvers that people use today; `python -m benchmarks.run`."""
