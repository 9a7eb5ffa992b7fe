"""What one shape comes to: the law after every likely draft, added up, against the target."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from spec_oracle.audit.shapes.axes import Shape
from spec_oracle.audit.shapes.rounding import tolerance, unit_roundoff
from spec_oracle.exact.conditional import ConditionalLaw
from spec_oracle.exact.draft_tree import Account, DraftTree
from verifiers import Drafts

Laws: TypeAlias = Callable[[Shape, Sequence[Drafts]], Sequence[ConditionalLaw]]
"""Finds the law of the emission of one request after each of the drafts, at a shape."""

ENGINES = "float32"
"""The type in which engines compute, whatever their rows come in."""


@dataclass(frozen=True)
class Judged:
    """The total variation at a shape, beyond what rounding does to single tokens, and what is left open.

    ``allowed`` is what rounding explains; ``unseen`` the probability of drafts that were not tried;
    ``assumed`` that of tokens that were taken to come out as others do; ``drafts`` were tried; the ``seed``
    is the tree's.
    """

    shape: Shape
    total_variation: float
    allowed: float
    unseen: float
    assumed: float
    drafts: int
    seed: int = 0

    @property
    def is_lossy(self) -> bool:
        """Whether neither rounding nor what was not seen explains the distance."""
        return self.total_variation > self.allowed + self.unseen

    def __str__(self) -> str:
        return f"total variation {self.total_variation:.3g} at {self.shape}"


def judged(shape: Shape, tree: DraftTree, laws: Laws, *, explained: float) -> Judged:
    """Judge a shape; code may compute in `ENGINES`, or in the type of its rows where that is coarser.

    ``explained`` is the total variation that its arithmetic explains anywhere. Errors are those of ``laws``.
    """
    listed = list(tree.likely)
    account = Account(tree)
    found = laws(shape, [tree.drafts(paths) for paths in listed])
    for paths, law in zip(listed, found, strict=True):
        account.add(tree.likely[paths], law)
    coarsest = max(shape.dtype, ENGINES, key=unit_roundoff)
    return Judged(
        shape,
        account.total_variation(2 * unit_roundoff(coarsest)),
        max(explained, tolerance(coarsest, tree.draft_length, tree.vocab_size)),
        tree.unseen,
        account.assumed,
        len(listed),
    )
