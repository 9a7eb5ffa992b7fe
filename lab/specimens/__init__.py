"""Known-faulty verifiers, which the checks must find, and tricky but lossless controls."""
