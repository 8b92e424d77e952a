"""The tables of three pages of docs, made from JSON: nothing is there that was not measured.

    python benchmarks/page.py [--check] [--page FILE] [--results DIR]

A table stands between ``<!-- table: NAME -->`` and ``<!-- end -->``. With --check nothing is written, and a page that
differs from the figures is an exit code.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).resolve().parents[1] / "results" / "benchmarks"
PAGES = [Path(__file__).resolve().parents[1] / "docs" / name for name in ("performance.md", "scale.md", "runs.md")]
MISSING = "not measured"
METHODS = ("metis", "stream")
RENTED, RENTED_GBIT = (16, 64, 256), 25.0
COLUMNS = {"": "with the extra `kernels`", "-no-kernels": "torch and numpy alone", "-avx2": "without AVX-512"}
"""How the name of a result ends, and what its column is called."""

SOLVER_ROWS = {
    "epoch_speedup_vs_torchsde d64_L10": ("speed-up over torchsde per epoch, d = 64, L = 10", "≥ 8"),
    "epoch_speedup_vs_torchsde d16_L100": ("the same, d = 16, L = 100", "≥ 17"),
    "epoch_speedup_vs_torchsde d256_L10": ("the same, d = 256, L = 10", "≥ 7"),
    "euler_like_for_like_by_size d64_L10": ("speed-up over torchsde's Euler on the same CSR, d = 64, L = 10", "≥ 2.5"),
    "euler_like_for_like_by_size d16_L100": ("the same, d = 16, L = 100", ""),
    "predict32_speedup": ("speed-up over torchsde for 32 predictions, no KL", "≥ 8"),
    "epoch_over_gcn": ("our epoch relative to that of a PyG GCN with dense features", "≤ 4"),
    "epoch_over_floor": ("our epoch relative to its matrix products alone", "≤ 3"),
    "checkpoint_time_ratio": ("time with checkpoints relative to stored states, d = 64, L = 100", "≤ 1.8"),
    "peak_ratio_L100_L10": ("memory added with √L checkpoints, L = 100 relative to L = 10", "≤ 1.5"),
    "threads2_speedup": ("speed-up from one thread to two, d = 256", "≥ 1.5"),
}
DEFAULT_ROWS = {
    "epoch_over_products": ("an epoch relative to its matrix products", {"computers": "≤ 1.3", "pubmed": "≤ 2.5"}),
    "noisy_epoch_over_products": ("the same with noise, σ = 0.25", {"computers": "≤ 1.3", "pubmed": "≤ 2.5"}),
    "predict64_over_noise_free": (
        "64 samples relative to a noise-free prediction",
        dict.fromkeys(("computers", "pubmed", "cora"), "≤ 3"),
    ),
    "validation32_over_epoch": ("validation with 32 draws relative to an epoch", {}),
}
WHO = {"ours": "graphsde", "pyg": "PyG", "torchsde": "torchsde", "diffrax": "JAX, diffrax"}


class Results:
    """The JSON files of a folder by name; one that is not there, or only tried with ``--quick``, is empty."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.scale = folder, folder.parent / "scale"

    def traffic(self) -> dict[str, Any]:
        """What benchmarks/traffic.py has found."""
        path = self.scale / "traffic.json"
        return dict(json.loads(path.read_text(encoding="utf-8"))) if path.is_file() else {}

    def __call__(self, name: str) -> dict[str, Any]:
        path = self.folder / f"{name}.json"
        if not path.exists():
            return {}
        found = json.loads(path.read_text(encoding="utf-8"))
        return {} if found.get("quick") else found

    def variants(self, name: str) -> dict[str, dict[str, Any]]:
        """The columns of a table: always the first two, others where they were measured."""
        found = {end: self(name + end) for end in COLUMNS}
        return {end: one for end, one in found.items() if one or end in ("", "-no-kernels")}


def met(figure: float, goal: str) -> bool:
    """Whether a figure meets a goal as the tables spell it; one without a goal does.

    Example:
        >>> met(7.9, "≥ 8"), met(1.3, "≤ 1.3"), met(5.0, "")
        (False, True, True)
    """
    if not goal:
        return True
    limit = float(goal[2:])
    return figure >= limit if goal[0] == "≥" else figure <= limit


