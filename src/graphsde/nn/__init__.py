"""What networks are made of: layers, likelihoods, the training loop."""
