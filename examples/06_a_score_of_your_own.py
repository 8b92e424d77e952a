"""A score of your own in one function: registered, listed, held to the shipped contract, and spread over the graph.

Run: python examples/06_a_score_of_your_own.py
"""

from __future__ import annotations

import numpy as np

import graphsde as gs


@gs.register.score("runners-up", needs=("probs",), paper="an example", year=2026)
def runners_up(prediction: gs.ClassPrediction, *, power: float = 2.0) -> np.ndarray:
    """probability of all classes but the first, raised to a power

    Args:
        power: below 1 it tells clear nodes apart, above 1 doubtful ones.
    """
    return (1.0 - prediction.confidence) ** power


if __name__ == "__main__":
    print(f"{gs.testing.check_score(runners_up)} guarantees kept")
    graph = gs.load("digits")
    model = gs.MCDropout(epochs=30).fit(graph)
    prediction = model.predict(graph, samples=16)
    doubt = gs.score("runners-up+propagated", prediction, graph, power=0.5)
    print(f"the most doubtful image: {prediction.ids[doubt.argmax()]}")
