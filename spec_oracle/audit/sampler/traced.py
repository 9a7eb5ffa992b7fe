"""Exact laws of samplers by tracing their random numbers, confirmed by uninstrumented samples."""

import time
from dataclasses import replace
from functools import partial
from typing import Final

from spec_oracle.audit.context import Context
from spec_oracle.audit.draws import confirmed_by_samples
from spec_oracle.audit.exact_comparison import judge_laws
from spec_oracle.audit.instances import instances_for
from spec_oracle.audit.results import CheckResult, NoEvidenceError
from spec_oracle.audit.sampler.branch_tracing import require_alike
from spec_oracle.audit.sampler.confirm import confirm_breach, confirmed_claim, require_decisions
from spec_oracle.audit.sampler.subject import SamplerSubject
from spec_oracle.audit.sampler.tracer import Known, law_after, laws_after, traced_law
from spec_oracle.audit.streams import stream
from spec_oracle.contracts import ContractError, ImpossibleOutputError, SubjectRaisedError
from spec_oracle.exact import EmissionLaw
from spec_oracle.exact.interception import NotTracedError

CONFIRMING_SHARE: Final = 0.05  # Share of the budget that these samples may take.


def traced(subject: SamplerSubject, context: Context, rate: float) -> CheckResult:
    """Trace the sampler's random numbers on every instance, then compare with uninstrumented samples.

    Raises `NoEvidenceError` where the law would not be exact, where the code raises while it is traced, and
    where samples contradict what was found. A defect is confirmed at its own size before it is one.
    """
    code, facts, end = subject.code, subject.facts, time.process_time() + context.budget
    instances, failure, is_output = instances_for(context, subject.num_paths), "", True
    known: Known = {}
    laws: dict[str, EmissionLaw] = {}
    try:
        for name, instance in instances.items():
            laws[name] = traced_law(code, instance, known, end=end)
    except ContractError as error:
        confirm_breach(code, error, replace(context, rate=rate))
        failure = f"instance {[*instances][len(laws)]!r}: {error}"
        is_output = isinstance(error, ImpossibleOutputError)
    except (NotTracedError, SubjectRaisedError) as error:
        instead = "the declared bound is not decided" if facts.bound else "sampled instead"
        raise NoEvidenceError(f"could not trace the random numbers, {instead}: {error}") from None
    # Whoever needs more laws limits the time.
    anywhere = partial(traced_law, code, known=known)
    after = partial(laws_after, code, known=known)
    found = judge_laws(laws, instances, facts, anywhere, how="traced", failure=failure, after=after)
    if not is_output and found.findings is not None and found.findings.worst is None:
        found = replace(found, breaks_contract=True)
    if not laws:
        return found
    if not failure and found.findings and (worst := found.findings.worst):
        require_decisions([*known.values()], [*laws.values()])
        line = confirmed_claim(
            subject, laws[worst], context, rate, partial(traced_law, code, instances[worst])
        )
    else:
        require_alike(
            code, next(iter(instances.values())), stream(context.seed, "sampler/joint/watched"), law_after
        )
        seconds = CONFIRMING_SHARE * context.budget
        line = confirmed_by_samples(code, laws, rate, context.seed, seconds)
    return replace(found, scope=(*found.scope, line))
