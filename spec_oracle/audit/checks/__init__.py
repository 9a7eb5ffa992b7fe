"""The registry of checks: the one list from which command line, reports, kill matrix and error rates come."""

from collections.abc import Iterable
from types import MappingProxyType
from typing import Final

from spec_oracle.audit.checks.bad_input import BAD_INPUT
from spec_oracle.audit.checks.batch import BATCH
from spec_oracle.audit.checks.calls import CALLS
from spec_oracle.audit.checks.check import Check
from spec_oracle.audit.checks.draft_law import DRAFT_LAW
from spec_oracle.audit.checks.inputs_kept import INPUTS_KEPT
from spec_oracle.audit.checks.joint import JOINT
from spec_oracle.audit.checks.length import LENGTH
from spec_oracle.audit.checks.plain_law import PLAIN_LAW
from spec_oracle.audit.checks.scale import SCALE
from spec_oracle.audit.checks.shapes import SHAPES
from spec_oracle.audit.checks.streams import STREAMS
from spec_oracle.errors import InvalidInputError, unknown

CHECKS: Final = MappingProxyType(
    {
        check.name: check
        for check in (
            PLAIN_LAW,
            JOINT,
            SHAPES,
            LENGTH,
            CALLS,
            DRAFT_LAW,
            STREAMS,
            BATCH,
            BAD_INPUT,
            INPUTS_KEPT,
            SCALE,
        )
    }
)
"""Every check by name, in the order in which they are run: those whose findings others use come first."""

__all__ = ["CHECKS", "Check", "require_known"]


def require_known(argument: str, names: Iterable[str]) -> None:
    """Raise `InvalidInputError` for a name that is no check's."""
    for name in names:
        if name not in CHECKS:
            raise InvalidInputError(f"{argument}: {unknown(name, CHECKS, 'check')}")
