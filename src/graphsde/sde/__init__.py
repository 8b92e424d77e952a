"""Dynamics of hidden states: tensors, operators and time; nothing here uses labels."""
