"""The checks of running servers."""

from spec_oracle.audit.server.batch import batch
from spec_oracle.audit.server.calls import calls
from spec_oracle.audit.server.joint import joint
from spec_oracle.audit.server.length import length
from spec_oracle.audit.server.plain_law import plain_law
from spec_oracle.audit.server.streams import streams

__all__ = ["batch", "calls", "joint", "length", "plain_law", "streams"]
