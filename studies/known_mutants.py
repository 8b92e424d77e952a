"""Mistakes that would hurt, and mutants that change no result."""

from __future__ import annotations

DANGEROUS: list[tuple[str, str, str, str]] = []
EQUIVALENT: dict[tuple[str, str, str, str], str] = {}
