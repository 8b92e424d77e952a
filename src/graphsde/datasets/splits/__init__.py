"""Who trains and who is tested: families of seeded, disjoint, hashable splits."""

# isort: off
from graphsde.datasets.splits import standard, leave_out, calibration  # noqa: F401  (registers the families, in this order)

# isort: on
from graphsde.datasets.splits.split import SPLITS, Split, default_split, has_public_masks, make_split

__all__ = ["SPLITS", "Split", "default_split", "has_public_masks", "make_split"]
