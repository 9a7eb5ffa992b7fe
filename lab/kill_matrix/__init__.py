"""Which check kills which specimen: the proof that the suite can fail."""
