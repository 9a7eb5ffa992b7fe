"""Toy models and instances: small vocabularies whose laws can be enumerated."""

from spec_oracle.toy.instance import KINDS, Instance
from spec_oracle.toy.model import Context, ToyModel, context_text, parse_context, required_bytes

__all__ = ["KINDS", "Context", "Instance", "ToyModel", "context_text", "parse_context", "required_bytes"]
