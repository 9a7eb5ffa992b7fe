"""Claims about verifiers of several paths: greedy multi-path block verification (GBV) and traversal."""

from dataclasses import replace

from lab.claims.families import Family, context_free, prefix_dependent
from lab.claims.laws import law, optimum, specimen, tokens, total_variation
from lab.claims.question import Figures, Question, Scope
from spec_oracle.toy import Instance
from verifiers import Traits
from verifiers.rules.recursive_rejection_distinct import RECURSIVE_REJECTION_DISTINCT

SOURCE = "arXiv 2602.16961"
RULE = f"rule: {SOURCE}"
TRAVERSAL_RULE = "rule: arXiv 2505.12398"
GBV = "greedy_multipath_block"

TIE_BREAKS = ("greedy-multipath", "greedy-multipath-larger-token-first")

TREES = context_free(lengths=(1, 2), paths=(2,), denominators=range(1, 5)) + prefix_dependent(
    [(1, 3, 2), (2, 2, 2), (2, 2, 3), (2, 3, 2)], count=8
)
TIES = context_free(lengths=(1, 2), paths=(2,), denominators=range(1, 4))


TOKEN_LEVEL = replace(RECURSIVE_REJECTION_DISTINCT, traits=Traits(walks=True))
"""Recursive rejection on the distinct tokens of independent drafts: the same trees as traversal."""


def _distinct_ratios(instance: Instance) -> bool:
    """Whether no two tokens have the same p/q at the root (compared without dividing)."""
    pairs = list(zip(instance.target.levels[0][0], instance.draft.levels[0][0], strict=True))
    return all(p * b != a * q for i, (p, q) in enumerate(pairs) for a, b in pairs[:i])


def _without_ties(family: Family) -> Family:
    return family.where("no two tokens of equal p/q", _distinct_ratios)


def _gbv_and_optima(instance: Instance) -> Figures:
    return {
        "block on one path": tokens("block", instance),
        GBV: tokens(GBV, instance),
        "K-path optimum": optimum("K-path optimum", instance),
    }


def _gbv_and_block(instance: Instance) -> Figures:
    return {"block on one path": tokens("block", instance), GBV: tokens(GBV, instance)}


def _not_below_block(figures: Figures) -> bool:
    return figures[GBV] >= figures["block on one path"]


def _tie_breaks(instance: Instance) -> Figures:
    """Block efficiency when the smaller, or the larger, of two tokens of equal p/q ranks higher."""
    return {
        "smaller token first": tokens(GBV, instance),
        "larger token first": law(specimen(TIE_BREAKS[1]), instance).block_efficiency,
    }


QUESTIONS = (
    Question(
        "GBV attains the K-path optimum on some instance, above block verification on one path",
        SOURCE,
        _gbv_and_optima,
        lambda figures: figures["block on one path"] < figures[GBV] == figures["K-path optimum"],
        TREES,
        Scope.SOME,
    ),
    Question(
        "GBV attains the K-path optimum on every instance",
        RULE,
        _gbv_and_optima,
        lambda figures: figures[GBV] == figures["K-path optimum"],
        TREES,
    ),
    Question(
        "GBV over K paths never emits fewer tokens than block verification on one of them",
        RULE,
        _gbv_and_block,
        _not_below_block,
        TREES,
    ),
    Question(
        "The same, where no two tokens have equal ratios p/q",
        RULE,
        _gbv_and_block,
        _not_below_block,
        _without_ties(context_free(paths=(2,), denominators=range(1, 10))),
    ),
    Question(
        "GBV is lossless whichever of two tokens of equal p/q ranks higher, as long as it does so everywhere",
        RULE,
        lambda instance: {name: total_variation(specimen(name), instance) for name in TIE_BREAKS},
        lambda figures: not any(figures.values()),
        TREES,
    ),
    Question(
        "The block efficiency of GBV does not depend on how ties of p/q are broken",
        RULE,
        _tie_breaks,
        lambda figures: figures["smaller token first"] == figures["larger token first"],
        TIES,
    ),
    Question(
        "Traversal verification of K paths never emits fewer tokens than block verification on one of them",
        TRAVERSAL_RULE,
        lambda instance: {
            "block on one path": tokens("block", instance),
            "traversal": tokens("traversal", instance),
        },
        lambda figures: figures["traversal"] >= figures["block on one path"],
        TREES,
    ),
    Question(
        "Traversal verification never emits fewer tokens than recursive rejection on the same draft tree",
        "arXiv 2505.12398",
        lambda instance: {
            "recursive rejection, distinct tokens": law(TOKEN_LEVEL, instance).block_efficiency,
            "traversal": tokens("traversal", instance),
        },
        lambda figures: figures["traversal"] >= figures["recursive rejection, distinct tokens"],
        TREES,
    ),
    Question(
        "Traversal verification attains the K-path optimum on every instance",
        TRAVERSAL_RULE,
        lambda instance: {
            "traversal": tokens("traversal", instance),
            "K-path optimum": optimum("K-path optimum", instance),
        },
        lambda figures: figures["traversal"] == figures["K-path optimum"],
        TREES,
    ),
)
