"""Block efficiency of rules on draft trees, which have a shape and a law of siblings."""

import re
from dataclasses import dataclass, replace
from itertools import accumulate
from operator import mul
from typing import Any

from spec_oracle.arrays import Number
from spec_oracle.errors import InvalidInputError
from spec_oracle.exact import EmissionLaw, emission_law
from spec_oracle.exact.drafting import ShapedTrees, TreeShape
from spec_oracle.optimum import tree_optimum
from spec_oracle.threads import raising
from spec_oracle.toy import Instance
from verifiers import AnyVerifier, Siblings, accepts_of, traits_of


@dataclass(frozen=True)
class FanOuts:
    """A tree in which every node of depth d - 1 is followed by ``fan_outs[d - 1]`` drafts, d = 1..L.

    Of equal siblings the first has the children of all of them, so K independent paths of L tokens are the
    shape (K, 1, .., 1), and branches that start after d tokens have d leading ones (arXiv 2602.16994).
    """

    fan_outs: tuple[int, ...]

    @classmethod
    def named(cls, name: str) -> "FanOuts":
        """Return the shape of a name as `str` gives it; raises `InvalidInputError` for another text.

        >>> FanOuts.named("delay 1, K = 3, L = 2").fan_outs, FanOuts.named("fan-outs 2, 2").fan_outs
        ((1, 3, 1), (2, 2))
        """
        paths = re.fullmatch(r"(?:delay (\d+), )?K = (\d+), L = (\d+)", name)
        fan_outs = re.fullmatch(r"fan-outs (\d+(?:, \d+)*)", name)
        sizes = [int(one) for one in re.findall(r"\d+", name)]
        if min(sizes, default=0) < 1 or not (paths or fan_outs):
            raise InvalidInputError(
                f"tree: expected a shape such as 'K = 4, L = 2', 'delay 1, K = 3, L = 1' or 'fan-outs 2, 2', "
                f"got {name!r}"
            )
        if fan_outs:
            return cls(tuple(sizes))
        *delay, count, length = sizes
        return cls((*[1] * sum(delay), count, *[1] * (length - 1)))

    @property
    def tokens(self) -> int:
        """Drafted tokens."""
        return sum(accumulate(self.fan_outs, mul))

    @property
    def levels(self) -> int:
        """Tokens of the longest path, which is the number of calls of the draft."""
        return len(self.fan_outs)

    @property
    def delay(self) -> int:
        """Tokens before the tree branches; all of them for a single path."""
        return next((depth for depth, fan_out in enumerate(self.fan_outs) if fan_out > 1), self.levels)

    @property
    def num_paths(self) -> int | None:
        """K, where the tree branches once, 1 for a single path; None where it branches again."""
        branched = [fan_out for fan_out in self.fan_outs if fan_out > 1]
        return None if len(branched) > 1 else (*branched, 1)[0]

    def __str__(self) -> str:
        """Return the shape in the field's words, for a table."""
        if self.num_paths is None:
            return f"fan-outs {', '.join(map(str, self.fan_outs))}"
        stem = f"delay {self.delay}, " if 0 < self.delay < self.levels else ""
        return f"{stem}K = {self.num_paths}, L = {self.levels - self.delay * bool(stem)}"


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

    def is_accepted(self, rule: AnyVerifier) -> bool:
        """Whether a rule takes such trees."""
        return self.siblings in accepts_of(rule) and not traits_of(rule).paths_only

    def require_accepted(self, name: str, rule: AnyVerifier) -> None:
        """Raise `InvalidInputError` for a rule that does not take such trees."""
        if traits_of(rule).paths_only:
            raise InvalidInputError(f"tree: {name} takes K paths of one length, and no other trees")
        if not self.is_accepted(rule):
            accepted = ", ".join(law.value for law in Siblings if law in accepts_of(rule))
            raise InvalidInputError(
                f"siblings: {name} does not accept {self.siblings.value} ones; it accepts {accepted}"
            )

    def cut(self, levels: int) -> "DraftTrees":
        """Return the same trees with their first levels only."""
        return replace(self, shape=FanOuts(self.shape.fan_outs[:levels]))

    def law(self, name: str, rule: AnyVerifier, instance: Instance, **how: Any) -> EmissionLaw:
        """Return the law of what a rule emits; ``how`` as of `emission_law`."""
        self.require_accepted(name, rule)
        small, trees = self._on(instance)
        with raising():
            return emission_law(rule, small, drafting=trees, **how)

    def optimum(self, instance: Instance, *, exact: bool) -> Number:
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
        trees = ShapedTrees(TreeShape.fan_out(*self.shape.fan_outs), self.siblings)
        return replace(instance, draft_length=levels), trees
