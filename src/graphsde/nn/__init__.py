"""Building blocks of networks: layers, likelihoods, the training loop."""
