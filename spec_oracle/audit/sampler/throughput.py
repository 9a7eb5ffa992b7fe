"""How fast a subject verifies requests, and what of a check its budget pays."""

import math
import time
from typing import Final

from spec_oracle.audit.context import Context
from spec_oracle.audit.draws import Calls
from spec_oracle.audit.instances import panel
from spec_oracle.audit.results import TooSlowError
from spec_oracle.audit.subject import CalledAsSampler
from spec_oracle.contracts import ContractError, SubjectRaisedError

PACE_REQUESTS: Final = 16  # Requests of a call that measures how fast a sampler is.
PACE_CALLS: Final = 8  # Such calls at most; the fastest counts, since other programs slow some down.
PACE_SECONDS: Final = 0.1  # Time after which no further one begins.


def pace(subject: CalledAsSampler, context: Context) -> float:
    """Return verified requests per second of the fastest of some calls: the first may compile.

    Infinite where the subject raises: the checks will say so better. It is measured once a subject and seed.
    """
    known: dict[int, float] = vars(subject).setdefault("_pace", {})
    if context.seed not in known:
        calls = Calls(subject.code, context.seed, "sampler/pace")
        instance = panel(3, 3, subject.num_paths, context.seed)["flat"]
        took: list[float] = []
        try:
            calls.completions(instance.floats, PACE_REQUESTS)
            while not took or (len(took) < PACE_CALLS and sum(took) < PACE_SECONDS):
                started = time.perf_counter()
                calls.completions(instance.floats, PACE_REQUESTS)
                took.append(time.perf_counter() - started)
            known[context.seed] = PACE_REQUESTS / max(min(took), 1e-9)
        except (ContractError, SubjectRaisedError):
            known[context.seed] = float("inf")
    return known[context.seed]


def affordable(subject: CalledAsSampler, context: Context, share: float = 1.0) -> float:
    """Return how many verified requests of a subject a share of the budget pays."""
    return share * context.budget * pace(subject, context)


def require_affordable(subject: CalledAsSampler, context: Context, least: int) -> None:
    """Raise `TooSlowError` where the budget does not pay so many requests."""
    if least > affordable(subject, context):
        raise too_slow(subject, context, least)


def too_slow(subject: CalledAsSampler, context: Context, least: int, share: float = 1.0) -> TooSlowError:
    """Return the error of a check that takes more than its ``share`` of the budget pays."""
    rate = pace(subject, context)
    seconds = least / rate
    budget = 10 * math.ceil(1.5 * seconds / share / 10)  # half as much again is allowed for
    says = f"takes {least:,} requests, about {seconds:,.1f} s at {rate:,.0f} a second; raise --budget"
    return TooSlowError(says, f"--budget {budget}")
