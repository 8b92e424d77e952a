"""Runs: what was fitted on what, kept in a folder that can be read, resumed and repeated."""
