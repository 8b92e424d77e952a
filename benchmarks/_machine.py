"""Which machine a figure is from: without that it means nothing anywhere else."""

from __future__ import annotations

import hashlib
import os
import platform
import sys
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch

import graphsde
from graphsde._version import __version__
from graphsde.base.processor import processor_facts, processor_name

INSTRUCTIONS = ("avx2", "fma", "avx512f", "avx512dq", "avx512bw", "avx512vl", "avx512_vnni", "avx512_bf16", "asimd")
"""Those that change how fast a matrix product or a logarithm is; of ARM's only the common one."""
SWITCHES = (
    "NPY_DISABLE_CPU_FEATURES", "ATEN_CPU_CAPABILITY", "MKL_ENABLE_INSTRUCTIONS", "ONEDNN_MAX_CPU_ISA",
    "NUMBA_CPU_NAME", "OMP_NUM_THREADS", "MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_",
)  # fmt: skip
"""Variables of the environment with which one machine can stand in for another, or flatter itself."""


def machine() -> dict[str, Any]:
    """CPU, instruction sets as the system has them and as torch and numpy use them, load, versions."""
    info = processor_facts()
    flags = set((info.get("flags") or info.get("Features") or "").split())
    return {
        "cpu": processor_name(),
        "cpus": os.cpu_count(),
        "instructions": [name for name in INSTRUCTIONS if name in flags],
        "torch_uses": torch.backends.cpu.get_cpu_capability(),
        "numpy_uses": _numpy_uses(),
        "load": round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None,
        "switches": {name: os.environ[name] for name in SWITCHES if name in os.environ},
        "torch": torch.__version__,
        "numpy": np.__version__,
        "graphsde": __version__,
        "python": platform.python_version(),
        "revision": revision(),
    }


def describe(found: dict[str, Any]) -> str:
    """The same in three lines."""
    switches = ", ".join(f"{name}={value}" for name, value in found["switches"].items())
    return "\n".join(
        (
            f"{found['cpu']}, {found['cpus']} processors, load {found['load']}; {' '.join(found['instructions'])}",
            f"torch {found['torch']} uses {found['torch_uses']}; numpy {found['numpy']} uses "
            f"{' '.join(found['numpy_uses'])}" + (f"; {switches}" if switches else ""),
            f"graphsde {found['graphsde']}, source {found['revision']}, Python {found['python']}",
        )
    )


@lru_cache(maxsize=1)
def revision() -> str:
    """A digest of the package's own source: a figure of other code is another figure."""
    digest, root = hashlib.sha256(), Path(graphsde.__file__).parent
    for path in sorted(root.rglob("*.py")):
        digest.update(path.relative_to(root).as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:12]


def as_without_avx512() -> dict[str, str]:
    """An environment in which torch, numpy, their products and numba use no more than AVX2."""
    newer = [name for name in _numpy_uses() if name == "X86_V4" or name.startswith("AVX512")]
    return {
        "NPY_DISABLE_CPU_FEATURES": " ".join(newer),
        "ATEN_CPU_CAPABILITY": "avx2",
        "MKL_ENABLE_INSTRUCTIONS": "AVX2",
        "ONEDNN_MAX_CPU_ISA": "AVX2",
        "NUMBA_CPU_NAME": "haswell",
    }


def variant(*, kernels: bool) -> str:
    """What a result's name ends with: how it differs from everything switched on."""
    ends = [] if kernels else ["no-kernels"]
    ends += ["avx2"] if os.environ.get("ATEN_CPU_CAPABILITY") == "avx2" else []
    return "".join(f"-{end}" for end in ends)


def without_kernels() -> None:
    """As if the extra "kernels" were not installed, in this process."""
    sys.modules["numba"] = None  # type: ignore[assignment]


def kernels_at_hand() -> bool:
    """Whether the extra is there; if so its loops are compiled now, so that no turn pays for that."""
    from graphsde.base.keyed_normals import load

    return load() is not None


def _numpy_uses() -> list[str]:
    """What numpy found and may use, with its baseline."""
    found: Any = np.show_config(mode="dicts")
    simd = found.get("SIMD Extensions", {})
    return [*simd.get("baseline", []), *simd.get("found", [])]
