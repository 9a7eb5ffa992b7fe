"""Draftings of paths and of trees, and which of them each rule accepts."""

from hypothesis import strategies as st

import verifiers
from spec_oracle.exact.drafting import LikeliestNodes, ShapedTrees, StochasticBeam, TreeShape
from tests.strategies import instances
from verifiers import ROOT, Siblings, accepts_of, traits_of

UNEVEN = TreeShape((ROOT, ROOT, 1, 1))
SHAPES = (TreeShape.paths(2, 2), TreeShape.stem(1, 2, 1), UNEVEN, TreeShape((ROOT, ROOT, ROOT, 0)))
ENDING_EARLY = ({"least_token": 0.3}, {"least_top": 0.6})
TREES = (
    *(
        ShapedTrees(shape, law)
        for shape in SHAPES
        for law in Siblings
        if law not in {Siblings.PATHS, Siblings.BEAM}
    ),
    *(ShapedTrees(shape, Siblings.PATHS) for shape in SHAPES[:2]),
    *(
        ShapedTrees(SHAPES[0], law, **end)
        for law in (Siblings.PATHS, Siblings.DISTINCT)
        for end in ENDING_EARLY
    ),
    *(LikeliestNodes(count) for count in (1, 3, 5)),
    *(StochasticBeam(width) for width in (1, 2)),
)
"""Trees of at most two tokens a path."""

TREE_RULES = [name for name in verifiers.names() if not traits_of(verifiers.get(name)).paths_only]
CASES = [(name, "paths") for name in verifiers.names()] + [(name, "trees") for name in TREE_RULES]
"""Every rule, on paths and, where it takes them, on trees."""


def drafted(name, kind, *, max_tuples, vocab_sizes=(2, 3), draft_lengths=(1, 2), **options):
    """Return a strategy for instances, each with a drafting that the rule ``name`` accepts.

    Of ``kind`` "paths" these are 1 to 3 paths, by a law of siblings; of "trees" the `TREES`.
    """
    accepts = accepts_of(verifiers.get(name))
    if kind == "paths":
        laws = [law for law in Siblings if law in accepts - {Siblings.BEAM}]
        sizes = {"vocab_sizes": vocab_sizes, "draft_lengths": draft_lengths, "num_paths": (1, 3)}
    else:
        laws = [trees for trees in TREES if trees.siblings in accepts]
        sizes = {"vocab_sizes": (2, 3), "draft_lengths": (2, 2)}
    return st.tuples(instances(**sizes, max_tuples=max_tuples, **options), st.sampled_from(laws))
