"""The check `length`: the accepted length has the law of the declared rule.

Losslessness does not fix how much is accepted: a rule that was switched off, or a drafter that reads a
spoilt cache, shows nowhere else.
"""

from spec_oracle.audit.context import Context
from spec_oracle.audit.results import CheckResult, Status, failed, passed
from spec_oracle.audit.server.served import FIRST_LOOK
from spec_oracle.audit.server.subject import ServerSubject


# WAY @LENGTH.way(ServerSubject)
def length(subject: ServerSubject, context: Context) -> CheckResult:
    """Judge whether the counts of drafts that came with the texts of `joint` are possible.

    Nothing is known of the drafter, so no law is declared. A call emits one token more than it accepts.
    """
    del context, alpha
    texts = subject.served.texts
    if not texts.found:
        texts.draw(FIRST_LOOK)
    if texts.drafts.accepted is None:
        return CheckResult(
            "", Status.NOT_APPLICABLE, "the server does not report accepted tokens with its texts"
        )
    if texts.odd_counts:
        return failed(texts.odd_counts, draws=len(texts.found))
    after_first = sum(len(tokens) - 1 for _, tokens in texts.found)
    mean = after_first / max(1, after_first - texts.drafts.accepted)
    return passed(
        f"{texts.drafts.accepted:.0f} tokens accepted: {mean:.3g} tokens a call", draws=len(texts.found)
    )
