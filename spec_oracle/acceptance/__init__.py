"""Accepted counts of an engine beside what each rule should accept of the very same drafts."""

from spec_oracle.acceptance.figures import Acceptance, Definition, RuleFigures, acceptance
from spec_oracle.acceptance.rules import RULES

__all__ = ["RULES", "Acceptance", "Definition", "RuleFigures", "acceptance"]
