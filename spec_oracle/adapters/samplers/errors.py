"""What can go wrong with an engine before it is audited."""

from spec_oracle.errors import SpecOracleError


class EngineError(SpecOracleError):
    """A third-party engine cannot be used; the message is the reason, in one line."""
