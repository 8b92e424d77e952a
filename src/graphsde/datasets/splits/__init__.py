"""Train and test splits: families of seeded, disjoint, hashable splits."""

# isort: off
from graphsde.datasets.splits import standard, leave_out, calibration, structural  # noqa: F401  (registers, in order)

# isort: on
from graphsde.datasets.splits.split import SPLITS, Split, default_split, has_public_masks, make_split

__all__ = ["SPLITS", "Split", "default_split", "has_public_masks", "make_split"]
