"""The project's errors; the base lives with `verifiers`, which imports nothing from here.

Every module imports this one first of all, so a foreign `verifiers` is noticed here.
"""

from spec_oracle.installed import require_own_verifiers

require_own_verifiers()

from verifiers.errors import (  # noqa: E402  # only now known as ours
    ContractError,
    InvalidInputError,
    SpecOracleError,
    decided_for,
    unknown,
)

__all__ = [
    "INTERRUPTED",
    "ContractError",
    "EngineError",
    "ImpossibleOutputError",
    "InvalidInputError",
    "SpecOracleError",
    "SubjectRaisedError",
    "decided_for",
    "not_installed",
    "unknown",
]

INTERRUPTED = "interrupted"
"""All that is said of what Ctrl-C ended."""

CPU_INDEX = "https://download.pytorch.org/whl/cpu"
"""Where torch for CPUs is: pip would take several gigabytes of CUDA from PyPI."""


def not_installed(package: str, extra: str) -> str:
    """Return that a package is missing, and the command that installs it with its extra of ours.

    >>> not_installed("httpx", "server")
    "httpx is not installed; pip install 'spec-oracle[server]'"
    """
    index = f" --extra-index-url {CPU_INDEX}" if package == "torch" else ""
    return f"{package} is not installed; pip install 'spec-oracle[{extra}]'{index}"


class ImpossibleOutputError(ContractError):
    """The result of code under test has the right form, but no target can emit it.

    ``share`` of the requests of the call are concerned. In every call, that is a mistake of the wrapper, as
    ids that begin at 1; only after some drafts or at some sizes, it is an output to which the target gives
    probability 0, so that the output distribution is wrong.
    """

    def __init__(self, message: str, share: float = 1.0) -> None:
        self.share = share
        super().__init__(message)


class SubjectRaisedError(SpecOracleError):
    """The code under test raised an exception on valid input."""


class EngineError(SpecOracleError):
    """A third-party sampler or engine cannot be used; the message is the reason, in one line.

    ``do`` is the command that makes it available, "" where none is known.
    """

    def __init__(self, message: str, do: str = "") -> None:
        super().__init__(message)
        self.do = do
