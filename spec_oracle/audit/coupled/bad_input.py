"""The check `bad-input` of coupled rules: extreme uniforms, and distributions or ids that are none.

With uniforms of exactly 0 and just under 1 every emitted token must have a positive target probability.
Broken input may be refused with an exception; what is returned instead must be tokens of the vocabulary, and
possible under every healthy target distribution. Nothing here is sampled, so one failure is proof.
"""

import warnings
from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from spec_oracle.audit import effort
from spec_oracle.audit.context import Context
from spec_oracle.audit.coupled.subject import Call, CoupledSubject, requests
from spec_oracle.audit.panel import panel
from spec_oracle.audit.results import CheckResult, How, failed, passed
from spec_oracle.audit.sampler.bad_input import broken_inputs, with_impossible_drafts
from spec_oracle.audit.sampler.one_call import outside_support
from spec_oracle.contracts import ContractError, SubjectRaisedError
from spec_oracle.errors import InvalidInputError
from spec_oracle.threads import at_most

EDGES: Final = (0.0, float(np.nextafter(1.0, 0.0)))
"""The smallest and the largest uniform that a generator of float64 returns."""


def bad_input(subject: CoupledSubject, context: Context) -> CheckResult:
    """Judge calls with extreme uniforms, and with broken input; no error rate, one call proves it."""
    rng, wrong = context.stream("coupled/bad-input"), list[str]()
    toy = panel(3, 3, subject.num_paths, context.seed)["zeros"]
    drafts, uniforms = requests(toy, effort.BAD_INPUT_REQUESTS, rng)
    healthy = with_impossible_drafts(drafts)
    count = 0
    for count, (name, call, judged) in enumerate(_cases((healthy, uniforms), rng), start=1):  # noqa: B007
        says = _complaint(subject, call, judged, may_refuse=not name.startswith("uniforms"))
        wrong += [f"{name}: {says}"] if says else []
    found: dict[str, Any] = {"draws": effort.BAD_INPUT_REQUESTS * count, "how": How.REPLAYED}
    if wrong:
        return failed("; ".join(wrong), **found)
    return passed("broken input is refused, or every emitted token has a positive probability", **found)


def _cases(healthy: Call, rng: np.random.Generator) -> Iterator[tuple[str, Call, Any]]:
    """Yield calls, and which of their requests must stay inside the target's support, None for all."""
    drafts, uniforms = healthy
    for edge in EDGES:
        extreme = np.where(rng.random(uniforms.shape) < 1 / 2, edge, uniforms)
        yield f"uniforms, half of them {edge!r}", (drafts, extreme), None
        yield f"uniforms, all of them {edge!r}", (drafts, np.full_like(uniforms, edge)), None
    for name, broken, judged in broken_inputs(drafts):
        yield name, (broken, uniforms), judged
    spoilt = uniforms.copy()
    spoilt[::4] = np.nan
    yield "NaN among uniforms", (drafts, spoilt), np.arange(drafts.batch) % 4 != 0
    yield "no uniforms for the bonus token", (drafts, uniforms[:, :, :-1]), None


def _complaint(subject: CoupledSubject, call: Call, judged: Any, *, may_refuse: bool) -> str:
    drafts, uniforms = call
    try:
        with np.errstate(all="ignore"), warnings.catch_warnings(), at_most(effort.BAD_INPUT_SECONDS):
            warnings.simplefilter("ignore")
            emissions = subject.code(drafts, uniforms)
    except (SubjectRaisedError, InvalidInputError) as error:
        return "" if may_refuse else str(error)
    except ContractError as error:
        return str(error)
    return outside_support(drafts, emissions, judged) or ""
