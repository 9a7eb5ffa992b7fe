"""Texts that an engine generates together: they must have the laws that they have alone, and be independent.

Prompts of a batch differ in length where the engine has such, so that padding is among what is asked.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spec_oracle.audit.bench import Bench
from spec_oracle.audit.draws import checks_own_rng
from spec_oracle.audit.evidence.engine_cases import Case, Compared, judged
from spec_oracle.audit.evidence.engine_drawn import seed_all
from spec_oracle.audit.evidence.engine_enumerated import MOST_RUNS
from spec_oracle.audit.evidence.findings import NoEvidenceError
from spec_oracle.audit.evidence.watched import watched
from spec_oracle.audit.facts import Facts
from spec_oracle.audit.results import CheckResult
from spec_oracle.exact.interception import NotTracedError
from spec_oracle.plain import ContractError, SubjectRaisedError, raising
from spec_oracle.systems.engine import EngineCode, Text, as_list
from spec_oracle.systems.engine_laws import enumerated, law_of_rows, product
from spec_oracle.systems.text_cells import text_cells

TOKENS = 2
SMALL_VOCABULARY = 3
ROUNDS = 6
BATCHES = 60


def _together(engine: Any, prompts: Sequence[Text], tokens: int) -> list[list[Any]]:
    returned = as_list(
        engine.generate_batch([list(prompt) for prompt in prompts], tokens, [None] * len(prompts))
    )
    if len(returned) != len(prompts):
        raise ContractError(f"generate_batch: returned {len(returned)} texts for {len(prompts)} prompts")
    return [as_list(text) for text in returned]


def _checked(code: EngineCode, returned: list[list[Any]], tokens: int) -> tuple[Text, ...]:
    return tuple(code.checked(text, tokens, "generate_batch") for text in returned)


def _mates(case: Case, cases: Sequence[Case]) -> list[Text]:
    """Return a batch of two: the prompt of the case, and the next one of its engine."""
    own = [other.prompt for other in cases if other.name == case.name]
    return [case.prompt, own[(own.index(case.prompt) + 1) % len(own)]]


def enumerated_batches(cases: Sequence[Case], facts: Facts) -> CheckResult:
    """Find the law of two texts generated together; raises `NoEvidenceError` where it would not be exact."""
    found = []
    for case in cases:
        code, prompts = case.code, _mates(case, cases)
        tokens = TOKENS if code.vocab_size <= SMALL_VOCABULARY else 1
        call, label = (
            partial(_together, prompts=prompts, tokens=tokens),
            partial(_checked, code, tokens=tokens),
        )
        try:
            texts = enumerated(code, call, label, MOST_RUNS)
        except (NotTracedError, SubjectRaisedError) as error:
            raise NoEvidenceError(f"interception failed: {error}") from None
        rows = product([law_of_rows(code, prompt, tokens) for prompt in prompts])
        found.append(Compared(case, len(prompts) * tokens, texts, rows))
    return judged(found, facts.tolerance)


def drawn_batches(cases: Sequence[Case], alpha: float, bench: Bench) -> CheckResult:
    """Judge pairs of texts generated together by draws."""
    rng = checks_own_rng(bench.seed)
    seed_all(bench.seed)
    batches = [_mates(case, cases) for case in cases]
    cells = [
        [text_cells(case.code, prompt, TOKENS, rng) for prompt in prompts]
        for case, prompts in zip(cases, batches, strict=True)
    ]

    def pairs(number: int) -> NDArray[np.int64]:
        case, prompts, (first, second) = cases[number], batches[number], cells[number]
        drawn = []
        for _ in range(BATCHES // len(cases) + 1):
            with raising():
                returned = _together(case.code.engine, prompts, TOKENS)
            one, other = _checked(case.code, returned, TOKENS)
            drawn.append(first.cell(one) * len(second.law) + second.cell(other))
        return np.array(drawn)

    def rounds() -> Iterator[list[NDArray[np.int64]]]:
        for _ in range(ROUNDS):
            yield [pairs(number) for number in range(len(cases))]

    laws = [np.outer(first.law, second.law).reshape(-1) for first, second in cells]
    return watched("texts generated together", laws, rounds(), alpha=alpha)
