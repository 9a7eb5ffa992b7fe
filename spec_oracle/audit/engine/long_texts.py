"""The check `long-texts` of engines: every token of long completions is a sample of its own row.

Completions of hundreds of tokens meet what completions of a few do not: state that drifts, caches beyond
their first blocks, counters that wrap around. Each token is compared with the row after the same tokens, in
several orders of the vocabulary: by the target's probability p; by p/q, where an engine has ``draft_probs``;
and with the token first that an n-gram drafter proposes (`spec_oracle.statistics.long_completions`).
"""

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import cycle

import numpy as np
from scipy.stats import binom

from spec_oracle.arrays import Floats
from spec_oracle.audit import effort
from spec_oracle.audit.context import Context
from spec_oracle.audit.engine.subject import Case, EngineSubject
from spec_oracle.audit.engine.wording import counted, scope_of, shown
from spec_oracle.audit.long_tokens import N_GRAM, RATIO, is_decided, result_of_tokens, tokens_needed
from spec_oracle.audit.results import CheckResult, Status, inconclusive, not_asked
from spec_oracle.contracts import SubjectRaisedError
from spec_oracle.contracts.sampler import seed_all
from spec_oracle.exact.completions import Ids, is_ended
from spec_oracle.statistics.long_completions import Evidence, Scored, point_masses, proposed_by_n_gram

_LAST = 6
"""Tokens that are shown before one that cannot be."""


def long_texts(subject: EngineSubject, context: Context) -> CheckResult:
    """Judge long completions after all prompts in turn, half of them with seeds.

    What contradicts the rows is the engine's fault unless completions without speculation do so, too.
    """
    if context.findings.is_reference_wrong:
        return inconclusive("next_token_probs is not the distribution of generate_plain")
    seed_all(context.seed)
    every, tolerance, rate = subject.cases(context), subject.facts.tolerance, context.rate / 2
    read = _Read(every, tolerance, rate, context.stream("engine/long-texts"))
    seconds = effort.ENGINE_LONG_SHARE * context.budget
    read.sample(seconds)
    if read.is_short and not is_decided(read, rate):
        mean = read.evidence.tokens / read.completions
        return not_asked(f"completions end after {mean:.2g} tokens on average: calls judges such")
    result = result_of_tokens(read, effort.ENGINE_LONG_TV, rate, advice="raise --budget", pairs=math.inf)
    if result.status is Status.FAILED and (plain := subject.cases(context, "generate_plain")):
        beside = _Read(plain, tolerance, rate, context.stream("engine/long-texts/plain"), "generate_plain")
        beside.sample(context.budget, read.evidence.tokens)
        if is_decided(beside, rate):
            why = "without speculation they do so, too: next_token_probs is not their distribution"
            result = replace(result, status=Status.INCONCLUSIVE, detail=f"{result.detail}; {why}")
    line = scope_of(every, [read.longest], f"{counted(read.evidence.tokens, 'token')} judged one by one")
    return replace(result, alpha=context.rate, scope=(line, *result.scope), notes=tuple(read.notes))


