"""Exact laws of what engines generate, by interception of whole generations, confirmed by plain draws."""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from spec_oracle.audit.bench import Bench
from spec_oracle.audit.evidence.engine_cases import (
    FIRST_TOKENS,
    LEAST_TOKENS,
    Case,
    Compared,
    counted,
    judged,
    largest,
    scope_of,
)
from spec_oracle.audit.evidence.engine_drawn import confirm
from spec_oracle.audit.evidence.findings import Findings, NoEvidenceError
from spec_oracle.audit.facts import Facts
from spec_oracle.audit.results import Evidence, Status
from spec_oracle.exact.interception import NotTracedError
from spec_oracle.plain import SubjectRaisedError
from spec_oracle.systems.engine import Text
from spec_oracle.systems.engine_laws import (
    EnumeratedTexts,
    enumerated_pairs,
    enumerated_texts,
    law_of_rows,
    product,
)
from spec_oracle.systems.spies import Drafts

MOST_TOKENS = 8
MOST_RUNS = 20_000
"""Runs of an engine that one law may take."""

LEAST_RUNS = 300
"""Runs that it may always take: the pace of the first ones says little."""

MORE_RUNS = 1500
"""Runs that all laws of texts of one more token may take together, where nobody asked for that token."""

FOLLOWED = 5.0
"""How much longer a generation takes when its random numbers are followed: a first guess."""


@dataclass
class Enumerator:
    """Finds laws of texts within ``budget`` seconds; ``a_run`` takes one run, as far as is known."""

    budget: float
    a_run: float
    runs: int = field(default=0, init=False)
    seconds: float = field(default=0.0, init=False)

    def compared(self, case: Case, tokens: int) -> Compared:
        """Return the law of the texts of one generation, beside that of plain decoding."""
        code, prompt, plain = case.code, case.prompt, None
        texts = self._found(lambda runs: enumerated_texts(code, prompt, tokens, most_runs=runs))
        if code.has("generate_plain"):
            by_itself = self._found(
                lambda runs: enumerated_texts(code, prompt, tokens, plain=True, most_runs=runs)
            )
            plain = by_itself.law
        return Compared(case, tokens, texts, law_of_rows(code, prompt, tokens), plain)

    def pair(self, case: Case, then: Text) -> Compared:
        """Return the law of two texts of a fresh engine, the second generated after the first.

        Beside it the law of independent texts.
        """
        requests = ((case.prompt, FIRST_TOKENS), (then, 1))
        texts = self._found(lambda runs: enumerated_pairs(case.code, requests, most_runs=runs))
        laws = [law_of_rows(case.code, prompt, tokens) for prompt, tokens in requests]
        return Compared(case, FIRST_TOKENS + 1, texts, product(laws), is_pair=True)

    def _found(self, find: Callable[[int], EnumeratedTexts]) -> EnumeratedTexts:
        left = (self.budget - self.seconds) / self.a_run
        started = time.perf_counter()
        try:
            found = find(int(min(max(left, LEAST_RUNS), MOST_RUNS)))
        except SubjectRaisedError as error:
            raise NoEvidenceError(f"interception failed: followed, it {error}") from None
        except NotTracedError as error:
            raise NoEvidenceError(f"interception failed: {error}") from None
        took = time.perf_counter() - started
        self.seconds += took
        self.runs += found.runs
        # Other work on the machine makes runs longer, never shorter.
        self.a_run = min(self.a_run, took / found.runs)
        return found


def enumerator(cases: Sequence[Case], bench: Bench) -> Enumerator:
    """Try every engine on plain draws, and return what enumerates within the budget.

    Raises `ContractError` where rows or texts are none, `SubjectRaisedError` where an engine raises.
    """
    fastest = math.inf
    for case in cases:
        case.code.row(case.prompt)
        for tokens in range(1, LEAST_TOKENS + 1):
            started = time.perf_counter()
            case.code.generated(case.prompt, tokens)
            fastest = min(fastest, time.perf_counter() - started)
    return Enumerator(bench.budget, FOLLOWED * fastest)


def enumerated_first_texts(cases: Sequence[Case], facts: Facts, bench: Bench, alpha: float) -> Findings:
    """Find the laws of the first tokens after every prompt.

    Texts are one token longer where only that shows what drafts do. Raises `NoEvidenceError` where a law
    would not be exact, or plain draws contradict it.
    """
    find, found, drafts = enumerator(cases, bench), list[Compared](), Drafts()
    for tokens in range(1, (bench.tokens or LEAST_TOKENS) + 1):
        if tokens > FIRST_TOKENS and not drafts.missing:
            break
        found += [find.compared(case, tokens) for case in cases]
        for compared in found:
            drafts |= compared.texts.drafts
        if any(compared.is_off(facts.tolerance) for compared in found):
            break
    findings = _findings(found, facts, bench, alpha, find)
    if findings.joint.status is Status.PASSED and drafts.missing:
        inconclusive = replace(findings.joint, status=Status.INCONCLUSIVE, detail=drafts.missing)
        findings = replace(findings, joint=inconclusive)
    return replace(findings, notes=(drafts.unknown,) if drafts.unknown else ())


def enumerated_longer_texts(cases: Sequence[Case], facts: Facts, bench: Bench, alpha: float) -> Findings:
    """Find the laws of longer texts, and of the texts of two generations in a row; errors as above."""
    find, found, costs = enumerator(cases, bench), list[Compared](), list[tuple[int, float]]()
    for tokens in range(FIRST_TOKENS, (bench.tokens or MOST_TOKENS) + 1):
        if tokens > LEAST_TOKENS and bench.tokens is None and not _is_affordable(costs, find):
            break
        before = find.runs, find.seconds
        found += [find.compared(case, tokens) for case in cases]
        costs.append((find.runs - before[0], find.seconds - before[1]))
        if any(compared.is_off(facts.tolerance) for compared in found):
            return _findings(found, facts, bench, alpha, find)
    for name in dict.fromkeys(case.name for case in cases):
        own = [case for case in cases if case.name == name]
        found.append(find.pair(own[0], own[-1].prompt))
    return _findings(found, facts, bench, alpha, find)


def _is_affordable(costs: Sequence[tuple[int, float]], find: Enumerator) -> bool:
    """Whether one more token is cheap: laws grow by a factor with every token, at most by the last one."""
    (runs_before, seconds_before), (runs, seconds) = costs[-2:]
    return (
        runs * runs / runs_before <= MORE_RUNS
        and seconds * seconds / seconds_before <= find.budget - find.seconds
    )


def _findings(
    found: Sequence[Compared], facts: Facts, bench: Bench, alpha: float, find: Enumerator
) -> Findings:
    result = judged(found, facts.tolerance)
    lengths = sorted({compared.tokens for compared in found})
    cases = list(dict.fromkeys(compared.case for compared in found))
    scope = scope_of(cases, lengths, f"enumerated by interception in {counted(find.runs, 'run')}")
    return Findings(
        result,
        Evidence.EXACT,
        total_variation=max(compared.total_variation for compared in found),
        smallest_detectable_tv=lengths[-1] * facts.tolerance,
        is_reference_wrong=any(compared.rows_off > compared.tokens * facts.tolerance for compared in found),
        text=largest(found).found if result.status is Status.FAILED else None,
        scope=(f"{scope}, {confirm(found, alpha, bench)}",),
    )
