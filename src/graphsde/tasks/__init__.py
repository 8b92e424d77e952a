"""Questions people ask of a prediction."""
