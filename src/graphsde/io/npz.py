"""``.npz`` files: plain arrays, or the layouts of two public collections of graphs; nothing is unpickled."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import scipy.sparse as sp

from graphsde.base.errors import BadInput, BadUsage, shorten
from graphsde.graph.edges import edges_of_matrix
from graphsde.graph.features import check_structure
from graphsde.graph.graph import MASK_NAMES
from graphsde.graph.raw import Finding, RawGraph
from graphsde.io.npz_cost import ADJACENCY, FEATURE_NAMES, FEATURES, LABELS, NODE_NAMES, PARTS, WEIGHTS, refuse_dear
from graphsde.io.opening import opened
from graphsde.io.zip_arrays import ZipArrays


def read_npz(path: Path, name: str | None = None, mask: int = 0) -> RawGraph:
    """Read a graph from an ``.npz`` file.

    Known arrays: ``features`` or ``x`` [N, d], or its CSR parts (``features_data``, ``_indices``, ``_indptr``,
    ``_shape``); ``edge_index`` [2, E], or ``edges`` [E, 2], or the CSR parts of ``adj``; ``labels`` or ``y``;
    ``node_ids``, ``node_names`` (display names), ``class_names``, ``feature_names``, ``edge_weight``,
    ``train_mask`` and the other masks, ``image_shape``. The gnn-benchmark layout calls the features ``attr`` and the
    ids ``node_names``; the layout of the heterophilous graphs (Platonov et al., 2023) has ``node_features``,
    ``node_labels``, ``edges`` and several splits: ``train_masks``, ``val_masks`` and ``test_masks`` [K, N].

    Args:
        path: the file.
        name: of the graph, for messages.
        mask: which of several splits to use, from 0.
    """
    with opened(path) as stream:
        arrays = ZipArrays(stream, path)
        refuse_dear(arrays)
        return _Reader(arrays, path, mask).graph(name or path.stem)


class _Reader:
    def __init__(self, arrays: ZipArrays, path: Path, mask: int = 0) -> None:
        self.arrays, self.path, self.mask = arrays, path, mask
        self.findings: list[Finding] = []

    def graph(self, name: str) -> RawGraph:
        features = self._features()
        labels = self._first(LABELS, (1, 2))
        node_ids = self._node_ids()
        masks = self._masks()
        adjacency = self._matrix(ADJACENCY)
        sizes = [int(one.shape[0]) for one in (features, adjacency, node_ids, labels) if one is not None]
        if not sizes:
            raise self._missing("features, labels or node_ids", "features")
        sources, targets, weights = self._edges(adjacency, sizes[0])
        shape = self._first(("image_shape",), (1,))
        class_names = self._names(("class_names",))
        feature_names = self._names(FEATURE_NAMES)
        return RawGraph(
            num_nodes=sizes[0],
            node_ids=node_ids,
            node_names=self._display_names(sizes[0]),
            numeric=features,
            feature_names=None if feature_names is None else [str(one) for one in feature_names],
            labels=labels,
            masks=masks,
            sources=sources,
            targets=targets,
            weights=weights,
            edges_by_id=False,
            class_names=None if class_names is None else [str(one) for one in class_names],
            image_shape=None if shape is None else self._image_shape(shape),
            name=name,
            node_place=lambda row: f"{self.path.name}, node {row}",
            edge_place=lambda row: f"{self.path.name}, edge {row}",
            findings=self.findings,
        )

    def _masks(self) -> dict[str, np.ndarray]:
        """The split; if there are several, the requested one."""
        several = {role: f"{role}_masks" for role in MASK_NAMES if f"{role}_masks" in self.arrays}
        if not several:
            if self.mask:
                raise self._no_such_mask(1)
            return {role: self._column(f"{role}_mask") for role in MASK_NAMES if f"{role}_mask" in self.arrays}
        masks: dict[str, np.ndarray] = {}
        for role, name in several.items():
            every = self._column(name, (2,))
            if not self.mask < len(every):
                raise self._no_such_mask(len(every))
            masks[role] = every[self.mask]
        message = f"the file has {len(every)} splits; using number {self.mask} (counted from 0)"
        hint = "use read(…, mask=1) or --read mask=1 for the next one"
        self.findings.append(Finding("W-MASK-CHOSEN", "note", message, len(every), tuple(several.values()), hint))
        return masks

    def _no_such_mask(self, count: int) -> BadUsage:
        return BadUsage(
            f"{self.path.name} has no split {self.mask}",
            code="E-MASK-NUMBER",
            place=self.path.name,
            found=self.mask,
            expected=f"0 to {count - 1}" if count > 1 else "0: there is only one",
            fix="set mask to one of these numbers",
        )

    def _features(self) -> np.ndarray | sp.csr_array | None:
        sparse = self._matrix(FEATURES)
        return self._first(FEATURES, (2,)) if sparse is None else sparse

    def _edges(
        self, adjacency: sp.csr_array | None, num_nodes: int
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
        if adjacency is not None:
            return edges_of_matrix(adjacency, num_nodes)
        if "edge_index" in self.arrays:
            pairs, expected = self._column("edge_index", (2,)), "[2, E]"
        elif "edges" in self.arrays:
            pairs, expected = self._column("edges", (2,)).T, "[E, 2]"
        else:
            raise self._missing("edges", "edge_index")
        if pairs.shape[0] != 2:
            raise BadInput(
                "the edges are not pairs of nodes",
                code="E-SHAPE",
                place=self.path.name,
                found=f"{pairs.shape[0]} entries per edge",
                expected=f"the shape {expected}",
                fix="transpose the array",
            )
        if pairs.size and pairs.dtype.kind not in "iu":
            raise BadInput(
                f"the edges have dtype {pairs.dtype}", code="E-DTYPE", place=self.path.name, expected="integers"
            )
        return pairs[0], pairs[1], self._first(WEIGHTS, (1,))

    def _matrix(self, names: tuple[str, ...]) -> sp.csr_array | None:
        """A CSR matrix from its four parts."""
        for name in names:
            separator = "." if f"{name}.indptr" in self.arrays else "_"
            parts = [f"{name}{separator}{part}" for part in PARTS]
            if parts[2] in self.arrays:
                return self._from_parts(name, parts)
        return None

    def _from_parts(self, name: str, parts: list[str]) -> sp.csr_array:
        absent = [part for part in parts if part not in self.arrays]
        if absent:
            raise self._csr_error(name, f"the part {absent[0]} is missing", ", ".join(parts))
        data, indices, indptr, shape = (self.arrays.read(part) for part in parts)
        if any(part.dtype.kind not in "iu" for part in (indices, indptr, shape)):
            raise self._csr_error(name, "indices, indptr and shape are not all integers", "integers")
        if data.dtype.kind not in "biuf":
            raise BadInput(
                f"{parts[0]} has dtype {data.dtype}", code="E-DTYPE", place=self.path.name, expected="numbers"
            )
        if shape.shape != (2,) or min(shape.tolist()) < 0 or max(shape.tolist()) > 2**31:
            raise self._csr_error(name, f"the shape is {shorten(shape.tolist(), 60)}", "two sizes below 2**31")
        if len({indices.size, data.size, int(indptr.max(initial=0))}) > 1:  # scipy would silently truncate
            sizes = f"{data.size} values, {indices.size} indices, indptr up to {indptr.max(initial=0)}"
            raise self._csr_error(name, sizes, "three equal numbers")
        try:
            matrix = sp.csr_array(
                (data, indices.astype(np.int64), indptr.astype(np.int64)), shape=tuple(shape.tolist())
            )
            check_structure(matrix)
        except (ValueError, TypeError, IndexError) as error:
            raise self._csr_error(name, str(error), "parts that fit together") from None
        except BadInput as error:
            raise self._csr_error(name, str(error.found), error.expected or "parts that fit together") from None
        return matrix

    def _node_ids(self) -> np.ndarray | None:
        """``node_ids`` are ids; ``node_names`` are used as ids only if they are unique."""
        if "node_ids" in self.arrays:
            return self._column("node_ids")
        names = self._names(NODE_NAMES)
        if names is not None and len(set(names.tolist())) < len(names):
            message = "node names are not unique and were not used as ids"
            self.findings.append(Finding("W-NAMES-IGNORED", "warning", message, 1, NODE_NAMES))
            return None
        return names

    def _display_names(self, num_nodes: int) -> np.ndarray | None:
        """``node_names`` are display names next to ``node_ids``; without those they are the ids."""
        if "node_ids" not in self.arrays or "node_names" not in self.arrays:
            return None
        names = self._names(("node_names",))
        return None if names is None or len(names) != num_nodes else names

    def _names(self, names: tuple[str, ...]) -> np.ndarray | None:
        """An optional array of names; old files store them as Python objects, which are not read."""
        for name in names:
            if name not in self.arrays:
                continue
            if not self.arrays.holds_objects(name):
                return self._column(name)
            instead = "; classes are named by their numbers" if name == "class_names" else ""
            message = f"the array '{name}' holds Python objects and was not read{instead}"
            hint = f"save it with {name}.astype(str) to have the names"
            self.findings.append(Finding("W-NAMES-IGNORED", "warning", message, 1, (name,), hint))
        return None

    def _first(self, names: tuple[str, ...], dimensions: tuple[int, ...]) -> np.ndarray | None:
        name = next((name for name in names if name in self.arrays), None)
        return None if name is None else self._column(name, dimensions)

    def _column(self, name: str, dimensions: tuple[int, ...] = (1,)) -> np.ndarray:
        values = self.arrays.read(name)
        if values.ndim not in dimensions:
            raise BadInput(
                f"the array '{name}' has the shape {values.shape}",
                code="E-SHAPE",
                place=f"{self.path.name}, array {name}",
                expected=" or ".join(f"{count} dimension{'s' if count > 1 else ''}" for count in dimensions),
            )
        if values.dtype.kind == "S":
            values = np.char.decode(values, "utf-8", "replace")
        return values.astype(object) if values.dtype.kind == "U" else values

    def _image_shape(self, shape: np.ndarray) -> tuple[int, int]:
        if shape.shape != (2,) or shape.dtype.kind not in "iu" or shape.min() < 1:
            raise BadInput(
                "image_shape is not a height and a width", code="E-SHAPE", place=self.path.name, found=str(shape)
            )
        return int(shape[0]), int(shape[1])

    def _csr_error(self, name: str, found: str, expected: str) -> BadInput:
        return BadInput(
            f"the parts of the sparse matrix '{name}' don't fit together: {shorten(found, 120)}",
            code="E-CSR",
            place=f"{self.path.name}, {name}",
            expected=expected,
            fix="save the parts of scipy.sparse.csr_array again: .data, .indices, .indptr, .shape",
        )

    def _missing(self, what: str, example: str) -> BadInput:
        return BadInput(
            f"{self.path.name} has no {what}",
            code="E-HEADER",
            place=self.path.name,
            found=shorten(", ".join(sorted(self.arrays.names))) or "no arrays",
            expected="features [N, d], edge_index [2, E] and labels [N], or the layout of a public collection",
            fix=f"add an array called {example}",
        )
