"""Speculative decoding of real language models with any verifier of the registry."""

from spec_oracle.decoding.conditional import accepted_given_drafts
from spec_oracle.decoding.loop import Call, Decoded, decode

__all__ = ["Call", "Decoded", "accepted_given_drafts", "decode"]