@dataclass
class _Read:
    """Completions by ``method``, whose tokens were compared with their rows.

    Rows may be off by ``tolerance``; ``rate`` is that of tokens of probability 0, and that of all others.
    """

    cases: Sequence[Case]
    tolerance: float
    rate: float
    rng: np.random.Generator
    method: str = "generate"
    completions: int = field(default=0, init=False)
    longest: int = field(default=0, init=False)
    ruled_out: str = field(default="", init=False)
    notes: list[str] = field(default_factory=list, init=False)

    def __post_init__(self) -> None:
        has_drafts = any(case.code.has("draft_probs") for case in self.cases)
        self.evidence = Evidence([*([RATIO] if has_drafts else []), N_GRAM], self.rng)
        self._length, self._first_impossible = effort.ENGINE_LONG_TOKENS, ""

    def sample(self, seconds: float, wanted: int | None = None) -> None:
        """Add completions for so long, or longer if too few tokens came, up to where it is decided."""
        least, most = (
            tokens_needed(tv, self.rate) for tv in (effort.ENGINE_LONG_TV, effort.ENGINE_LONG_TV_WANTED)
        )
        started = time.perf_counter()
        for number, place in enumerate(cycle(_far_apart(len(self.cases)))):
            case = self.cases[place]
            is_seeded = case.code.takes_seeds and (number + number // len(self.cases)) % 2 == 1
            self._add(case, seeded=is_seeded, most=most)
            took, tokens = time.perf_counter() - started, self.evidence.tokens
            is_late = took > seconds * (1 if tokens >= least else effort.ENGINE_LONG_OVERRUN)
            if is_late or self.is_short or tokens >= (wanted or most) or is_decided(self, self.rate):
                return

    @property
    def is_short(self) -> bool:
        """Whether completions end so early that they are not long."""
        return effort.ENGINE_LONG_PILOT <= self.completions > self.evidence.tokens / effort.ENGINE_LONG_LEAST

    def _add(self, case: Case, *, seeded: bool, most: int) -> None:
        count = effort.ENGINE_LONG_MANY if case.code.has("start_many") else 1
        seeds = self.rng.integers(2**31, size=count).tolist() if seeded else [None] * count
        for completion in self._generated(case, seeds):
            self.completions += 1
            self.longest = max(self.longest, len(completion))
            if completion:
                self._judge(case, completion, most)

    def _generated(self, case: Case, seeds: Sequence[int | None]) -> list[Ids]:
        """Return a completion for each seed: shorter ones where an engine raises at long ones."""
        while True:
            try:
                if self.method == "generate":
                    return case.code.completions(case.prompt, self._length, seeds)
                return [case.code.generated(case.prompt, self._length, seed, self.method) for seed in seeds]
            except SubjectRaisedError as error:
                if self._length <= effort.ENGINE_LONG_LEAST:
                    raise
                self.notes.append(f"long-texts: no completions of {self._length} tokens: {error}")
                self._length //= 2

    def _judge(self, case: Case, completion: Ids, most: int) -> None:
        code, before = case.code, self.evidence.impossible
        ends = [end for end in range(1, len(completion)) if is_ended(completion[:end], code.endings)]
        if ends:
            behind = len(completion) - ends[0]
            self.ruled_out = (
                f"{case.label}: a completion goes on for {counted(behind, 'token')} behind its end"
            )
            return
        rows = code.rows_along(case.prompt, completion)
        self.evidence.add(self._scored(case, completion, rows))
        if self.evidence.impossible == before:
            return
        if not self._first_impossible:
            place = int(np.flatnonzero(rows[np.arange(len(completion)), completion] == 0)[0])
            last = shown(completion[max(place - _LAST, 0) : place])
            self._first_impossible = (
                f"{case.label}: token {completion[place]} came as token {place + 1}, behind {last}, where it "
                "has probability 0"
            )
        # So many, or more, among all that may be looked at: whenever it is looked.
        chance = binom.sf(self.evidence.impossible - 1, most + effort.ENGINE_LONG_TOKENS, self.tolerance)
        if chance <= self.rate:
            self.ruled_out = self._first_impossible

    def _scored(self, case: Case, completion: Ids, rows: Floats) -> Scored:
        """Return the tokens with their rows, the most probable cell first."""
        order = np.argsort(-rows, axis=1, kind="stable")
        place = np.argsort(order, axis=1)
        came = place[np.arange(len(completion)), completion]
        text, prompt = (*case.prompt, *completion), len(case.prompt)
        proposed = [proposed_by_n_gram(text[: prompt + end]) for end in range(len(completion))]
        cells = [None if token is None else int(place[end, token]) for end, token in enumerate(proposed)]
        drafts = {N_GRAM: point_masses(cells, rows.shape[1])}
        if case.code.has("draft_probs"):
            q = np.stack([case.code.draft_row(text[: prompt + end]) for end in range(len(completion))])
            drafts[RATIO] = np.take_along_axis(q, order, axis=1)
        return Scored(np.take_along_axis(rows, order, axis=1), came, drafts, doubt=self.tolerance, first=0)


def _far_apart(count: int) -> list[int]:
    """Return 0..count-1, the halves in turn: where time is short, engines that are listed last have some."""
    half = -(-count // 2)
    return sorted(range(count), key=lambda number: (number % half, number))
