"""Checks that anybody can run on a model, drift, prior, diffusion or solver of their own."""
