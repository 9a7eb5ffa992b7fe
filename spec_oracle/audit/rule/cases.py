"""What one call of a rule is run on: toy instances, and how their drafts are drawn."""

import math
from collections.abc import Iterator
from typing import Final

from spec_oracle.audit.context import Context
from spec_oracle.audit.draftings import DEPTH, PATHS, ToyDrafts
from spec_oracle.audit.instances import panel
from spec_oracle.audit.larger_trees import later_sizes
from spec_oracle.audit.rule.subject import RuleSubject
from verifiers import traits_of

SMALL: Final = ((4, 2), (5, 2), (2, 5), (33, 1), (8, 2))
"""Sizes V, L at which all drafts of K paths are tried, those of few drafts first."""


def other_sizes(subject: RuleSubject, context: Context) -> Iterator[ToyDrafts]:
    """Yield those of `shapes`: small sizes of K paths and of trees, then few in float32."""
    largest = traits_of(subject.rule).largest_vocab_size or math.inf
    for vocab, length in SMALL:
        if vocab <= largest:
            toy = panel(vocab, length, subject.num_paths, context.seed)["flat"]
            yield ToyDrafts("flat", "flat", PATHS, toy, subject.paths(toy))
    yield from later_sizes(subject.on_trees, context.seed)
    if "float32" in context.shapes.dtypes:
        yield from in_type(subject, context, "good-draft", "float32")


def in_type(subject: RuleSubject, context: Context, toy: str, dtype: str) -> Iterator[ToyDrafts]:
    """Yield one toy instance with rows of a number type: its K paths, and one kind of trees for every law."""
    instance = panel(3, DEPTH, subject.num_paths, context.seed)[toy]
    for kind, drafting in subject.one_of_each(instance).items():
        yield ToyDrafts(toy, toy, kind, instance, drafting, dtype)
