"""The pictures of ``docs/guarantees.md``, from one model on the embedded graph ``digits``, and the figures behind them.

    python studies/guarantee_pictures.py        # a minute or two

Writes ``docs/images/guarantee-*.png`` and ``results/guarantees.json``.
"""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np

import graphsde as gs
from graphsde.acting.ood import flag_per_node
from graphsde.uncertainty.binomial import clopper_pearson_upper
from graphsde.view.figures.style import BLUE, GREEN, GREY, INK, ORANGE, VERMILLION, print_figure, save_figure

ROOT = Path(__file__).resolve().parents[1]
IMAGES, JOURNAL = ROOT / "docs" / "images", ROOT / "results" / "guarantees.json"
LIMIT, DELTA, DRAWS, CALIBRATED = 0.05, 0.05, 400, 500
LEVELS = (0.7, 0.8, 0.9, 0.95, 0.99)
UNSEEN = "8"


def fitted(graph: gs.Graph) -> gs.ClassPrediction:
    prediction = gs.LGNSDE(seed=0).fit(graph).predict(graph)
    assert isinstance(prediction, gs.ClassPrediction)
    return prediction


def redrawn(graph: gs.Graph, rng: np.random.Generator, pool: np.ndarray) -> gs.Graph:
    """The same training and validation nodes; other calibration nodes, drawn at random, and the rest to decide on."""
    chosen = np.zeros(graph.num_nodes, dtype=bool)
    chosen[rng.choice(pool, CALIBRATED, replace=False)] = True
    return with_calibration(graph, chosen, pool)


def with_calibration(graph: gs.Graph, chosen: np.ndarray, pool: np.ndarray) -> gs.Graph:
    rest = np.zeros(graph.num_nodes, dtype=bool)
    rest[pool] = True
    return dataclasses.replace(graph, masks={**graph.masks, "calibration": chosen, "test": rest & ~chosen})


def share_wrong(accepted: np.ndarray, wrong: np.ndarray) -> float:
    return float(wrong[accepted].mean()) if accepted.any() else 0.0


def threshold_picture(graph: gs.Graph, prediction: gs.ClassPrediction, wrong: np.ndarray) -> dict[str, Any]:
    """Observed error, upper bound and truth against the share accepted, for one draw."""
    frontier = gs.certify(prediction, graph, delta=DELTA, focus=LIMIT)
    held, rest = frontier.calibration, frontier.decided
    order = np.flatnonzero(held)[np.argsort(frontier.values[held], kind="stable")]
    counts, errors = np.arange(1, len(order) + 1), np.cumsum(wrong[order])
    shares = [float((frontier.values[rest] <= frontier.values[one]).mean()) for one in order]
    bounds = clopper_pearson_upper(errors, counts, DELTA)
    truth = [share_wrong(rest & (frontier.values <= frontier.values[one]), wrong) for one in order]
    rung, shown = frontier.at(LIMIT), np.asarray(shares) > 0.15
    assert rung is not None
    accepted = frontier.accepted(LIMIT) & rest
    with print_figure(6.2, 3.4) as (figure, ax):
        ax.plot(100 * np.asarray(shares)[shown], 100 * np.asarray(bounds)[shown], color=BLUE, label="upper bound, 95 %")
        ax.plot(
            100 * np.asarray(shares)[shown],
            100 * (errors / counts)[shown],
            "--",
            color=BLUE,
            label="seen in calibration",
        )
        ax.plot(100 * np.asarray(shares)[shown], 100 * np.asarray(truth)[shown], ":", color=INK, label="truth")
        ax.axhline(100 * LIMIT, color=VERMILLION, linewidth=1)
        ax.text(16, 100 * LIMIT + 0.25, f"limit {LIMIT:.0%}", color=VERMILLION, fontsize=8)
        ax.axvline(100 * accepted.sum() / rest.sum(), color=GREEN, linewidth=1)
        ax.axvspan(0, 100 * accepted.sum() / rest.sum(), color=GREEN, alpha=0.08, linewidth=0)
        ax.set(xlabel="share accepted, the surest first (%)", ylabel="wrong among the accepted (%)", xlim=(15, 100))
        ax.set_ylim(bottom=0)
        ax.legend(loc="upper left")
        save_figure(figure, IMAGES / "guarantee-threshold.png")
    return {
        "accepted": round(float(accepted.sum() / rest.sum()), 4),
        "wrong_in_calibration": [rung.wrong, rung.accepted],
        "upper_bound": round(rung.upper_bound, 4),
        "truth": round(share_wrong(accepted, wrong), 4),
        "error_of_all": round(float(wrong[rest].mean()), 4),
    }


