"""The check `joint` of verifiers: the output distribution of one call, every random decision enumerated.

A verifier takes each decision from a source; the source runs every outcome with its probability.
"""

from dataclasses import replace

from spec_oracle.audit.context import Context
from spec_oracle.audit.exact_comparison import judge_laws
from spec_oracle.audit.instances import instances_for
from spec_oracle.audit.results import CheckResult
from spec_oracle.audit.rule.subject import VerifierSubject
from spec_oracle.exact import DecisionError, EmissionLaw, VerdictError, emission_law
from spec_oracle.threads import raising
from spec_oracle.toy import Instance


def joint(subject: VerifierSubject, context: Context) -> CheckResult:
    """Run every outcome of every decision on every instance; in rationals where the context is exact."""

    def law_of(instance: Instance, *, exact: bool = context.exact) -> EmissionLaw:
        with raising():
            array = "numpy" if exact else context.array
            return emission_law(subject.verifier, instance, exact=exact, array=array, merged=False)

    facts = replace(subject.facts, tolerance=0.0) if context.exact else subject.facts
    instances, failure = instances_for(context, subject.num_paths), ""
    laws: dict[str, EmissionLaw] = {}
    try:
        for name, instance in instances.items():
            laws[name] = law_of(instance)
    except (DecisionError, VerdictError) as error:
        failure = f"instance {[*instances][len(laws)]!r}: {error}"
    return judge_laws(laws, instances, facts, law_of, how="enumerated", failure=failure)
