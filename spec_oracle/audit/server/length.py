"""The check `length` of servers: the counts of drafted and accepted tokens are possible.

Nothing is known of the drafter, so no distribution of the accepted length is declared.
"""

from spec_oracle.audit import effort
from spec_oracle.audit.context import Context
from spec_oracle.audit.results import CheckResult, How, failed, not_asked, passed
from spec_oracle.audit.server.subject import ServerSubject


def length(subject: ServerSubject, context: Context) -> CheckResult:
    """Judge the counts that came with the completions of `joint`; a call emits one more than it accepts."""
    del context
    completions = subject.completions
    if not completions.found:
        completions.sample(effort.SERVER_PILOT)
    if completions.drafts.accepted is None:
        return not_asked("the server does not report accepted tokens with its completions")
    draws = len(completions.found)
    if completions.odd_counts:
        return failed(completions.odd_counts, draws=draws, how=How.SAMPLED)
    after_first = sum(len(tokens) - 1 for _, tokens in completions.found)
    mean = after_first / max(1, after_first - completions.drafts.accepted)
    detail = f"{completions.drafts.accepted:,.0f} tokens accepted, {mean:.3g} tokens per call"
    return passed(detail, draws=draws, how=How.SAMPLED)
