"""The tasks of sweeps, by name. Each takes its arguments and the cell's seed by name."""

from collections.abc import Callable, Sequence
from dataclasses import asdict

from spec_oracle.audit import AuditOptions
from spec_oracle.audit import audit as audit_of
from spec_oracle.audit.rules import named_verifier
from spec_oracle.exact import emission_law
from spec_oracle.json_data import Json
from spec_oracle.language_models.efficiency import prompt_efficiencies
from spec_oracle.optimum import multi_path_optimum
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
    num_paths: int = 1,
    kind: str = "dirichlet",
    concentration: float = 1.0,
    agreement: float = 0.0,
) -> dict[str, float]:
    """Return the exact block efficiency of a verifier on one random instance.

    ``instance`` is the seed of `Instance.random`, the same for all verifiers, and what follows ``optimum``
    its other arguments; ``optimum`` adds the most that any verifier could reach with its drafts.
    """
    del seed
    toy = Instance.random(
        vocab_size,
        draft_length,
        seed=instance,
        num_paths=num_paths,
        kind=kind,
        concentration=concentration,
        agreement=agreement,
    )
    rule = named_verifier(verifier)
    law = emission_law(rule, toy)
    found = {"block_efficiency": law.block_efficiency, "total_variation": law.total_variation}
    if optimum:
        found["optimum"] = multi_path_optimum(toy, drafting=drafting_of(rule)).value
    return {name: float(value) for name, value in found.items()}


def prompt(
    *,
    seed: int,
    prompt: str,
    names: Sequence[str],
    optimum: bool,
    target: str,
    draft: str,
    device: str = "cpu",
    **sizes: object,
) -> dict[str, Json]:
    """Return the figures of the named verifiers on the tree of two language models after one prompt.

    The models are named, and ``sizes`` of the tree given, as in `spec_oracle.language_models.cuts`.
    """
    from spec_oracle.language_models.cuts import cut_instance

    del seed
    instance = cut_instance(prompt, target=target, draft=draft, device=device, **sizes)
    figures = prompt_efficiencies(prompt, instance, names, optimum=optimum)
    return {"figures": [asdict(row) for row in figures]}


def audit(*, seed: int, subject: str, **options: object) -> dict[str, Json]:
    """Return the verdict on one subject, named as for ``spec-oracle audit``; options as of `AuditOptions`.

    The false-alarm rate ``alpha`` is that of one cell.
    """
    made: Callable[..., AuditOptions] = AuditOptions  # which validates its fields itself
    (report,) = audit_of(subject, options=made(**{"seed": seed, **options})).subjects
    return {
        "verdict": report.verdict.value,
        "evidence": report.evidence and report.evidence.value,
        "checks": {check.name: check.status.value for check in report.checks},
    }
