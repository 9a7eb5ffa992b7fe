"""Exact and statistical answers: is a speculative-decoding verifier lossless, and how near the optimum.

The names below are imported when they are first used, so that `import spec_oracle` stays quick:

    spec_oracle.audit(my_verify)                         # is it lossless?
    spec_oracle.emission_law(rule, instance)             # the exact distribution of one call
    spec_oracle.efficiencies("toy", instance, ["block"]) # tokens per call, beside the optimum
"""

from importlib import import_module
from typing import Any

_WHERE = {
    "AuditOptions": "spec_oracle.audit",
    "Instance": "spec_oracle.toy",
    "efficiencies": "spec_oracle.efficiency",
    "emission_law": "spec_oracle.exact",
}
"""Names of this package, and where each is defined; `audit` is a package that can be called."""

__all__ = ["AuditOptions", "Instance", "audit", "efficiencies", "emission_law"]


def __getattr__(name: str) -> Any:
    if name == "audit":
        return import_module("spec_oracle.audit")
    if name in _WHERE:
        return getattr(import_module(_WHERE[name]), name)
    raise AttributeError(f"module 'spec_oracle' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