def cell(figure: float | None, goal: str = "") -> str:
    if figure is None:
        return MISSING
    return f"{figure:.2f}" if met(figure, goal) else f"{figure:.2f}, **missed**"


def table(head: list[str], rows: list[list[str]]) -> str:
    if not rows:
        return f"({MISSING})"
    lines = ["| " + " | ".join(row) + " |" for row in (head, *rows)]
    return "\n".join([lines[0], "|" + "---|" * len(head), *lines[1:]])


def at(found: dict[str, Any], name: str) -> Any:
    """A figure by the name of its key and, after a space, of one inside."""
    for key in name.split(" "):
        found = found.get(key, {}) if isinstance(found, dict) else {}
    return found if found != {} else None


def solver(results: Results) -> str:
    columns = results.variants("solver")
    head = ["figure", "goal", *(COLUMNS[end] for end in columns)]
    for end, one in columns.items():
        columns[end] = {**one, "threads2_speedup": results("threads" + end).get("threads2_speedup")}
    rows = [
        [words, goal, *(cell(at(one, name), goal) for one in columns.values())]
        for name, (words, goal) in SOLVER_ROWS.items()
    ]
    return table(head, rows)


def default(results: Results) -> str:
    columns = results.variants("default")
    graphs = list(dict.fromkeys(graph for one in columns.values() for graph in one.get("graphs", {})))
    head = ["figure", "graph", "goal", *(COLUMNS[end] for end in columns)]
    rows = []
    for name, (words, goals) in DEFAULT_ROWS.items():
        for graph in graphs:
            goal = goals.get(graph, "")
            figures = [cell(at(one, f"graphs {graph} {name}"), goal) for one in columns.values()]
            rows.append([words, graph, goal, *figures])
    return table(head, rows)


def fits(results: Results) -> str:
    found = results("peers")
    rows = []
    for graph, kinds in found.get("plain", {}).items():
        for kind, one in kinds.items():
            rows += _fit_rows(
                kind.upper(), graph, {name: one[name] for name in ("ours", "pyg")}, {"pyg": one["speedup"]}
            )
    for graph, one in found.get("latent", {}).items():
        who = {name: one[name] for name in WHO if name in one}
        rows += _fit_rows("latent SDE", graph, who, one["speedup"])
    return table(["fit", "graph", "by", "CPU s", "epochs", "ms per epoch", "test accuracy", "relative to ours"], rows)


def _fit_rows(kind: str, graph: str, who: dict[str, Any], speedups: dict[str, float]) -> list[list[str]]:
    return [
        [
            kind, graph, WHO[name], f"{fit['seconds']:.2f}", ", ".join(map(str, fit["epochs"])),
            f"{fit['milliseconds_per_epoch']:.1f}", f"{fit['accuracy']:.3f}",
            f"{speedups[name]:.2f}" if name in speedups else "",
        ]
        for name, fit in who.items()
    ]  # fmt: skip


def default_fit(results: Results) -> str:
    head = [
        "graph",
        "epochs",
        "ours, CPU s",
        "of which prediction",
        "PyG GCN, CPU s",
        "accuracy",
        "GCN's accuracy",
        "ratio, goal ≤ 3",
    ]
    rows = []
    for graph, one in results("peers").get("default", {}).items():
        ours, pyg = one["ours"], one["pyg"]
        seconds = [f"{ours['seconds']:.2f}", f"{ours['prediction_seconds']:.2f}", f"{pyg['seconds']:.2f}"]
        accuracy = [f"{ours['accuracy']:.3f}", f"{pyg['accuracy']:.3f}"]
        rows.append([graph, str(ours["epochs"]), *seconds, *accuracy, cell(one["fit_over_gcn"], "≤ 3")])
    return table(head, rows)


def memory(results: Results) -> str:
    added = results("memory").get("added_mib", {})
    steps = ("L10", "L40", "L100")
    rows = [[kind, *(f"{one[size]:.0f}" if size in one else "" for size in steps)] for kind, one in added.items()]
    return table(["MiB added by an epoch", *(f"L = {size[1:]}" for size in steps)], rows)


