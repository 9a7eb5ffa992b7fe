"""The check `logprobs` of engines: reported log-probabilities and reasons of an end are right.

The log-probability reported of each token must be that of its row, up to rounding: of the rows after all
processors, or of those before, always the same. Nothing is estimated, so one completion decides. A correction
reported with the probability of the residual, a constant, and another row are named in the result.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from spec_oracle import clock
from spec_oracle.arrays import Floats
from spec_oracle.audit.context import Context
from spec_oracle.audit.engine.rounding import Rounding, rounding_of
from spec_oracle.audit.engine.subject import Case, EngineSubject
from spec_oracle.audit.logprobs import NEGLIGIBLE, ReportedLogprobs
from spec_oracle.audit.results import CheckResult, How, failed, inconclusive, not_asked, passed
from spec_oracle.contracts.completion import Completion, Reported, Sampling, Token
from spec_oracle.contracts.engine import Report
from spec_oracle.contracts.sampler import seed_all
from spec_oracle.exact.completions import Ids, is_ended

# Tokens of the completions after a prompt whose reported log-probabilities are looked at, in turn: of two
# tokens the last one is a correction or a bonus token.
ENGINE_REPORTS: Final = (12, 12, 1, 2, 2, 2)
ENGINE_REPORTS_TURNS: Final = 5  # So many turns of them, so that rare ends and corrections are among them.
# Share of the budget for them, the same for each prompt; the first ones after a prompt are looked at anyway.
ENGINE_REPORTS_SHARE: Final = 0.1

AFTER, BEFORE = "after temperature and filters", "before temperature and filters"


def logprobs(subject: EngineSubject, context: Context) -> CheckResult:
    """Compare reported log-probabilities with rows, of completions of one token and of several."""
    cases = subject.cases(context, "reported")
    if not cases:
        return not_asked("it shows no `reported`: token ids, log-probabilities and why a completion ended")
    seed_all(context.seed)
    ends = clock.now() + ENGINE_REPORTS_SHARE * context.budget
    known, unseen, tokens, draws = set[str](), list[str](), 0, 0
    rounding, doubts = rounding_of(subject, context), list[str]()
    for number, case in enumerate(cases):
        now = clock.now()
        found = _Found(case, rounding, now + (ends - now) / (len(cases) - number))
        wrong = found.wrong()
        draws, tokens = draws + found.draws, tokens + found.tokens
        if wrong:
            return failed(f"{case.label}: {wrong}", draws=draws, how=How.SAMPLED)
        doubts += [f"{case.label}: {found.doubt}"] if found.doubt else []
        known |= {*found.modes[: found.reports]}
        if clock.now() > ends:
            unseen = [one.label for one in cases[number + 1 :]]
            break
    if doubts:
        why = f"differences of up to {_most(rounding.unsure):.2g} nats may be rounding: {rounding.why}"
        return inconclusive(f"{doubts[0]}; {why}", draws=draws, do=rounding.step)
    what = f"those {' or '.join(sorted(known))}" if known else "none are reported"
    detail = f"{what}; {tokens:,} tokens of {draws:,} completions, which end where it is said"
    detail += f"; not looked at in this time: {'; '.join(unseen)}" if unseen else ""
    return passed(detail, draws=draws, how=How.SAMPLED)


@dataclass
class _Found:
    """Completions after one prompt; ``modes`` fit all of them so far, and messages name the first.

    ``reports``: 1 if log-probabilities were reported at all, else 0. ``doubt`` says what is wrong unless it
    is rounding, "" if nothing is.
    """

    case: Case
    rounding: Rounding
    ends: float
    modes: list[str] = field(init=False)
    draws: int = 0
    tokens: int = 0
    reports: int = 0
    doubt: str = ""

    def __post_init__(self) -> None:
        self.modes = [AFTER, BEFORE] if self.case.code.has("raw_probs") else [AFTER]

    def wrong(self) -> str:
        """Look at completions; say what is wrong, "" if nothing is."""
        every, code = self.modes, self.case.code
        for number in range(ENGINE_REPORTS_TURNS * len(ENGINE_REPORTS)):
            if number >= len(ENGINE_REPORTS) and clock.now() > self.ends:
                break
            most = ENGINE_REPORTS[number % len(ENGINE_REPORTS)]
            with code.drafts.of(code.engine):
                report = code.reported(self.case.prompt, most)
            self.draws, self.tokens = self.draws + 1, self.tokens + len(report.tokens)
            if wrong := _end_fault(report, self.case, most):
                return wrong
            if not report.logs:
                continue
            self.reports = 1
            faults = {mode: self._fault(report, mode, self.rounding.a_token) for mode in every}
            fitting = [mode for mode in every if not faults[mode]]
            if not fitting and any(not self._fault(report, mode, self.rounding.unsure) for mode in every):
                self.doubt = self.doubt or faults[AFTER]
                continue
            if not fitting:
                return faults[AFTER]
            if not {*fitting} & {*self.modes}:
                other = "one-token requests report" if most == 1 else "another completion has"
                return f"they are those {self.modes[0]}, {other} those {fitting[0]}"
            self.modes = [mode for mode in self.modes if mode in fitting]
        return ""

    def _fault(self, report: Report, mode: str, rounding: float) -> str:
        return _fault(report, self.case, mode, _most(rounding))


def _most(rounding: float) -> float:
    """Return by how many nats log-probabilities may differ, for a total variation that is rounding."""
    return NEGLIGIBLE + 2 * rounding


def _fault(report: Report, case: Case, mode: str, tolerance: float) -> str:
    """Say what is wrong with the log-probabilities by one mode, "" if nothing is."""
    row: Callable[[Ids], Floats] = case.code.row if mode == AFTER else case.code.raw_row
    contexts = [case.prompt + report.tokens[:place] for place in range(len(report.tokens))]
    behind = [None] * len(report.logs)
    reported = tuple(
        Reported(token, log, {}) for token, log in zip((*report.tokens, *behind), report.logs, strict=False)
    )
    completion = Completion(report.tokens, ended=False, reported=reported)
    source = f"its {'rows' if mode == AFTER else 'raw_probs'}"
    compared = ReportedLogprobs(
        completion,
        [*map(_logs, map(row, contexts))],
        case.code.vocab_size,
        tolerance,
        source,
    )
    if compared.differing() and case.code.has("draft_probs"):
        compared = replace(compared, drafts=[*map(_logs, map(case.code.draft_row, contexts))])
    return compared.fault(Sampling())


def _logs(row: Floats) -> dict[Token, float]:
    with np.errstate(divide="ignore"):
        return dict(enumerate(np.log(row).tolist()))


def _end_fault(report: Report, case: Case, most: int) -> str:
    """Say what is wrong with the end of a completion or with its reason, "" if nothing is."""
    count, endings = len(report.tokens), case.code.endings
    ends = [end for end in range(1, count + 1) if is_ended(report.tokens[:end], endings)]
    if ends and ends[0] < count:
        return f"a completion goes on for {count - ends[0]} tokens after its end"
    if not ends and count < most:
        return f"a completion ended after {count} of {most} tokens, and not with what ends one"
    if report.reason == "stop" and not ends:
        return f"the reason is 'stop', but token {count} of {most} ends nothing: it is the limit"
    if report.reason == "length" and ends and count < most:
        return f"the reason is 'length', but a completion of {count} of {most} tokens ended with a stop"
    return ""
