"""Toy models and instances: small vocabularies whose laws can be enumerated."""
