"""Variants of published rules that look harmless, and the claim that each is still lossless."""

from spec_oracle.claims.families import Family, context_free
from spec_oracle.claims.laws import total_variation
from spec_oracle.claims.question import Figures, Question
from spec_oracle.specimens.multipath import FAULTY
from spec_oracle.toy import Instance

STEPS = context_free(vocab_sizes=(2, 3), paths=(2,), denominators=range(1, 6))
BLOCKS = context_free(lengths=(1, 2), denominators=range(1, 5))


def _is_lossless(specimen: str, statement: str, family: Family) -> Question:
    paper, verifier = FAULTY[specimen]

    def figures(instance: Instance) -> Figures:
        return {"total variation": total_variation(verifier, instance)}

    return Question(
        f"{statement} (specimen `{specimen}`)",
        f"variant of arXiv {paper}",
        figures,
        lambda found: found["total variation"] == 0,
        family,
    )


QUESTIONS = (
    _is_lossless(
        "greedy-multipath-ties-differ",
        "GBV is lossless when ties of p/q are broken one way in the selection and another way in q^Γ",
        STEPS,
    ),
    _is_lossless(
        "greedy-multipath-clipped",
        "GBV is lossless when the selection compares min(1, p/q) and q^Γ is computed from p/q",
        STEPS,
    ),
    _is_lossless("k-seq-rounded-down", "K-SEQ is lossless with ρ rounded down to two decimals", STEPS),
    _is_lossless(
        "block-transport-forgetful",
        "The masses of SpecTr-GBV are lossless without carry-over, each call starting afresh",
        BLOCKS,
    ),
    _is_lossless(
        "block-transport-ratios",
        "The masses of SpecTr-GBV can be served by one acceptance ratio per draft "
        "(reconstructed from the masses), residual p (1 − r)^K",
        STEPS,
    ),
    _is_lossless(
        "block-transport-ratios-wrong-residual",
        "The same with residual p (1 − r^K)",
        STEPS,
    ),
)
