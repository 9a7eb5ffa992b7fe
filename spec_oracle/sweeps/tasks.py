"""What a sweep can compute in a cell, by name. Each takes its arguments and the cell's seed by name."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from spec_oracle.audit import AuditOptions
from spec_oracle.audit import audit as audit_of
from spec_oracle.audit.rules import named_verifier
from spec_oracle.exact import emission_law
from spec_oracle.language_models.efficiency import prompt_efficiencies
from spec_oracle.optimum import multi_path_optimum
from spec_oracle.sweeps.plan import Row
from spec_oracle.toy import Instance
from verifiers import drafting_of


def efficiency(
    *,
    seed: int,
    verifier: str,
    vocab_size: int,
    draft_length: int,
    instance: int = 0,
    optimum: bool = False,
    **kind: Any,
) -> dict[str, float]:
    """Return the exact block efficiency of a verifier on one random instance.

    ``instance`` is the seed of `Instance.random`, the same for all verifiers; ``kind`` its other arguments;
    ``optimum`` adds the most that any verifier could reach with its drafts.
    """
    del seed
    toy = Instance.random(vocab_size, draft_length, seed=instance, **kind)
    rule = named_verifier(verifier)
    law = emission_law(rule, toy)
    found = {"block_efficiency": law.block_efficiency, "total_variation": law.total_variation}
    if optimum:
        found["optimum"] = multi_path_optimum(toy, drafting=drafting_of(rule)).value
    return {name: float(value) for name, value in found.items()}


def prompt(
    *, seed: int, prompt: str, names: Sequence[str], optimum: bool, **pair: Any
) -> dict[str, list[Row]]:
    """Return the figures of the named verifiers on the tree of two language models after one prompt.

    ``pair`` names the models and sizes the tree, as in `spec_oracle.language_models.cuts.cut_instance`.
    """
    from spec_oracle.language_models.cuts import cut_instance

    del seed
    figures = prompt_efficiencies(prompt, cut_instance(prompt, **pair), names, optimum=optimum)
    return {"figures": [asdict(row) for row in figures]}


def audit(*, seed: int, subject: str, **options: Any) -> Row:
    """Return the verdict on one subject, named as for ``spec-oracle audit``; options as of `AuditOptions`.

    The false-alarm rate ``alpha`` is that of one cell.
    """
    (report,) = audit_of(subject, options=AuditOptions(**{"seed": seed, **options})).subjects
    return {
        "verdict": report.verdict.value,
        "evidence": report.evidence and report.evidence.value,
        "checks": {check.name: check.status.value for check in report.checks},
    }
