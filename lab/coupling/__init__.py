"""Rules for coupled drafts, Gumbel and list coupling: their exact distributions, and drafter invariance."""
