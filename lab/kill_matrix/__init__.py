"""Which check detects which specimen: the proof that the suite can fail."""
