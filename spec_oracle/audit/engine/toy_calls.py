"""The check `calls`: is the text of several calls the target's? No call remembers or repeats another one."""

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from spec_oracle.audit.context import Context, first_failure
from spec_oracle.audit.engine.toy_joint import law_of_texts as law_of_system_texts
from spec_oracle.audit.engine.toy_subject import SystemSubject
from spec_oracle.audit.engine.toy_texts import decoded, unseeded
from spec_oracle.audit.results import CheckResult, passed
from spec_oracle.audit.sampler.dependence import Design, independent, sessions
from spec_oracle.contracts.steps import System
from spec_oracle.toy import Instance

CHAINS = (Design((4,), 151), Design((1, 2, 16, 33), 151))
"""Chains of 302 calls, of one batch size and of several in turn, as engines keep graphs for each size."""


STEPS = Design((4,), 1009, row="request", column="step")
"""Steps of a session, two tokens each at most: systems on toys know contexts of eight."""


MEMORYLESS = Instance.context_free(
    [Fraction(n, 64) for n in (19, 21, 24)], [Fraction(n, 64) for n in (28, 20, 16)], draft_length=1
).floats


SYSTEM_TOKENS = 4
"""Tokens of a system's text: two calls reach that far on toys of draft length 2."""


# WAY @CALLS.way(SystemSubject)
def calls(subject: SystemSubject, context: Context) -> CheckResult:
    """Judge text over several calls, then sessions one after another, and many steps of one session."""
    factory = subject.factory
    toys = subject.toys(context)
    return first_failure(
        alpha,
        lambda rate: law_of_system_texts(
            factory,
            toys,
            tokens=SYSTEM_TOKENS,
            steps=2,
            what="the law of two calls",
            alpha=rate,
            seed=context.seed,
        ),
        lambda rate: independent(sessions(factory(toys["flat"], context.seed)), CHAINS, rate),
        lambda rate: _steps(factory(MEMORYLESS, context.seed), rate),
    )


def _steps(system: System, alpha: float) -> CheckResult:
    """Judge whether steps of a session are independent, where no text ends and no context matters."""
    if system.stop_token is not None or system.max_tokens is not None:
        return passed("texts end, so that steps do depend on each other")

    def draw(design: Design) -> NDArray[np.int64]:
        requests = 2 * design.half
        _, steps = decoded(system, system.start(unseeded(requests)), requests, *design.sizes)
        return np.stack([step.tokens for step in steps], axis=1)

    return independent(draw, [STEPS], alpha)
