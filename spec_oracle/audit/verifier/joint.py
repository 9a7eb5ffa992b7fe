"""The check `joint` of verifiers: every decision is enumerated."""

from dataclasses import replace

from spec_oracle.audit.context import Context
from spec_oracle.audit.laws import judge_laws
from spec_oracle.audit.results import CheckResult
from spec_oracle.audit.verifier.subject import VerifierSubject
from spec_oracle.contracts import raising
from spec_oracle.exact import EmissionLaw, emission_law
from spec_oracle.toy import Instance


def joint(subject: VerifierSubject, context: Context) -> CheckResult:
    """Run every outcome of every decision on every instance; in rationals where the context is exact."""

    def law_of(instance: Instance, *, exact: bool = context.exact) -> EmissionLaw:
        with raising():
            array = "numpy" if exact else context.array
            return emission_law(subject.verifier, instance, exact=exact, array=array)

    facts = replace(subject.facts, tolerance=0.0) if context.exact else subject.facts
    return judge_laws(law_of, context.toys(subject.num_paths), facts, "enumerated")
