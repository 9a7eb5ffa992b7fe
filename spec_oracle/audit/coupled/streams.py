"""The check `streams` of coupled rules: the same drafts and uniforms lead to the same tokens.

All randomness of a coupled rule is that of its uniforms. A call is repeated, at once and after calls on other
requests; randomness of its own, or something kept from other calls, would change what it emits.
"""

import numpy as np

from spec_oracle.audit import effort
from spec_oracle.audit.context import Context
from spec_oracle.audit.coupled.reference import said
from spec_oracle.audit.coupled.subject import CoupledSubject, requests
from spec_oracle.audit.panel import instances_for
from spec_oracle.audit.results import CheckResult, How, failed, passed
from spec_oracle.contracts import Emissions


def streams(subject: CoupledSubject, context: Context) -> CheckResult:
    """Repeat the calls on every instance in turn, each of them twice in a row."""
    rng, instances = context.stream("coupled/streams"), instances_for(context, subject.num_paths)
    called = {name: requests(one, effort.COUPLED_BATCHES[-1], rng) for name, one in instances.items()}
    first = dict[str, Emissions]()
    for name, call in [pair for pair in called.items() for _ in range(2)] + [*called.items()]:
        found = subject.code(*call)
        before = first.setdefault(name, found)
        if (moved := (before.tokens != found.tokens).any(axis=1)).any():
            one = int(np.argmax(moved))
            both = f"{said(before, one)} in one call, and {said(found, one)} in another"
            detail = f"with the same drafts and uniforms, request {one} of {name!r} emits {both}"
            return failed(detail, how=How.REPLAYED)
    return passed("same tokens with the same uniforms, before and after other calls", how=How.REPLAYED)
