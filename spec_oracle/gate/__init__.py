"""What a team keeps in its repository: a configuration, and reports to compare."""
