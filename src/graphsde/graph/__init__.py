"""The graph: nodes with features, edges and targets; cleaning and checks."""
