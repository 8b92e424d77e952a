"""What people do with uncertainty: abstain, decide, ask, explain."""
