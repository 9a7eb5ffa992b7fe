"""What is asked of engines: texts after prompts, beside those of plain decoding, up to rounding.

*Rounding.* Engines compute in float32, so that the law of each token may be off by `FLOAT32_ROUNDING` given
all that came before it. Texts are then off by at most that for each of their tokens: for laws P and Q of
texts x_1..x_n, TV(P, Q) <= sum over t of E_P TV(P(x_t | x_<t), Q(x_t | x_<t)), since exchanging the rows of
one position after the other moves the law by the mean distance of the rows of that position.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from spec_oracle.audit.engine.laws import EnumeratedTexts, distance
from spec_oracle.audit.facts import ROUNDING
from spec_oracle.audit.results import CheckResult, FoundText, Status
from spec_oracle.contracts.engine import EngineCode, Text
from spec_oracle.exact import Gap

FIRST_TOKENS = 2
"""Tokens of the texts that `joint` judges."""

LEAST_TOKENS = 3
"""Tokens of the texts that `calls` judges at least, unless told otherwise."""


@dataclass(frozen=True)
class Case:
    """One engine after one prompt; ``name`` is the engine's within its subject, "" if it is the only one."""

    name: str
    code: EngineCode
    prompt: Text

    def __str__(self) -> str:
        return f"{self.name and f'engine {self.name!r}, '}prompt {','.join(map(str, self.prompt))}"


@dataclass(frozen=True)
class Compared:
    """The law of texts of at most ``tokens`` tokens, beside that of plain decoding.

    ``rows`` is the law that the engine's rows tell, ``plain`` that of what it generates without speculation,
    where it can: that is plain decoding then, and rows that differ from it are a mistake of the adapter. Of a
    pair the law is that of two texts, the second generated after the first.
    """

    case: Case
    tokens: int
    texts: EnumeratedTexts
    rows: Mapping[Any, float]
    plain: Mapping[Any, float] | None = None
    is_pair: bool = False

    @property
    def expected(self) -> Mapping[Any, float]:
        """The law of plain decoding."""
        return self.rows if self.plain is None else self.plain

    @cached_property
    def total_variation(self) -> float:
        """Distance from plain decoding."""
        return distance(self.texts.law, self.expected)

    @cached_property
    def rows_off(self) -> float:
        """Distance of the rows from plain decoding."""
        return distance(self.rows, self.expected)

    def is_off(self, tolerance: float) -> bool:
        """Whether rounding by ``tolerance`` a token does not explain a distance."""
        return max(self.total_variation, self.rows_off) > self.tokens * tolerance

    @property
    def gap(self) -> Gap:
        """The text with the largest gap."""
        law, expected = self.texts.law, self.expected
        gaps = {text: abs(law.get(text, 0.0) - expected.get(text, 0.0)) for text in {*law, *expected}}
        text = min(gaps, key=lambda text: (-round(gaps[text], 9), text))
        return Gap(text, expected.get(text, 0.0), law.get(text, 0.0))

    @property
    def found(self) -> FoundText:
        """What a counterexample is made of."""
        return FoundText(self.case.name, self.case.prompt, self.tokens, self.gap, self.total_variation)


def judged(found: Sequence[Compared], tolerance: float) -> CheckResult:
    """Say whether all laws are those of plain decoding, up to rounding by ``tolerance`` a token."""
    worst = largest(found)
    if worst.total_variation > worst.tokens * tolerance:
        return CheckResult("", Status.FAILED, _failure(worst), total_variation=worst.total_variation)
    wrong = max(found, key=lambda compared: compared.rows_off / compared.tokens)
    if wrong.is_off(tolerance):
        detail = (
            "generate has the law of generate_plain, but next_token_probs has another one: total variation "
            f"{wrong.rows_off:.3g} of {counted(wrong.tokens, 'token')}, {wrong.case}"
        )
        return CheckResult("", Status.INCONCLUSIVE, detail)
    gap = max(compared.total_variation for compared in found)
    longest = max(compared.tokens for compared in found)
    rounding = ", float32 rounding" if gap > ROUNDING else ""
    detail = f"total variation at most {gap:.1e}{rounding} of up to {counted(longest, 'token')}"
    return CheckResult("", Status.PASSED, f"{detail}; {len(found)} laws, all enumerated", total_variation=gap)


def largest(found: Sequence[Compared]) -> Compared:
    """Return what is farthest from plain decoding, measured by the rounding that it is allowed."""
    return max(found, key=lambda compared: compared.total_variation / compared.tokens)


def _failure(worst: Compared) -> str:
    gap = worst.gap
    told = (
        f"total variation {worst.total_variation:.3g} of {counted(worst.tokens, 'token')}, {worst.case}: "
        f"text {text_of(gap.sequence)} has probability {gap.actual:.4g}, plainly decoded {gap.expected:.4g}"
    )
    kept = "; generations change those that follow" if worst.texts.keeps_state or worst.is_pair else ""
    wrong = "; next_token_probs is not generate_plain either" if worst.rows_off > ROUNDING * 1e6 else ""
    return told + kept + wrong


def text_of(sequence: tuple[Any, ...]) -> str:
    """Return a text, or texts that follow each other, for people."""
    if sequence and isinstance(sequence[0], tuple):
        return " and then ".join(text_of(part) for part in sequence)
    return ",".join(map(str, sequence)) or "(empty)"


def counted(count: int, what: str) -> str:
    """Return a number of things."""
    return f"{count} {what}{'s' * (count != 1)}"


def scope_of(cases: Sequence[Case], lengths: Sequence[int], how: str) -> str:
    """Return a line that says of which texts the law was found, and how."""
    engines = len({case.name for case in cases})
    span = f"{lengths[0]} to " * (lengths[0] < lengths[-1]) + counted(lengths[-1], "token")
    return f"texts of {span}, {counted(engines, 'engine')}, {counted(len(cases), 'prompt')}, {how}"
