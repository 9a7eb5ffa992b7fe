"""Toy models and instances: small vocabularies whose laws can be enumerated."""

from spec_oracle.toy.instance import Instance
from spec_oracle.toy.kinds import KINDS
from spec_oracle.toy.model import Context, ToyModel, context_text, parse_context

__all__ = ["KINDS", "Context", "Instance", "ToyModel", "context_text", "parse_context"]
