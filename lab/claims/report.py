"""Decided claims as a Markdown page and as JSON."""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from lab.claims import Claim, Ruling
from spec_oracle.report.table import markdown_table
from spec_oracle.toy import Instance

Groups: TypeAlias = Mapping[str, Sequence[Claim]]

HEAD = ("claim", "source", "verdict", "exact figures", "instance")

PREAMBLE = """# Claims, decided exactly

Made by `python -m lab.claims --output docs/evidence/claims.md`; edit the claims, not this page.

Each claim is put to small instances in a fixed order, from small to large. Every figure is a fraction,
computed by enumerating drafts and decisions of the verifier itself in rationals, for coupled drafts by
integrating their races exactly; optima come with a certificate that was checked without a solver. *Refuted*
and *proved* rest on the instance shown, the first that decides: all before it in its family speak the other
way. *Holds* is evidence, not proof: no instance of the family speaks against the claim.

p and q are the rows of target and draft, L the draft length, V the vocabulary size, K the number of paths.
Block efficiencies are in tokens per call; GBV is greedy multi-path block verification. A source that reads
"rule" names the rule that the claim is about, not an author of the claim. Where a source is a file of a
repository, the rule is what that file computed at that commit, written again in `lab/claims/published.py`.
"""


def to_markdown(groups: Groups) -> str:
    """Return one table a group, and the list of the families that were searched."""
    claims = [claim for decided in groups.values() for claim in decided]
    label = {
        family: f"F{i}"
        for i, family in enumerate(dict.fromkeys(c.question.family.name for c in claims), start=1)
    }
    parts = [PREAMBLE]
    for heading, decided in groups.items():
        table = markdown_table(HEAD, [_cells(claim, label[claim.question.family.name]) for claim in decided])
        parts.append(f"## {heading}\n\n{table}\n")
    families = "\n".join(f"* **{name}**: {family}" for family, name in label.items())
    parts.append(f"## Families of instances\n\n{families}\n")
    return "\n".join(parts)


def _cells(claim: Claim, family: str) -> tuple[str, ...]:
    return (
        claim.question.statement,
        claim.question.source,
        _verdict(claim, family),
        "<br>".join(f"{name}: {value}" for name, value in claim.figures.items()),
        "" if claim.instance is None else instance_text(claim.instance),
    )


def _verdict(claim: Claim, family: str) -> str:
    return {
        Ruling.HOLDS: f"**holds** on all {claim.tried} instances of {family}",
        Ruling.PROVED: f"**proved** on this instance, number {claim.tried} of {family}",
        Ruling.REFUTED: f"**refuted** by this instance, number {claim.tried} of {family}",
        Ruling.UNDECIDED: f"**undecided**: none among the {claim.tried} instances of {family}",
    }[claim.verdict]


def instance_text(instance: Instance) -> str:
    """Return an instance in one line: its rows where they are the same after every context, else its file."""
    models = (instance.target, instance.draft)
    if not all((level == model.levels[0]).all() for model in models for level in model.levels):
        return f"`{json.dumps(instance.to_json())}`"
    p, q = (", ".join(map(str, model.levels[0][0])) for model in models)
    return f"p = ({p}), q = ({q}) after every context, L = {instance.draft_length}, K = {instance.num_paths}"


def to_json(groups: Groups) -> list[dict[str, Any]]:
    """Return the claims as JSON data; instances as in instance files, figures as strings "a/b"."""
    return [
        {
            "group": heading,
            "statement": claim.question.statement,
            "source": claim.question.source,
            "verdict": claim.verdict.value,
            "instances_tried": claim.tried,
            "family": claim.question.family.name,
            "figures": {name: str(value) for name, value in claim.figures.items()},
            "instance": None if claim.instance is None else claim.instance.to_json(),
        }
        for heading, decided in groups.items()
        for claim in decided
    ]


FORMATS: dict[str, Callable[[Groups], str]] = {
    "markdown": to_markdown,
    "json": lambda groups: json.dumps(to_json(groups), indent=1, ensure_ascii=False) + "\n",
}
