"""Third-party engines as a whole, unmodified, behind the engine contract."""
