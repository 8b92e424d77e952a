"""What everything stands on: errors, registries, keyed random streams, safe storage."""
