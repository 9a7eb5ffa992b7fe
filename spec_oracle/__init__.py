"""Exact and statistical answers: is a speculative-decoding verifier lossless, and how near the optimum."""
