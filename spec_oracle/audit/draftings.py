"""The draft trees of an audit: every law of siblings that a rule accepts, on shapes that differ in kind."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from functools import cache
from typing import Final, NamedTuple

import numpy as np

from spec_oracle.exact.arithmetic import NUMPY
from spec_oracle.exact.call import DraftTable
from spec_oracle.exact.drafting import Drafting, LikeliestNodes, ShapedTrees, StochasticBeam, TreeShape
from spec_oracle.toy import Instance
from verifiers import ROOT, Drafts, Siblings

DEPTH: Final = 2
"""Of the audit's own trees; users' instances have deeper ones."""

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


def later_sizes(accepts: Collection[Siblings]) -> Iterator[tuple[str, int, int, Drafting]]:
    """Yield what `shapes` tries: a kind of trees, V, L, and the drafting."""
    for law in Siblings:
        if law not in accepts:
            continue
        sizes = _BEAMS if law is Siblings.BEAM else _sizes_of(law)
        yield from (
            (f"{label(law)}, {name}", vocab, length, drafting) for name, vocab, length, drafting in sizes
        )


_BEAMS: Final = (
    ("a stochastic beam of 3", 4, 2, StochasticBeam(3)),
    ("a stochastic beam of 2", 2, 3, StochasticBeam(2)),
)


def _sizes_of(law: Siblings) -> Iterator[tuple[str, int, int, Drafting]]:
    two = (2, 1) if law is Siblings.PATHS else (2, 2)
    yield "three children", 3, 1, ShapedTrees(TreeShape.fan_out(3), law)
    yield "two children", 4, 2, ShapedTrees(TreeShape.fan_out(2, 1), law)
    yield "three tokens deep", 2, 3, ShapedTrees(TreeShape.fan_out(2, 1, 1), law)
    for early in ({"least_token": 0.3}, {"least_top": 0.6}):
        ends = ShapedTrees(TreeShape.fan_out(*two), law, **early)
        yield f"paths that end early ({next(iter(early))})", 3, 2, ends
    if law is not Siblings.PATHS:
        ragged = ShapedTrees(TreeShape((ROOT, ROOT, ROOT, 0)), law)
        yield "three children, one of which goes on", 3, 2, ragged
    if law is Siblings.TOP:
        yield from ((f"the {count} likeliest contexts", 3, 2, LikeliestNodes(count)) for count in (1, 6))


class SampledDrafts:
    """Drafts of one drafting on one instance, sampled by number; numpy, float64."""

    def __init__(self, instance: Instance, drafting: Drafting) -> None:
        self._table = DraftTable(instance.floats, drafting, NUMPY)
        self._probability = self._table.law.probability / self._table.law.probability.sum()

    def sample(self, batch: int, rng: np.random.Generator) -> Drafts:
        """Return the drafts of so many requests, in arrays of their own."""
        drafts = self._table.drafts(rng.choice(len(self._probability), size=batch, p=self._probability))
        return in_own_arrays(drafts)


def in_own_arrays(drafts: Drafts) -> Drafts:
    """Return the drafts as a caller would make them: rows of paths, or of a tree, in one array a model."""
    if drafts.num_paths is not None:
        paths = drafts.paths
        drafts = Drafts.of_paths(*paths.arrays)
        return replace(drafts, parents=np.array(drafts.parents))
    rows = drafts.draft.dense(), drafts.target.dense()
    return Drafts.of_tree(drafts.tokens, drafts.parents, *rows, drafts.max_depth, drafts.max_children)
