"""Foundations: errors, registries, keyed random streams, safe storage."""
