"""Benchmarks of training on data that are larger than memory."""
