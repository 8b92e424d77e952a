"""Files and objects in and out: tables, npz, GraphML, networkx, PyTorch Geometric."""