def draws_picture(
    graph: gs.Graph, prediction: gs.ClassPrediction, wrong: np.ndarray, pool: np.ndarray
) -> dict[str, Any]:
    """The true error among accepted nodes over many draws of calibration nodes, under three ways to calibrate."""
    rng = np.random.default_rng(0)
    found: dict[str, list[float]] = {"certified": [], "expected": [], "easy nodes only": []}
    shares: dict[str, list[float]] = {name: [] for name in found}
    easy = pool[np.argsort(prediction.total[pool])[: int(0.6 * len(pool))]]
    for _ in range(DRAWS):
        one = redrawn(graph, rng, pool)
        picked = np.zeros(graph.num_nodes, dtype=bool)
        picked[rng.choice(easy, CALIBRATED, replace=False)] = True
        other = with_calibration(graph, picked, pool)
        for name, accepted, rest in (
            ("certified", gs.certify(prediction, one, delta=DELTA, focus=LIMIT).accepted(LIMIT), one.test_mask),
            ("expected", gs.select(prediction, one, max_error=LIMIT).accepted, one.test_mask),
            (
                "easy nodes only",
                gs.certify(prediction, other, delta=DELTA, focus=LIMIT).accepted(LIMIT),
                other.test_mask,
            ),
        ):
            found[name].append(share_wrong(accepted & rest, wrong))
            shares[name].append(float((accepted & rest).sum() / rest.sum()))
    edges = np.arange(0, 0.1201, 0.004)
    with print_figure(6.4, 5.2, nrows=3, sharex=True) as (figure, axes):
        for ax, (name, values), colour in zip(axes, found.items(), (BLUE, ORANGE, GREY), strict=True):
            above = np.mean(np.asarray(values) > LIMIT)
            ax.hist(100 * np.asarray(values), bins=100 * edges, color=colour)
            ax.axvline(100 * LIMIT, color=VERMILLION, linewidth=1.2)
            ax.axvline(100 * np.mean(values), color=INK, linestyle=":", linewidth=1.2)
            ax.set_title(f"{name}: {above:.1%} of draws above the limit, {np.mean(values):.2%} wrong on average")
            ax.set_ylabel("draws")
        axes[-1].set_xlabel(f"wrong among the accepted (%); solid: the limit of {LIMIT:.0%}, dotted: the mean")
        save_figure(figure, IMAGES / "guarantee-draws.png")
    return {
        name: {
            "draws": DRAWS,
            "above_the_limit": round(float(np.mean(np.asarray(values) > LIMIT)), 4),
            "mean_error": round(float(np.mean(values)), 4),
            "mean_share_accepted": round(float(np.mean(shares[name])), 4),
        }
        for name, values in found.items()
    }


