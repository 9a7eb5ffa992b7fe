"""Variants of published rules that look harmless, and the claim that each is still lossless."""

from lab.claims.families import Family, context_free
from lab.claims.laws import specimen, total_variation
from lab.claims.question import Figures, Question
from spec_oracle.toy import Instance

STEPS = context_free(vocab_sizes=(2, 3), paths=(2,), denominators=range(1, 6))
BLOCKS = context_free(lengths=(1, 2), denominators=range(1, 5))


def _is_lossless(name: str, paper: str, statement: str, family: Family) -> Question:
    def figures(instance: Instance) -> Figures:
        return {"total variation": total_variation(specimen(name), instance)}

    return Question(
        f"{statement} (specimen `{name}`)",
        f"variant of arXiv {paper}",
        figures,
        lambda found: found["total variation"] == 0,
        family,
    )


QUESTIONS = (
    _is_lossless(
        "greedy-multipath-ties-differ",
        "2602.16961",
        "GBV is lossless when ties of p/q are broken one way in the selection and another way in q^Γ",
        STEPS,
    ),
    _is_lossless(
        "greedy-multipath-clipped",
        "2602.16961",
        "GBV is lossless when the selection compares min(1, p/q) and q^Γ is computed from p/q",
        STEPS,
    ),
    _is_lossless(
        "k-seq-rounded-down", "2310.15141", "K-SEQ is lossless with ρ rounded down to two decimals", STEPS
    ),
    _is_lossless(
        "block-transport-forgetful",
        "2604.25925",
        "The masses of SpecTr-GBV are lossless without carry-over, each call starting afresh",
        BLOCKS,
    ),
    _is_lossless(
        "block-transport-ratios",
        "2604.25925",
        "The masses of SpecTr-GBV can be served by one acceptance ratio per draft "
        "(reconstructed from the masses), residual p (1 − r)^K",
        STEPS,
    ),
    _is_lossless(
        "block-transport-ratios-wrong-residual", "2604.25925", "The same with residual p (1 − r^K)", STEPS
    ),
)
