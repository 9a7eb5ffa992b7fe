"""Known-faulty verifiers, and tricky but lossless controls."""
