"""Verifiers in the manner of other people: sampler contract, own randomness, no `DecisionSource`."""
