"""Attacks on the promises of this library: kills, failing disks, damaged files, hostile input, rival writers.

``python -m reliability`` runs them all and exits with 1 where a promise is broken; ``python -m reliability page``
writes ``docs/reliability.md`` from their journal.
"""
