"""Runs: a fitted model, its data and results, in a folder that can be read, resumed and repeated."""
