"""Graphs by name and by path: benchmarks, synthetic ones, splits, shifts."""
