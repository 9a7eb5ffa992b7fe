"""Claims of ours about the optima over several paths (docs/theory.md, "Budgets and the optimum")."""

from fractions import Fraction
from math import ceil, floor

from lab.claims.families import context_free, prefix_dependent, rearranged
from lab.claims.laws import OPTIMA, optimum, over_draft_trees
from lab.claims.local_optimum import local_optimum
from lab.claims.question import Figures, Question
from spec_oracle.toy import Instance

TREES = context_free(lengths=(1, 2), paths=(2, 3), denominators=range(1, 4)) + prefix_dependent(
    [(1, 4, 3), (2, 2, 2), (2, 2, 3), (2, 3, 2), (3, 2, 2)], count=8
)
DIGITS = 10**9


def _two_programs(name: str) -> Question:
    def figures(instance: Instance) -> Figures:
        by_trees = over_draft_trees(instance, carry_over="carry-over" in name)
        return {"over laws of one selected path": optimum(name, instance), "over all draft trees": by_trees}

    return Question(
        f"The {name} is a maximum over the laws of one selected path, whatever K is",
        "ours",
        figures,
        lambda found: len(set(found.values())) == 1,
        TREES,
    )


def _local_rules(instance: Instance) -> Figures:
    """Rounded to nine digits in favour of the local rules: the mean optimum down, their bound up."""
    family = rearranged(instance, instance.vocab_size)
    best = sum(optimum("K-path optimum", member) for member in family) / len(family)
    local = local_optimum(family)
    bound = Fraction(local.value) + local.gap
    return {
        "mean K-path optimum": Fraction(floor(best * DIGITS), DIGITS),
        "bound for local rules": Fraction(ceil(bound * DIGITS), DIGITS),
    }


def _locality(vocab_size: int, cost: str, share: Fraction) -> Question:
    return Question(
        f"Rules that see only the rows along their drafts need lose {cost} of the mean K-path optimum where "
        f"any second row may follow any first token: no bound on them is lower (V = {vocab_size})",
        "ours",
        _local_rules,
        lambda found: found["bound for local rules"] >= found["mean K-path optimum"] * (1 - share),
        prefix_dependent([(2, vocab_size, 2)], count=8),
    )


QUESTIONS = (
    *map(_two_programs, list(OPTIMA)[1:]),
    _locality(2, "nothing", Fraction(0)),
    _locality(3, "at most 0.041 %", Fraction(41, 100_000)),
)
