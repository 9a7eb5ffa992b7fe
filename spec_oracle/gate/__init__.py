"""Files that a team keeps in its repository: a configuration, a baseline, and reports to compare."""
