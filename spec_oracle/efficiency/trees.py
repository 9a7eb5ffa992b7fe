"""Block efficiency of rules for draft trees, whose drafts have a shape and a law of siblings."""

from dataclasses import dataclass, replace
from typing import Any

from spec_oracle.audit.tree.subject import TreeSubject
from spec_oracle.efficiency.design.shapes import FanOuts
from spec_oracle.errors import InvalidInputError
from spec_oracle.exact import EmissionLaw
from spec_oracle.exact.tree_drafting import Shape, ShapedTrees
from spec_oracle.exact.tree_emission import tree_emission_law
from spec_oracle.optimum import tree_optimum
from spec_oracle.threads import raising
from spec_oracle.toy import Instance
from verifiers.trees import Siblings


@dataclass(frozen=True)
class DraftTrees:
    """Draft trees of one shape, whose siblings are drawn by one law.

    Raises `InvalidInputError` for the law of paths with a shape that branches twice.
    """

    shape: FanOuts
    siblings: Siblings = Siblings.INDEPENDENT

    def __post_init__(self) -> None:
        if self.siblings is Siblings.PATHS and self.shape.num_paths is None:
            raise InvalidInputError(f"siblings: paths part once, and {self.shape} branches again")

    def __str__(self) -> str:
        """Return the shape and the law of siblings, for a table."""
        return f"{self.shape}, {self.siblings.value} siblings"

    def require_accepted(self, rule: TreeSubject) -> None:
        """Raise `InvalidInputError` for a rule that does not take such siblings."""
        if self.siblings not in rule.accepts:
            accepted = ", ".join(law.value for law in Siblings if law in rule.accepts)
            raise InvalidInputError(
                f"siblings: {rule.name} does not accept {self.siblings.value} ones; it accepts {accepted}"
            )

    def law(self, rule: TreeSubject, instance: Instance, **how: Any) -> EmissionLaw:
        """Return the law of what ``rule`` emits; ``how`` as of `tree_emission_law`."""
        self.require_accepted(rule)
        with raising():
            return tree_emission_law(rule.rule, *self._on(instance), **how)

    def optimum(self, instance: Instance, *, exact: bool) -> Any:
        """Return the most tokens per call of any lossless rule; None where there are too many draft trees."""
        try:
            return tree_optimum(*self._on(instance), exact=exact).value
        except InvalidInputError:
            return None

    def _on(self, instance: Instance) -> tuple[Instance, ShapedTrees]:
        """Return the instance as deep as the trees, and how they are drafted."""
        levels = self.shape.levels
        if levels > instance.draft_length:
            raise InvalidInputError(
                f"tree: {self.shape} is {levels} tokens deep, the instance has draft_length "
                f"{instance.draft_length}"
            )
        trees = ShapedTrees(Shape.fan_out(*self.shape.fan_outs), self.siblings)
        return replace(instance, draft_length=levels), trees
