"""What draws the page; only files in this folder know the framework."""