def large(results: Results) -> str:
    rows, found = [], results("memory-computers")
    if found:
        sizes = f"Computers ({found['nodes']:,} nodes), d = {found['width']}, L = {found['steps']}, √L checkpoints"
        rows.append([sizes, f"{found['peak_gb']:.2f} GB", f"≤ {found['limit_gb']:g} GB"])
    million = results("scale").get("million_nodes")
    if million:
        words = f"{million['peak_gib']:.2f} GiB" + ("" if million["within"] else ", **missed**")
        rows.append(["10⁶ nodes, 10⁷ edges, d = 64, L = 10, full batch", words, f"≤ {million['limit_gib']} GiB"])
    return table(["one training epoch", "peak of the process", "goal"], rows)


SWEEPS = {"nodes": "nodes", "degree": "edges per node", "steps": "steps L"}
MODELS = {"default": "default, σ = 0.25", "paper": "`lgnsde@paper`"}


def scale(results: Results) -> str:
    rows = []
    for models in results("scale").get("sweeps", {}).values():
        for model, found in models.items():
            for row in found["rows"]:
                sample = row["sample_seconds"]
                rows.append(
                    [
                        MODELS[model], f"{row['nodes']:,}", str(row["degree"]), str(row["steps"]),
                        f"{row['epoch_seconds']:.3g}", f"{100 * row['system_share']:.0f} %", f"{row['page_faults']:,}",
                        f"{row['epoch_peak_gb']:.2f}", "" if sample is None else f"{64 * sample:.3g}",
                        str(row["samples"]) if sample is not None else "",
                        "" if row["prediction_peak_gb"] is None else f"{row['prediction_peak_gb']:.2f}",
                    ]
                )  # fmt: skip
    head = ["model", "nodes", "edges per node", "L", "epoch, CPU s", "of which system", "page faults", "peak, GB"]
    unique = list(dict.fromkeys(map(tuple, rows)))
    return table([*head, "64 samples, CPU s", "drawn", "peak, GB"], [list(row) for row in unique])


def growth(results: Results) -> str:
    rows = []
    for sweep, models in results("scale").get("sweeps", {}).items():
        for model, found in models.items():
            sizes = [row["size"] for row in found["rows"]]
            span = f"{SWEEPS[sweep]}, {sizes[0]:,} to {sizes[-1]:,}" if sizes else SWEEPS[sweep]
            cells = [_powers(found["exponents"][what]) for what in ("epoch", "sample")]
            rows.append([MODELS[model], span, *cells])
    return table(["model", "varied", "exponent of an epoch (between sizes)", "exponent of a sample"], rows)


def _powers(found: dict[str, Any]) -> str:
    if found["overall"] is None:
        return MISSING
    return f"{found['overall']:.2f} ({', '.join(f'{one:.2f}' for one in found['steps'])})"


def workers(results: Results) -> str:
    """One model in parts by several processes, beside the whole graph in one."""
    rows = []
    for row in results("workers").get("rows", []):
        parts = row["workers"] > 0
        rows.append(
            [
                row["graph"], MODELS[row["model"]].partition(",")[0], str(row["workers"]) if parts else "whole graph",
                f"{row['cpu_seconds']:.2f}",
                f"{row['largest_cpu_seconds']:.2f}" if parts else f"{row['cpu_seconds']:.2f}",
                f"{row['halo_bytes_per_step'] / 1e6:.2f}" if parts else "", f"{row['exchanges']:.0f}" if parts else "",
                f"{row['sent_bytes_per_epoch'] / 1e6:.1f}" if parts else "", f"{row['anonymous_bytes'] / 1e6:.0f}",
            ]
        )  # fmt: skip
    head = ["graph", "model", "workers", "epoch, total CPU s", "CPU s of the busiest", "halo MB per step", "steps"]
    return table([*head, "MB sent per epoch", "anonymous MB per worker"], rows)


