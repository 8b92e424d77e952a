"""Metrics by name, with what a reader needs to judge a figure: which way is better, the range, and chance."""

from __future__ import annotations

from collections.abc import Callable

from graphsde.registry import Registry

METRICS: Registry[Callable[..., float]] = Registry("metric")
"""Every metric.

The facts of an entry: ``takes``, its arguments in order; ``better`` (``higher``, ``lower``, or in words with the value
as ``best``); ``range``, lowest and highest possible value (``None`` = unbounded); ``chance``, what a score or a model
that knows nothing gets, as a number or, where that depends on the data, in words.
"""

LABELS = ("predicted", "labels")
PROBS = ("probs", "labels")
ERRORS = ("uncertainty", "errors")
IN_OUT = ("inside", "outside")
