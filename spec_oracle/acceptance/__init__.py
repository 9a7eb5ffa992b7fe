"""Compare the accepted tokens that an engine logged with what a rule should accept of the same drafts."""

from spec_oracle.acceptance.figures import Acceptance, Definition, RuleFigures, acceptance
from spec_oracle.acceptance.rules import RULES

__all__ = ["RULES", "Acceptance", "Definition", "RuleFigures", "acceptance"]
