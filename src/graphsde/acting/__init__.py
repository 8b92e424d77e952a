"""Acting on uncertainty: abstain, decide, ask, explain."""
