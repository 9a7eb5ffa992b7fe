"""The checks of whole engines."""

from spec_oracle.audit.engine.batch import batch
from spec_oracle.audit.engine.calls import calls
from spec_oracle.audit.engine.draft_law import draft_law
from spec_oracle.audit.engine.joint import joint
from spec_oracle.audit.engine.length import length
from spec_oracle.audit.engine.logprobs import logprobs
from spec_oracle.audit.engine.long_texts import long_texts
from spec_oracle.audit.engine.streams import streams

__all__ = ["batch", "calls", "draft_law", "joint", "length", "logprobs", "long_texts", "streams"]
