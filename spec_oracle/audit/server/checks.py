"""The checks of running servers, each with its part of the time: the budget is one for all of them."""

from collections.abc import Callable
from dataclasses import replace
from functools import wraps
from typing import TypeAlias

from spec_oracle.audit.context import Context
from spec_oracle.audit.results import CheckResult
from spec_oracle.audit.server import batch as batch_
from spec_oracle.audit.server import joint as joint_
from spec_oracle.audit.server import length as length_
from spec_oracle.audit.server import logprobs as logprobs_
from spec_oracle.audit.server import long_texts as long_texts_
from spec_oracle.audit.server import plain_law as plain_law_
from spec_oracle.audit.server import shapes as shapes_
from spec_oracle.audit.server import streams as streams_
from spec_oracle.audit.server.subject import ServerSubject

Answer: TypeAlias = Callable[[ServerSubject, Context], CheckResult]


def within_its_time(check: Answer) -> Answer:
    """Return the check as it runs in an audit: its context's budget is its own part."""

    @wraps(check)
    def answer(subject: ServerSubject, context: Context) -> CheckResult:
        seconds = subject.seconds_for(check.__name__.replace("_", "-"), context.budget)
        return check(subject, replace(context, budget=seconds))

    return answer


plain_law = within_its_time(plain_law_.plain_law)
joint = within_its_time(joint_.joint)
shapes = within_its_time(shapes_.shapes)
length = within_its_time(length_.length)
long_texts = within_its_time(long_texts_.long_texts)
logprobs = within_its_time(logprobs_.logprobs)
streams = within_its_time(streams_.streams)
batch = within_its_time(batch_.batch)