def halos(results: Results) -> str:
    """Rows fetched for a product over the graph's nodes, METIS / streaming, by the number of parts."""
    path = results.scale / "halos.jsonl"
    found = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.is_file() else []
    by = {(one["graph"], one["parts"], one["method"]): one["halo"] / one["nodes"] for one in found}
    counts = sorted({one["parts"] for one in found})
    rows = []
    for one in {one["graph"]: one for one in found}.values():
        each = [
            " / ".join(f"{by[key]:.2f}" if (key := (one["graph"], count, method)) in by else "–" for method in METHODS)
            for count in counts
        ]
        rows.append([one["graph"], f"{one['nodes']:,}", f"{one['entries']:,}", *each])
    return table(["graph", "nodes", "entries", *(f"P = {count}" for count in counts)], rows)


def traffic_check(results: Results) -> str:
    rows = [
        [one["graph"], one["model"], str(one["workers"]), *(f"{one[key]:.2f}" for key in ("predicted", "measured"))]
        for one in results.traffic().get("check", [])
    ]
    return table(["graph", "model", "workers", "predicted, CPU s", "measured, CPU s"], rows)


def _seconds(found: float) -> str:
    return f"{found:,.0f}" if found >= 100 else f"{found:.3g}"


def traffic(results: Results) -> str:
    rows, head = [], ["halos like", "Gbit/s"]
    for one in results.traffic().get("tables", []):
        head = ["halos like", "Gbit/s", *(f"W = {row['workers']:,}" for row in one["rows"]), "little gain beyond"]
        cells = [_seconds(row["seconds"]) for row in one["rows"]]
        rows.append([one["like"], f"{one['gbit']:g}", *cells, str(one["stops_helping"] or "")])
    return table(head, rows)


def machines_to_rent(results: Results) -> str:
    rows = []
    for one in results.traffic().get("tables", []):
        for row in one["rows"]:
            if one["gbit"] == RENTED_GBIT and row["workers"] in RENTED:
                halo, memory = f"{row['halo_bytes'] / 1e6:,.0f}", f"{row['memory_bytes'] / 1e9:,.1f}"
                network = f"{row['bits_per_second'] / 1e9:.1f}"
                rows.append([one["like"], f"{row['workers']:,}", halo, memory, network, _seconds(row["seconds"])])
    return table(["halos like", "workers", "halo MB per step", "memory GB", "Gbit/s on average", "epoch, s"], rows)


def reading(results: Results) -> str:
    found = results("reading")
    goals = found.get("goals", {})
    rows = []
    for ids, one in found.get("ids", {}).items():
        limits = [f"≤ {goals[name]:g}" for name in ("cpu_seconds", "peak_over_size")]
        figures = [
            cell(one[name], limit) for name, limit in zip(("cpu_seconds", "peak_over_size"), limits, strict=True)
        ]
        rows.append([f"{found['nodes']:,} nodes, {found['edges']:,} edges, ids are {ids}", *figures])
    return table(["Parquet folder", "CPU s, goal ≤ 15", "peak over the graph's size, goal ≤ 1.5"], rows)


def wide_csv(results: Results) -> str:
    found = results("wide_csv")
    taken = found.get("cpu_seconds", [])
    rows = []
    if taken:
        rows.append([f"{found['nodes']:,} rows, {found['words']:,} columns", spread(taken, f"≤ {found['goal']:g}")])
    return table(["CSV folder", "CPU s with imports, goal ≤ 5, mean (least to most of 3)"], rows)


def kept(results: Results) -> str:
    rows = [
        [f"`{verb}`", spread(one["solved"]), spread(one["kept"])]
        for verb, one in results("kept").get("seconds", {}).items()
    ]
    return table(["command", "without the stored files", "with them"], rows)


def spread(figures: list[float], goal: str = "") -> str:
    """Mean, least and most."""
    return f"{cell(sum(figures) / len(figures), goal)} ({min(figures):.2f} to {max(figures):.2f})"


def limits(results: Results) -> str:
    found = results("limits")
    limit = found.get("limit_mib", 0)
    rows = []
    for verb, one in found.get("verbs", {}).items():
        missed = "" if one["anonymous_mib"] <= limit else ", **missed**"
        cells = [f"{one['cpu_seconds']:.0f}", f"{one['anonymous_mib']:,}{missed}", f"{one['resident_mib']:,}"]
        rows.append([f"`{verb}`", *cells])
    return table(["command", "CPU s", f"anonymous MiB, goal ≤ {limit:,}", "MiB with mapped files"], rows)


