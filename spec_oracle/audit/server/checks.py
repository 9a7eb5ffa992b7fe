"""The checks of running servers."""

from spec_oracle.audit.server.batch import batch
from spec_oracle.audit.server.joint import joint
from spec_oracle.audit.server.length import length
from spec_oracle.audit.server.logprobs import logprobs
from spec_oracle.audit.server.long_texts import long_texts
from spec_oracle.audit.server.model import model
from spec_oracle.audit.server.plain_law import plain_law
from spec_oracle.audit.server.shapes import shapes
from spec_oracle.audit.server.streams import streams

__all__ = ["batch", "joint", "length", "logprobs", "long_texts", "model", "plain_law", "shapes", "streams"]
