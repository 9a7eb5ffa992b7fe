"""The check `long-texts` of engines: every token of long completions is a sample of its own row.

Completions of hundreds of tokens meet what completions of a few do not: state that drifts, caches beyond
their first blocks, counters that wrap around. Each token is compared with the row after the same tokens, in
several orders of the vocabulary: by the target's probability p; by p/q, where an engine has ``draft_probs``;
and with the token first that an n-gram drafter proposes (`spec_oracle.statistics.long_completions`).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Final, NamedTuple

import numpy as np
import scipy

from spec_oracle import clock
from spec_oracle.arrays import Floats
from spec_oracle.audit import effort
from spec_oracle.audit.context import Context
from spec_oracle.audit.engine.conversations import later_turns
from spec_oracle.audit.engine.requests import counted, shown, with_remarks_of
from spec_oracle.audit.engine.rounding import rounding_of
from spec_oracle.audit.engine.subject import Case, EngineSubject
from spec_oracle.audit.engine.tracer import EngineRequest, generated_together
from spec_oracle.audit.long_tokens import N_GRAM, RATIO, is_decided, result_of_tokens, tokens_needed
from spec_oracle.audit.results import Cause, CheckResult, Status, inconclusive, not_asked, remarked
from spec_oracle.contracts import SubjectRaisedError, raising
from spec_oracle.contracts.sampler import seed_all
from spec_oracle.exact.completions import Ids, is_ended
from spec_oracle.statistics.long_completions import (
    BY_P,
    Scored,
    TokenEvidence,
    by_probability,
    joined,
    point_masses,
    proposed_along,
)

# Tokens of the completions of `long-texts`; fewer where an engine raises.
ENGINE_LONG_TOKENS: Final = 320
ENGINE_LONG_LEAST: Final = 20  # Completions that are shorter on average are not long.
ENGINE_LONG_PILOT: Final = 16  # Completions after which it is seen whether they are that long on average.
ENGINE_LONG_COUNT: Final = 400  # So many of them at most.
ENGINE_LONG_TV: Final = 0.3  # TV of a token that they must detect.
# Share of the budget for them, and so many times as much where too few tokens came.
ENGINE_LONG_SHARE: Final = 0.15
ENGINE_LONG_OVERRUN: Final = 2
# Tokens of the completions that come first, how many of them at most, and share of the budget for them: what
# happens once in a completion, such as the end of a budget of tokens, must happen thousands of times.
ENGINE_MIDDLE_TOKENS: Final = 24
ENGINE_MIDDLE_COUNT: Final = 4000
ENGINE_MIDDLE_SHARE: Final = 0.3
# Tokens that they must have on average, and for which an engine must have room: more than `calls` judges.
ENGINE_MIDDLE_LEAST: Final = effort.ENGINE_SAMPLED_TOKENS
ENGINE_MIDDLE_TOGETHER: Final = 32  # So many are judged at once.
# How many times as many tokens without speculation show whether the rows are at fault.
ENGINE_LONG_BESIDE: Final = 4
CONVERSATIONS_PART: Final = 0.05  # Part of the rate for later turns of conversations.
ENGINE_LONG_MANY: Final = 2  # Completions at once of engines that decode many requests.
ENGINE_LONG_BATCHES: Final = (2, 3, 5, 8)  # Sizes of batches whose completions are judged so by `batch`.
ENGINE_LONG_BATCH_TOKENS: Final = 40  # Tokens of these.
ENGINE_LONG_BATCH_COUNT: Final = 4000  # So many of these at most.
ENGINE_LONG_BATCH_SHARE: Final = 0.3  # Share of the budget for them.
ENGINE_LONGEST_BATCH_SHARE: Final = 0.1  # The same for batches of completions as long as those alone.

_LAST = 6
"""Tokens that are shown before one that cannot be."""


def long_texts(subject: EngineSubject, context: Context) -> CheckResult:
    """Judge long completions after all prompts in turn, half of them with seeds.

    What contradicts the rows is the engine's fault unless completions without speculation do so, too.
    """
    if context.findings.is_reference_wrong:
        return inconclusive("next_token_probs is not the distribution of generate_plain")
    seed_all(context.seed)
    every, most = subject.cases(context), context.inputs.long
    rate = (1 - CONVERSATIONS_PART) * context.rate / 4
    tolerance, found, reads = rounding_of(subject, context).a_token, list[CheckResult](), list[_Read]()
    for phase, share in ((_middle(), ENGINE_MIDDLE_SHARE), (_long(), ENGINE_LONG_SHARE)):
        read = _Read(every, tolerance, rate, context.stream("engine/long-texts", phase.tokens))
        read.sample(_limited(phase, most), share * context.budget)
        result = read.result()
        if result.status is Status.NOT_APPLICABLE and found:  # all end soon: more of those before, instead
            read = reads[-1]
            read.sample(_limited(_middle(), most), share * context.budget)
            result = read.result()
            found.pop()
        reads.append(read)
        found.append(result)
        if result.status is Status.FAILED:
            return _unless_rows_are_wrong(result, read, subject, context)
        if read.is_short:
            break
    turns = later_turns(every, tolerance, context, CONVERSATIONS_PART * context.rate)
    if turns.status is Status.FAILED:
        return with_remarks_of(turns, [*found, turns])
    last = with_remarks_of(found[-1], [*found, turns])
    return replace(last, measured=replace(last.measured, alpha=context.rate))


def _unless_rows_are_wrong(
    result: CheckResult, read: "_Read", subject: EngineSubject, context: Context
) -> CheckResult:
    """Return a failure; left open if completions without speculation contradict the rows, too."""
    if plain := subject.cases(context, "generate_plain"):
        beside = replace(read, cases=plain, method="generate_plain")
        beside.sample(read.phase, context.budget, ENGINE_LONG_BESIDE * read.evidence.tokens)
        if beside.result().status is Status.FAILED:
            why = "without speculation they do so, too: next_token_probs is not their distribution"
            detail = f"{result.detail}; {why}"
            return replace(result, status=Status.INCONCLUSIVE, detail=detail, cause=Cause.UNDECIDED)
    return result


def long_batches(cases: Sequence[Case], tolerance: float, context: Context, rate: float) -> CheckResult:
    """Judge completions of batches of unlike requests: of several prompts, with seeds and without.

    Thousands of tens of tokens come first; few, but as long as those alone, show what is late in a batch.
    """
    rng, rate = context.stream("engine/batch/long"), rate / 4
    batches = Phase(ENGINE_LONG_BATCH_TOKENS, ENGINE_LONG_BATCH_COUNT, ENGINE_MIDDLE_TOGETHER, least=0)
    wanted = tokens_needed(ENGINE_LONG_TV, rate)  # however soon completions end
    phases = ((batches, ENGINE_LONG_BATCH_SHARE, wanted), (_long(), ENGINE_LONGEST_BATCH_SHARE, 0))
    found = list[CheckResult]()
    for phase, share, least in phases:
        read = _Read(cases, tolerance, rate, rng, "generate_batch")
        read.sample(_limited(phase, context.inputs.long), share * context.budget, least)
        result = read.result()
        if result.status is not Status.NOT_APPLICABLE:  # as where completions end soon
            found.append(result)
        if result.status is not Status.PASSED:
            break
    return with_remarks_of(replace(found[-1], detail=f"batches: {found[-1].detail}"), found)


class Phase(NamedTuple):
    """Completions of ``tokens`` tokens, ``most`` of them, judged in groups of ``together``.

    They are short where those of every prompt end after less than ``least`` tokens on average.
    """

    tokens: int
    most: int
    together: int = 1
    least: int = ENGINE_LONG_LEAST


def _middle() -> Phase:
    return Phase(ENGINE_MIDDLE_TOKENS, ENGINE_MIDDLE_COUNT, ENGINE_MIDDLE_TOGETHER, ENGINE_MIDDLE_LEAST)


def _long() -> Phase:
    return Phase(ENGINE_LONG_TOKENS, ENGINE_LONG_COUNT)


def _limited(phase: Phase, most: int | None) -> Phase:
    return phase if most is None else phase._replace(most=min(phase.most, most))


@dataclass
class _Read:
    """Completions by ``method``, and the evidence of their tokens against their rows.

    Rows may be off by ``tolerance``; ``rate`` is that of tokens of probability 0, and that of all others.
    Contexts of ``room`` tokens, prompt and completion, were allowed; those of ``refused`` were not.
    ``after`` has the numbers of completions and of their tokens, by the engine and prompt.
    """

    cases: Sequence[Case]
    tolerance: float
    rate: float
    rng: np.random.Generator
    method: str = "generate"
    length: int = field(default=0, init=False)
    room: int = field(default=0, init=False)
    refused: int | None = field(default=None, init=False)
    phase: Phase = field(default_factory=_long, init=False)
    completions: int = field(default=0, init=False)
    longest: int = field(default=0, init=False)
    after: dict[str, tuple[int, int]] = field(default_factory=dict, init=False)
    impossible: int = field(default=0, init=False)
    ruled_out: str = field(default="", init=False)
    notes: list[str] = field(default_factory=list, init=False)

    def __post_init__(self) -> None:
        has_drafts = any(case.code.has("draft_probs") for case in self.cases)
        names = [*([RATIO] if has_drafts else []), N_GRAM]
        self.evidence = TokenEvidence(names, self.rng, whole_rows=True, knows_positions=True)
        self._first_impossible, self._scored_so_far = "", list[Scored]()

    def result(self) -> CheckResult:
        """Judge the completions."""
        if self.is_short and not is_decided(self, self.rate):
            return not_asked(
                f"completions end after {self.mean:.2g} tokens on average, so that `calls` judges them"
            )
        found = result_of_tokens(self, ENGINE_LONG_TV, self.rate, advice="raise --budget", pairs=math.inf)
        what = f"completions of up to {counted(self.longest, 'token')}, {counted(len(self.cases), 'prompt')}"
        each = f"{what}, {counted(self.evidence.tokens, 'token')} judged one by one"
        scope = (each, *found.remarks.scope)
        found = remarked(found, scope=scope, notes=tuple(self.notes))
        seen = self.evidence.detects(self.rate).get(BY_P, math.inf)
        detectable = seen if math.isfinite(seen) else None
        measured = replace(found.measured, alpha=2 * self.rate, tokens=self.longest, detectable=detectable)
        return replace(found, measured=measured)

    def sample(self, phase: Phase, seconds: float, wanted: int = 0) -> None:
        """Add completions for so long, or longer if too few tokens came, unless it is decided.

        One that cannot be ends it, whatever number of tokens is ``wanted``: those behind it are not judged.
        """
        least = max(tokens_needed(ENGINE_LONG_TV, self.rate), wanted)
        self.phase, self.length, most = phase, phase.tokens, self.completions + phase.most
        started = clock.now()
        order, tokens = _far_apart(len(self.cases)), self.evidence.tokens
        for number in count():
            self._add(self.cases[order[number % len(order)]], number + number // len(order))
            if len(self._scored_so_far) >= phase.together:
                self._judge_together()
            took = clock.now() - started
            came = self.evidence.tokens - tokens + sum(len(one.came) for one in self._scored_so_far)
            is_late = took > seconds * (1 if came >= least else ENGINE_LONG_OVERRUN)
            is_enough = self.completions >= most or is_decided(self, self.rate)
            are_judged = self.evidence.tokens >= wanted or bool(self.ruled_out)
            if is_late or self.is_short or (is_enough and are_judged):
                break
        self._judge_together()

    def _judge_together(self) -> None:
        if self._scored_so_far:
            self.evidence.add(joined(self._scored_so_far))
            self._scored_so_far = []

    @property
    def is_short(self) -> bool:
        """Whether completions end so early that they are not long."""
        return self.completions >= ENGINE_LONG_PILOT and self.mean < self.phase.least

    @property
    def mean(self) -> float:
        """The mean length after the prompt whose completions are longest."""
        return max(tokens / completions for completions, tokens in self.after.values())

    def _add(self, case: Case, number: int) -> None:
        """Add completions of a case, or of a batch that begins with it; ``number`` makes them unlike."""
        with case.code.drafts.of(case.code.engine):
            generated = self._generated(case, number)
        for one, completion in generated:
            self.completions += 1
            self.longest = max(self.longest, len(completion))
            completions, tokens = self.after.get(one.label, (0, 0))
            self.after[one.label] = completions + 1, tokens + len(completion)
            if completion and not self.ruled_out:
                self._judge(one, completion)

    def _generated(self, case: Case, number: int) -> list[tuple[Case, Ids]]:
        """Return completions, and whose they are; where an engine raises, of the longest context it has."""
        prompt = len(case.prompt)
        while True:
            if self.refused is not None:
                room = self.room if self.refused - self.room <= 1 else (self.room + self.refused) // 2
                self.length = min(self.phase.tokens, max(room - prompt, ENGINE_MIDDLE_LEAST))
            try:
                found = self._of_length(case, number)
            except SubjectRaisedError as error:
                if self.length <= ENGINE_MIDDLE_LEAST:
                    raise
                if self.refused is None:
                    self.notes.append(f"long-texts: no completions of {self.length} tokens: {error}")
                self.refused = (
                    prompt + self.length
                )  # less than before: no context of that length is asked for
                self.room = min(self.room, self.refused - 1)
                continue
            self.room = max(self.room, prompt + self.length)
            return found

    def _of_length(self, case: Case, number: int) -> list[tuple[Case, Ids]]:
        code = case.code
        if self.method == "generate_batch":
            return self._together(case, number)
        if self.method == "generate_plain":
            seed = self._seed(number)
            return [(case, code.generated(case.prompt, self.length, seed, self.method))]
        size = ENGINE_LONG_MANY if code.has("start_many") else 1
        seeds = [self._seed(number if code.takes_seeds else 0) for _ in range(size)]
        return [(case, one) for one in code.completions(case.prompt, self.length, seeds)]

    def _together(self, case: Case, number: int) -> list[tuple[Case, Ids]]:
        """Return those of a batch of some size, after the engine's prompts in turn."""
        code, own = case.code, [other for other in self.cases if other.name == case.name]
        size = int(self.rng.choice(ENGINE_LONG_BATCHES))
        cases = [own[(own.index(case) + place) % len(own)] for place in range(size)]
        seeds = [self._seed(number + place // 2) for place in range(size)]
        with raising():
            asked = [EngineRequest(one.prompt, self.length) for one in cases]
            found = generated_together(code, asked, seeds)
        checked = [code.checked(one, self.length, "generate_batch") for one in found]
        return [*zip(cases, checked, strict=True)]

    def _seed(self, number: int) -> int | None:
        """Return a fresh seed for odd numbers, None for even ones."""
        return int(self.rng.integers(2**31)) if number % 2 else None

    def _judge(self, case: Case, completion: Ids) -> None:
        code = case.code
        ends = [end for end in range(1, len(completion)) if is_ended(completion[:end], code.endings)]
        if ends:
            behind = len(completion) - ends[0]
            self.ruled_out = (
                f"{case.label}: a completion goes on for {counted(behind, 'token')} after its end"
            )
            return
        rows = code.rows_along(case.prompt, completion)
        self._scored_so_far.append(self._scored(case, completion, rows))
        impossible = np.flatnonzero(rows[np.arange(len(completion)), completion] == 0)
        if not len(impossible):
            return
        self.impossible += len(impossible)
        if not self._first_impossible:
            place = int(impossible[0])
            last = shown(completion[max(place - _LAST, 0) : place])
            self._first_impossible = (
                f"{case.label}: token {completion[place]} came as token {place + 1}, behind {last}, where it "
                "has probability 0"
            )
        # So many, or more, among all that may be looked at: whenever it is looked.
        most = sum(phase.tokens * phase.most for phase in (_middle(), _long()))
        if scipy.stats.binom.sf(self.impossible - 1, most, self.tolerance) <= self.rate:
            self.ruled_out = self._first_impossible

    def _scored(self, case: Case, completion: Ids, rows: Floats) -> Scored:
        """Return the tokens with their rows, the most probable cell first."""
        order, place = by_probability(rows)
        came = place[np.arange(len(completion)), completion]
        text, prompt = (*case.prompt, *completion), len(case.prompt)
        proposed = proposed_along(text[:-1], prompt)
        cells = [None if token is None else int(place[end, token]) for end, token in enumerate(proposed)]
        drafts = {N_GRAM: point_masses(cells, rows.shape[1])}
        if case.code.has("draft_probs"):
            q = np.stack([case.code.draft_row(text[: prompt + end]) for end in range(len(completion))])
            drafts[RATIO] = np.take_along_axis(q, order, axis=1)
        each = np.arange(len(completion))
        places, positions = np.maximum(each, 1), prompt + each
        masses = np.take_along_axis(rows, order, axis=1)
        is_found = self.refused is not None and self.refused - self.room <= 1
        left = np.maximum(self.room - 1 - positions, -1) if is_found else None
        return Scored(masses, came, drafts, self.tolerance, places, positions=positions, left=left)


def _far_apart(count: int) -> list[int]:
    """Return 0..count-1, the halves in turn: where time is short, engines that are listed last have some."""
    half = -(-count // 2)
    return sorted(range(count), key=lambda number: (number % half, number))
