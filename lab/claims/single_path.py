"""Claims about one draft path."""

from fractions import Fraction

from lab.claims.families import Family, context_free, prefix_dependent
from lab.claims.laws import distance, optimum, tokens
from lab.claims.question import Figures, Question, Scope
from spec_oracle.toy import Instance

CHAINS = context_free(lengths=(1, 2), vocab_sizes=(2, 3), denominators=(1, 2, 3)) + prefix_dependent(
    [(2, 2, 1), (3, 2, 1), (2, 3, 1)], count=8
)
EXAMPLE = Family(
    "the two-token example of arXiv 2403.10444",
    lambda: iter([Instance.context_free(["1/3", "2/3"], ["2/3", "1/3"], draft_length=2)]),
)
SHORT_CHAINS = context_free(lengths=(1, 2), denominators=range(1, 7))


def _token_and_block(instance: Instance) -> Figures:
    return {"token": tokens("token", instance), "block": tokens("block", instance)}


def _accepted(instance: Instance) -> Figures:
    """Expected accepted length E[tau], in tokens."""
    return {name: tokens(name, instance) - 1 for name in ("token", "block", "greedy_block")}


def _block_and_optimum(instance: Instance) -> Figures:
    return {
        "block": tokens("block", instance),
        "single-path optimum": optimum("single-path optimum", instance),
    }


def _equals_block(name: str) -> Question:
    return Question(
        f"With one path `{name}` is block verification: the emission laws are equal",
        {"traversal": "arXiv 2505.12398", "greedy_multipath_block": "arXiv 2602.16961"}[name],
        lambda instance: {"distance of the laws": distance(name, "block", instance)},
        lambda figures: figures["distance of the laws"] == 0,
        CHAINS,
    )


QUESTIONS = (
    Question(
        "In the example of the paper token verification accepts 10/9 tokens, block verification 11/9, "
        "and 12/9 is ideal (attained with carry-over)",
        "arXiv 2403.10444",
        _accepted,
        lambda figures: list(figures.values()) == [Fraction(10, 9), Fraction(11, 9), Fraction(12, 9)],
        EXAMPLE,
        Scope.SOME,
    ),
    Question(
        "Block verification attains the single-path optimum",
        "arXiv 2403.10444, theorem 2; 2602.16961",
        _block_and_optimum,
        lambda figures: figures["block"] == figures["single-path optimum"],
        CHAINS,
    ),
    Question(
        "Block verification never emits fewer tokens than token verification",
        "arXiv 2403.10444",
        _token_and_block,
        lambda figures: figures["block"] >= figures["token"],
        CHAINS,
    ),
    Question(
        "Block and token verification coincide for drafts of at most two tokens",
        "vLLM pull request 40819",
        _token_and_block,
        lambda figures: figures["block"] == figures["token"],
        SHORT_CHAINS,
    ),
    _equals_block("traversal"),
    _equals_block("greedy_multipath_block"),
)
