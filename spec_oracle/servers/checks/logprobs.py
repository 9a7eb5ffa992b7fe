"""The check `logprobs`: the log-probabilities reported of a completion are those of one-token requests.

A request for one token has nothing to speculate on. So the log-probability that is reported of each token of
a completion must be the one that a one-token request reports after the same tokens: up to rounding, and up to
what equal requests differ by anyway. Nothing is estimated, so one completion decides.
"""

from functools import partial
from typing import Final

from spec_oracle.audit import effort
from spec_oracle.audit.context import Context
from spec_oracle.audit.logprobs import ReportedLogprobs
from spec_oracle.audit.results import CheckResult, How, Status, check_result, failed, not_asked
from spec_oracle.contracts.completion import Completion
from spec_oracle.servers.checks.distributions import Distributions
from spec_oracle.servers.checks.scores import wrong_scores
from spec_oracle.servers.checks.subject import NEEDS_PROBABILITIES, ServerSubject
from spec_oracle.servers.contract import Ask, OutOfTimeError, prefixes_of

# Completions after each prompt whose log-probabilities are compared with those of one-token requests.
SERVER_LOGPROBS: Final = 3


def logprobs(subject: ServerSubject, context: Context) -> CheckResult:
    """Compare log-probabilities of completions after each prompt, token by token, with one-token requests."""
    del context
    server, reported = subject.server, subject.distributions
    if not server.listed:
        return not_asked(NEEDS_PROBABILITIES)
    length, tokens, drafted, completions = effort.SERVER_LONGER * subject.plan.tokens, 0, 0, 0
    try:
        for number in list(range(len(server.prompts))) * SERVER_LOGPROBS:
            (answer,) = server.complete([Ask(server.prompts[number], length, listed=server.listed)])
            reading = compared(answer, number, reported)
            if fault := reading.fault(server.sampling):
                drafts = f"; {answer.accepted} accepted drafts" if answer.accepted is not None else ""
                return failed(f"{fault}{drafts}", draws=completions + 1, how=How.SAMPLED)
            tokens, completions = tokens + len(answer.tokens), completions + 1
            drafted += answer.drafted or 0
            server.tell("logprobs", completions, len(server.prompts) * SERVER_LOGPROBS)
        if wrong := wrong_scores(reported):
            do = "score such prompts by requests for one token, or correct the scores"
            return failed(wrong, draws=completions, how=How.SAMPLED, do=do)
    except OutOfTimeError:
        if not completions:
            raise
    detail = (
        f"{tokens:,} log-probabilities of {completions:,} completions equal those of one-token requests, "
        f"up to {reading.tolerance:.2g} nats"
    )
    if not drafted and subject.completions.drafts.drafted:
        detail += "; the server drafts nothing where log-probabilities are asked for"
    say = partial(check_result, draws=completions, how=How.SAMPLED)
    if reading.tolerance > effort.SERVER_LOGPROBS_COARSEST:
        return say(Status.INCONCLUSIVE, f"{detail}; {reported.uncertainty}")
    return say(Status.PASSED, detail)


def compared(completion: Completion, number: int, distributions: Distributions) -> ReportedLogprobs:
    """Compare a completion with one-token requests; ask again where they differ: noise may be the cause."""
    prefixes = prefixes_of((number, completion.tokens))
    allowed = distributions.tolerance

    def asked() -> ReportedLogprobs:
        distributions.fetch(prefixes)
        logs = [distributions.logs[prefix] or {} for prefix in prefixes]
        return ReportedLogprobs(completion, logs, distributions.server.listed, allowed)

    for place in asked().differing():
        distributions.logs.pop(prefixes[place], None)
    return asked()
