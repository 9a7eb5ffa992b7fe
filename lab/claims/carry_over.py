"""Claims about block transport with carry-over (SpecTr-GBV)."""

from fractions import Fraction

from lab.claims.families import context_free, prefix_dependent
from lab.claims.laws import law, optimum
from lab.claims.question import Figures, Question
from spec_oracle.toy import Instance

SOURCE = "arXiv 2604.25925"

TREES = context_free(lengths=(1, 2), paths=(2,), denominators=range(1, 4)) + prefix_dependent(
    [(2, 2, 2), (1, 3, 3)], count=4
)
WITH_CARRY_OVER = "K-path optimum with carry-over"


def masses(instance: Instance) -> Fraction:
    """Return sum_v w(v), w(v) = p(v) (1 - (1 - min(1, q(v)/p(v)))^K) over all |v| <= L, in tokens."""
    total = Fraction(0)
    for length in range(instance.draft_length + 1):
        target, draft = instance.target.joint(length), instance.draft.joint(length)
        for p, q in zip(target[target > 0], draft[target > 0], strict=True):
            total += p * (1 - (1 - min(Fraction(1), q / p)) ** instance.num_paths)
    return total


def _transported(instance: Instance) -> Figures:
    found = law("block_transport", instance)
    return {
        "Σ w": masses(instance),
        "block_transport": found.block_efficiency,
        "total variation": found.total_variation,
    }


def _masses_and_optimum(instance: Instance) -> Figures:
    return {"Σ w": masses(instance), WITH_CARRY_OVER: optimum(WITH_CARRY_OVER, instance)}


QUESTIONS = (
    Question(
        "The masses w(v) = p(v) (1 − (1 − min(1, q(v)/p(v)))^K) can be carried by K independent paths, "
        "and with carry-over the text stays the target's",
        SOURCE,
        _transported,
        lambda figures: figures["Σ w"] == figures["block_transport"] and figures["total variation"] == 0,
        TREES,
    ),
    Question(
        "Σ w(v) is the most that K independent paths allow, carry-over included",
        SOURCE,
        _masses_and_optimum,
        lambda figures: figures["Σ w"] == figures[WITH_CARRY_OVER],
        TREES,
    ),
    Question(
        "With one path Σ w(v) is the most that carry-over allows",
        "arXiv 2403.10444, appendix",
        _masses_and_optimum,
        lambda figures: figures["Σ w"] == figures[WITH_CARRY_OVER],
        context_free(lengths=(1, 2), denominators=range(1, 5)) + prefix_dependent([(2, 2, 1)], count=8),
    ),
)
