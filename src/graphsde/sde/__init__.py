"""How hidden states move: tensors, operators and time; nothing here knows of labels."""
