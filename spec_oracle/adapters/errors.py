"""What can go wrong with a third-party subject before it is audited."""

from spec_oracle.errors import SpecOracleError


class EngineError(SpecOracleError):
    """A third-party sampler or engine cannot be used; the message is the reason, in one line."""
