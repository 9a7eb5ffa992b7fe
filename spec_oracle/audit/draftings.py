"""The draft trees of an audit: every law of siblings that a rule accepts, on shapes that differ in kind."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache
from typing import Final, NamedTuple

import numpy as np

from spec_oracle.audit.context import Context
from spec_oracle.audit.instances import panel
from spec_oracle.errors import InvalidInputError
from spec_oracle.exact.call import draft_table
from spec_oracle.exact.drafting import Drafting, LikeliestNodes, ShapedTrees, StochasticBeam, TreeShape
from spec_oracle.toy import Instance
from verifiers import ROOT, Drafts, Siblings

FIGURES_OF_TREES: Final = "tokens per call and optimum are those of one kind of draft trees: {}"
FIGURES_OF_FIRST_CALL: Final = (
    "tokens per call and optimum are those of the first call of a completion: later calls may emit fewer"
)
"""Of a rule that keeps a state."""


_FEW: Final = ("flat", "reversed", "zeros")
"""Instances on which trees are tried where a run takes long; on the last one tokens have no probability."""

DEPTH: Final = 2
"""Depth of the audit's own trees; users' instances have deeper ones."""

PATHS: Final = "K paths"
"""The kind of drafts that every rule is run on."""

_SHAPES: Final[Mapping[str, tuple[int, ...]]] = {
    "two children, one of which goes on": (ROOT, ROOT, 1, 1),
    "one child, then two": (ROOT, 0, 0),
    "two children a node": (ROOT, ROOT, 0, 0, 1, 1),
}
_BRANCHING_ONCE: Final[Mapping[str, tuple[int, ...]]] = {
    "two paths": (ROOT, ROOT, 0, 1),
    "one child, then two": (ROOT, 0, 0),
}
"""Parents of slots that are two tokens deep."""


class ToyDrafts(NamedTuple):
    """A ``toy`` instance, and how its drafts are drawn; ``dtype`` is the number type of the rows."""

    name: str
    toy: str
    kind: str
    instance: Instance
    drafting: Drafting
    dtype: str = "float64"

    @property
    def of_trees(self) -> Drafting | None:
        """How draft trees are drawn, None for K paths."""
        return None if self.kind == PATHS else self.drafting

    @property
    def num_trees(self) -> int:
        """How many draft trees are possible."""
        return len(draft_table(self.instance.floats, self.drafting).law.tokens)

    def __str__(self) -> str:
        """Return what a person reads, of checks that try several sizes and types."""
        size = f"V = {self.instance.vocab_size}, L = {self.instance.draft_length}"
        return f"{size}, {self.dtype}, {self.kind}"


@cache
def draftings(accepts: frozenset[Siblings], length: int) -> Mapping[str, Drafting]:
    """Return how trees of up to ``length`` tokens are drafted, by name: one of each law, then the others."""
    laws = [[*_draftings_of(law, length)] for law in Siblings if law in accepts]
    firsts, others = [one[:1] for one in laws], [one[1:] for one in laws]
    return {
        f"{label(drafting.siblings)}, {name}": drafting
        for some in (*firsts, *others)
        for name, drafting in some
    }


def drafting_called(kind: str, accepts: frozenset[Siblings], instance: Instance) -> Drafting:
    """Return how an instance is drafted of a kind of `draftings`.

    Raises `InvalidInputError` where the instance is too short for it.
    """
    found = draftings(accepts, instance.draft_length)
    if kind not in found:
        raise InvalidInputError(f"instance: draft_length {instance.draft_length} is too short for {kind}")
    return found[kind]


@cache
def one_of_each(accepts: frozenset[Siblings], length: int) -> Mapping[str, Drafting]:
    """Return one drafting, by name, for every law that is accepted: the first of `draftings`."""
    return dict([*draftings(accepts, length).items()][: len(accepts)])


def label(law: Siblings) -> str:
    """Return what a person reads for a law of siblings."""
    return "paths" if law is Siblings.PATHS else f"{law.value} siblings"


def _draftings_of(law: Siblings, length: int) -> Iterator[tuple[str, Drafting]]:
    if law is Siblings.BEAM:
        yield "a stochastic beam of 2", StochasticBeam(2)
        return
    for name, parents in (_BRANCHING_ONCE if law is Siblings.PATHS else _SHAPES).items():
        if length > 1:
            yield name, ShapedTrees(_deepened(parents, length), law)
    if length == 1:
        yield "two children", ShapedTrees(TreeShape.fan_out(2), law)
    if law is Siblings.TOP:
        yield "the 4 likeliest contexts", LikeliestNodes(4)


def _deepened(parents: tuple[int, ...], length: int) -> TreeShape:
    """Return a shape two tokens deep, with a chain below its last slot down to ``length`` tokens."""
    slots = len(parents)
    return TreeShape((*parents, *(slots + depth - 1 for depth in range(length - DEPTH))))


def cases_on_trees(accepts: frozenset[Siblings], instances: Mapping[str, Instance]) -> Iterator[ToyDrafts]:
    """Yield every instance with every kind of trees, kind after kind."""
    of_trees = {toy: draftings(accepts, one.draft_length) for toy, one in instances.items()}
    for kind in dict.fromkeys(kind for kinds in of_trees.values() for kind in kinds):
        for toy, kinds in of_trees.items():
            if kind in kinds:
                yield ToyDrafts(f"{toy}, {kind}", toy, kind, instances[toy], kinds[kind])


def small_trees(accepts: frozenset[Siblings], context: Context) -> list[ToyDrafts]:
    """Return every kind of trees on a few instances, or on the user's, those with the fewest trees first."""
    inputs, depth = context.inputs, min(context.inputs.draft_length, DEPTH)
    toys = inputs.instances or panel(inputs.vocab_size, depth, 1, context.seed)
    chosen = toys if inputs.instances else {name: toys[name] for name in _FEW}
    return sorted(cases_on_trees(accepts, chosen), key=lambda case: case.num_trees)


def sampled_trees(instance: Instance, drafting: Drafting, batch: int, rng: np.random.Generator) -> Drafts:
    """Sample the drafts of so many requests: numpy, float64, in arrays as a caller would make them.

    Rows of paths, or of a tree, lie in one array a model.
    """
    table = draft_table(instance, drafting)
    drafts = table.drafts(table.sampled(batch, rng))
    if drafts.num_paths is not None:
        paths = Drafts.of_paths(*drafts.paths.arrays)
        return replace(paths, parents=np.array(paths.parents))
    rows = drafts.draft.dense(), drafts.target.dense()
    return Drafts.of_tree(drafts.tokens, drafts.parents, *rows, drafts.max_depth, drafts.max_children)
