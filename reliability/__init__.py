"""Attacks on the guarantees of this library: kills, failing disks, damaged files, hostile input, rival writers.

``python -m reliability`` runs them all and exits with 1 if a guarantee is violated; ``python -m reliability page``
writes ``docs/reliability.md`` from their journal.
"""
