"""The errors of both packages: one base, so that a caller can catch everything this project raises."""


class SpecOracleError(Exception):
    """Base of every error that spec-oracle raises on purpose."""


class InvalidInputError(SpecOracleError, ValueError):
    """An argument is malformed; the message names the argument, the offending index and the value."""
