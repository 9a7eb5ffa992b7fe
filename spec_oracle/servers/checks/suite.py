"""The checks of running servers."""

from spec_oracle.servers.checks.batch import batch
from spec_oracle.servers.checks.joint import joint
from spec_oracle.servers.checks.length import length
from spec_oracle.servers.checks.logprobs import logprobs
from spec_oracle.servers.checks.long_texts import long_texts
from spec_oracle.servers.checks.model import model
from spec_oracle.servers.checks.plain_law import plain_law
from spec_oracle.servers.checks.shapes import shapes
from spec_oracle.servers.checks.streams import streams

__all__ = ["batch", "joint", "length", "logprobs", "long_texts", "model", "plain_law", "shapes", "streams"]
