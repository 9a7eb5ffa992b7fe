"""Whether the output distribution at one shape is the target's: that after every likely draft, added up."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, TypeAlias

from spec_oracle.audit.results import CheckResult, How, failed, passed
from spec_oracle.audit.shapes.axes import Shape
from spec_oracle.audit.shapes.rounding import tolerance, unit_roundoff
from spec_oracle.audit.shapes.trees import tree_of, wanted_of
from spec_oracle.audit.subject import CalledAsSampler
from spec_oracle.exact.conditional import ConditionalLaw
from spec_oracle.exact.draft_tree import Account, DraftTree
from verifiers import Paths

Laws: TypeAlias = Callable[[Shape, Sequence[Paths], float], Sequence[ConditionalLaw]]
"""Finds the laws of the emission of one request, each after one of the drafts, up to a processor time."""

ENGINES: Final = "float32"
"""The type in which engines compute, whatever their rows come in."""

_CERTAIN: Final = 1 - 1e-9


@dataclass(frozen=True)
class JudgedShape:
    """The total variation at a shape, beyond what rounding does to single tokens, and what is left open.

    ``allowed`` is what rounding explains; ``unseen`` the probability of drafts that were not tried;
    ``assumed`` that of tokens that others represent; ``drafts`` were tried; the ``seed`` is the tree's;
    ``gap`` names the token that is farthest off, where the shape is lossy, and ``account`` has all of what
    was found; ``is_decided``: whether a random decision was seen.
    """

    shape: Shape
    total_variation: float
    allowed: float
    unseen: float
    assumed: float
    drafts: int
    seed: int = 0
    gap: str = ""
    account: Account | None = field(default=None, compare=False, repr=False)
    is_decided: bool = True

    @property
    def is_lossy(self) -> bool:
        """Whether neither rounding nor what was not seen explains the distance."""
        return self.total_variation > self.allowed + self.unseen

    def __str__(self) -> str:
        return f"total variation {self.total_variation:.3g} at {self.shape}{self.gap}"


Confirm: TypeAlias = Callable[[JudgedShape, DraftTree], None]
"""Raises `NoEvidenceError` where a shape that was judged lossy may be right."""


def judge(
    shape: Shape, tree: DraftTree, laws: Laws, *, explained: float, end: float = math.inf
) -> JudgedShape:
    """Judge a shape; code may compute in `ENGINES`, or in the type of its rows where that is coarser.

    ``explained`` is the total variation that its arithmetic explains anywhere. Errors are those of ``laws``.
    """
    listed = list(tree.likely)
    account = Account(wanted_of(shape, tree))
    found = laws(shape, [tree.drafts(paths) for paths in listed], end)
    for paths, law in zip(listed, found, strict=True):
        account.add(paths, law)
    coarsest = max(shape.dtype, ENGINES, key=unit_roundoff)
    judged = JudgedShape(
        shape,
        account.total_variation(2 * unit_roundoff(coarsest)),
        max(explained, tolerance(coarsest, tree.draft_length, tree.vocab_size)),
        tree.unseen,
        account.assumed,
        len(listed),
    )
    if not judged.is_lossy:
        return judged
    is_decided = any(max(masses.max() for masses in law.leaves.values()) < _CERTAIN for law in found)
    return replace(judged, gap=_gap(account), account=account, is_decided=is_decided)


def _gap(account: Account) -> str:
    beginning, token, expected, found = account.largest_gap()
    after = f"after tokens {','.join(map(str, beginning))}" if beginning else "at position 0"
    return f": {after}, token {token} is emitted with probability {found:.4g}, {expected:.4g} expected"


def one_shape(
    subject: CalledAsSampler, laws: Laws, shape: Shape, seed: int, confirm: Confirm = lambda *_: None
) -> CheckResult:
    """Judge one shape, with its tree of that seed."""
    tree = tree_of(shape, seed, subject.drafting)
    found = judge(shape, tree, laws, explained=subject.facts.explained(shape.draft_length + 1))
    if found.is_lossy:
        confirm(found, tree)
        return failed(str(found), total_variation=found.total_variation, how=How.PROVEN)
    return passed(f"total variation {found.total_variation:.3g} at {shape}", how=How.PROVEN)
