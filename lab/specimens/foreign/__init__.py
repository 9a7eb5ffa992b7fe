"""Verifiers in the manner of other people: plain contract, own randomness, no `DecisionSource`."""
