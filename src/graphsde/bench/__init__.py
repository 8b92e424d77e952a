"""Many runs: tasks, the paper, its theory, journals, engines, search, comparison."""