def sets_picture(graph: gs.Graph, prediction: gs.ClassPrediction, pool: np.ndarray) -> dict[str, Any]:
    """Coverage over draws for several levels, and images with their sets."""
    rng = np.random.default_rng(1)
    coverage: dict[float, list[float]] = {level: [] for level in LEVELS}
    sizes: dict[float, list[float]] = {level: [] for level in LEVELS}
    for _ in range(DRAWS // 4):
        one = redrawn(graph, rng, pool)
        for level in LEVELS:
            sets = gs.conformalize(prediction, one, confidence_level=level).predict_set(prediction)
            coverage[level].append(float(sets[np.arange(len(sets)), one.labels][one.test_mask].mean()))
            sizes[level].append(float(sets[one.test_mask].sum(1).mean()))
    sets = gs.conformalize(prediction, one, confidence_level=0.95).predict_set(prediction)
    count = sets.sum(1)
    examples = [int(rng.choice(np.flatnonzero(one.test_mask & (count == size)))) for size in (1, 1, 2, 3, 4)]
    with print_figure(7.2, 2.9, ncols=6, width_ratios=[3.2, 1, 1, 1, 1, 1]) as (figure, axes):
        first = axes[0]
        spread = [np.percentile(coverage[level], [5, 50, 95]) for level in LEVELS]
        first.plot([65, 100], [65, 100], color=GREY, linewidth=1)
        for level, (low, middle, high) in zip(LEVELS, spread, strict=True):
            first.plot([100 * level] * 2, [100 * low, 100 * high], color=BLUE, linewidth=2)
            first.plot(100 * level, 100 * middle, "o", color=BLUE, markersize=5)
        first.set(xlabel="level asked for (%)", ylabel="covered (%)", xlim=(65, 101), ylim=(65, 101))
        for ax, node in zip(axes[1:], examples, strict=True):
            ax.imshow(graph.features[node].reshape(graph.image_shape), cmap="gray_r")
            ax.set_axis_off()
            names = [graph.class_names[c] for c in np.argsort(-prediction.mean[node]) if sets[node, c]]
            ax.set_title("{" + ", ".join(names) + "}", fontsize=9)
        save_figure(figure, IMAGES / "guarantee-sets.png")
    return {
        str(level): {
            "coverage": round(float(np.mean(coverage[level])), 4),
            "size": round(float(np.mean(sizes[level])), 3),
        }
        for level in LEVELS
    }


def ood_picture() -> dict[str, Any]:
    """Scores of known and of unseen digits, with the threshold that validation nodes set."""
    whole = gs.load("digits")
    graph = gs.split(whole, "leave-class-out", leave=UNSEEN)
    prediction = fitted(graph)
    flag = flag_per_node(prediction, graph)
    unseen = np.asarray([name == UNSEEN for name in np.asarray(gs.load("digits").class_names)])[
        gs.load("digits").labels
    ]
    tested = graph.test_mask | graph.role("ood")
    scores = flag.values
    inside, outside = scores[tested & ~unseen], scores[tested & unseen]
    edges = np.linspace(scores[tested].min(), scores[tested].max(), 40)
    with print_figure(6.2, 3.0) as (figure, ax):
        for values, colour, hatch, name in (
            (inside, BLUE, "", f"known digits, n = {len(inside):,}"),
            (outside, VERMILLION, "///", f"the unseen digit {UNSEEN}, n = {len(outside):,}"),
        ):
            weights = np.full(len(values), 100 / len(values))
            ax.hist(values, bins=edges, weights=weights, alpha=0.6, color=colour, hatch=hatch, ec="white", label=name)
        ax.axvline(flag.threshold, color=INK, linewidth=1.2)
        ax.text(flag.threshold, ax.get_ylim()[1] * 0.97, " flagged →", fontsize=8, va="top")
        ax.set(xlabel="score ood", ylabel="share of its group (%)")
        ax.legend(loc="upper left", bbox_to_anchor=(0.1, 1.0))
        save_figure(figure, IMAGES / "guarantee-ood.png")
    return {
        "unseen_class": UNSEEN,
        "false_alarms": round(float((inside > flag.threshold).mean()), 4),
        "unseen_flagged": round(float((outside > flag.threshold).mean()), 4),
        "nodes": [len(inside), len(outside)],
    }


def main() -> None:
    graph = gs.split(gs.load("digits"), "fractions", train=0.03, val=0.05, calibration=0.32, test=0.6)
    prediction = fitted(graph)
    wrong = prediction.index != graph.labels
    pool = np.flatnonzero(~(graph.role("train") | graph.role("val")))
    first = redrawn(graph, np.random.default_rng(7), pool)
    found = {
        "graph": {role: int(mask.sum()) for role, mask in graph.masks.items()},
        "limit": LIMIT,
        "threshold": threshold_picture(first, prediction, wrong),
        "draws": draws_picture(graph, prediction, wrong, pool),
        "sets": sets_picture(graph, prediction, pool),
        "ood": ood_picture(),
    }
    JOURNAL.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
