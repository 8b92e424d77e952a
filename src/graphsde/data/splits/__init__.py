"""Who trains and who is tested: families of seeded, disjoint, hashable splits."""

# isort: off
from graphsde.data.splits import standard, leave_out, calibration  # noqa: F401  (registers the families, in this order)

# isort: on
from graphsde.data.splits.registry import SPLITS, default_split, has_public_masks, make_split
from graphsde.data.splits.split import Split

__all__ = ["SPLITS", "Split", "default_split", "has_public_masks", "make_split"]