def ways(results: Results) -> str:
    found = results("ways")
    limit = 2048
    rows = []
    for name, one in found.get("rows", {}).items():
        model, way = name.split(" ")
        whole, ratio = found["rows"].get(f"{model} full"), ""
        if way != "full" and whole:
            over = one["epoch_seconds"] / whole["epoch_seconds"]
            ratio = f"{over:.2f}" + ("" if over <= found["goal"] else ", **missed**")
        held = [
            f"{one[key]:,}" + ("" if way == "full" or one[key] <= limit else ", **missed**")
            for key in ("fit_mib", "predict_mib")
        ]
        rows.append([model, way, f"{one['epoch_seconds']:.1f}", ratio, *held])
    over = "relative to the whole graph, goal ≤ 1.5"
    return table(
        ["model", "way", "CPU s per epoch", over, "anonymous MiB of a fit, goal ≤ 2,048", "of a prediction"], rows
    )


def estimates(results: Results) -> str:
    found = results("estimates")
    rows = []
    for one in found.get("graphs", []):
        said, taken = (f"{one[name] / 1e6:,.0f}" for name in ("estimated_bytes", "peak_bytes"))
        off = "" if abs(one["memory_ratio"] - 1) <= found["within"] else ", **missed**"
        times = [f"{one[name]:.1f}" for name in ("estimated_seconds", "seconds")]
        rows.append([one["graph"], f"{one['nodes']:,}", said, taken, f"{one['memory_ratio']:.2f}{off}", *times])
    return table(["graph", "nodes", "MB estimated", "MB used", "ratio, goal 0.7 to 1.3", "s estimated", "s used"], rows)


def adjoint(results: Results) -> str:
    rows = [
        [name, f"{one['drift']:.2f}", f"{one['nothing']:.2f}"]
        for name, one in results("adjoint").get("adjoint", {}).items()
    ]
    return table(["epoch, Cora", "analytic gradient for the drift only", "no analytic gradient"], rows)


def machines(results: Results) -> str:
    """Which figures are from where."""
    rows = []
    for path in sorted(results.folder.glob("*.json")):
        found = results(path.stem)
        if not found:
            continue
        one = found["machine"]
        rows.append(
            [
                f"`{path.stem}`", f"{one['cpu']}, {one['cpus']} processors", f"{one['torch_uses']}",
                " ".join(one["numpy_uses"]), f"{one['load']}", f"{one['torch']}", f"`{one['revision']}`",
            ]
        )  # fmt: skip
    return table(["result", "CPU", "torch uses", "numpy uses", "load before", "torch", "source"], rows)


TABLES: dict[str, Callable[[Results], str]] = {
    "solver": solver,
    "default": default,
    "default fit": default_fit,
    "fits": fits,
    "memory": memory,
    "large": large,
    "growth": growth,
    "scale": scale,
    "workers": workers,
    "halos": halos,
    "traffic check": traffic_check,
    "traffic": traffic,
    "machines to rent": machines_to_rent,
    "adjoint": adjoint,
    "limits": limits,
    "ways": ways,
    "reading": reading,
    "wide csv": wide_csv,
    "kept": kept,
    "estimates": estimates,
    "machines": machines,
}
MARKED = re.compile(r"(<!-- table: (?P<name>[\w ]+) -->\n)(?P<body>.*?)(<!-- end -->)", flags=re.DOTALL)


def written(text: str, results: Results) -> str:
    """The page with its tables made anew."""
    return MARKED.sub(lambda found: f"{found[1]}\n{TABLES[found['name']](results)}\n\n{found[4]}", text)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing; say whether the page is up to date")
    parser.add_argument("--page", type=Path, nargs="+", default=PAGES)
    parser.add_argument("--results", type=Path, default=RESULTS)
    given = parser.parse_args()
    for page in given.page:
        before = page.read_text(encoding="utf-8")
        after = written(before, Results(given.results))
        if given.check and after != before:
            sys.exit(f"{page} differs from the figures: python benchmarks/page.py")
        if not given.check:
            page.write_text(after, encoding="utf-8")


if __name__ == "__main__":
    main()
