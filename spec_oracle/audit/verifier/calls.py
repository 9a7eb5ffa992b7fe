"""The check `calls`: the tokens of several calls are distributed as the target's.

The distribution over several calls is enumerated, a state that is carried over and a stop token included.
"""

from functools import partial
from typing import Any

from spec_oracle.audit.context import Context
from spec_oracle.audit.panel import instances_for, panel
from spec_oracle.audit.results import CheckResult, How, failed, passed
from spec_oracle.audit.verifier.subject import VerifierSubject
from spec_oracle.exact import DecisionError, VerdictError, decoded_law


def calls(subject: VerifierSubject, context: Context) -> CheckResult:
    """Enumerate the text of several calls, carried state and a stop token included."""
    paths = next(iter(instances_for(context, subject.num_paths).values())).num_paths
    instance = panel(2, 2, paths, context.seed)["good-draft"]
    tokens = 2 * instance.draft_length + 1
    how: dict[str, Any] = {"exact": context.exact, "array": "numpy" if context.exact else context.array}
    law = partial(decoded_law, subject.verifier, instance, tokens, **how)
    try:
        worst = max(law(stop_token=stop).total_variation for stop in (None, 0))
    except (DecisionError, VerdictError) as error:
        return failed(str(error))
    found: dict[str, Any] = {"total_variation": float(worst), "how": How.PROVEN}
    if worst > (0 if context.exact else subject.facts.tolerance):
        return failed(f"total variation {float(worst):.3g} of {tokens} tokens", **found)
    size = "exactly 0" if context.exact else f"at most {float(worst):.1e}"
    return passed(f"total variation of the first {tokens} tokens {size}", **found)
