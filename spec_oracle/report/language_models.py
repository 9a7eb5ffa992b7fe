"""Exact block efficiency of verifiers on cuts of real language models, averaged over prompts."""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

import verifiers
from spec_oracle.errors import InvalidInputError, SpecOracleError
from spec_oracle.exact import emission_law
from spec_oracle.exact.call import enumerated_instance
from spec_oracle.optimum import ProvenBound, proven_bound
from spec_oracle.parallel import side_by_side
from spec_oracle.report.numbers import plain, short
from spec_oracle.report.table import markdown_table, text_table
from spec_oracle.toy import Instance
from verifiers import AnyVerifier, Drafting, ModelBound, StatefulVerifier, drafting_of

MAX_PLAN_TUPLES = 5_000
"""A rule for whole toy models solves a transport plan over all draft trees: minutes from here on. It is left
out, and named, where there are more draft tuples."""

MAX_TEXT_LAW_TUPLES = 1_000_000
"""A rule that carries a state is judged on the text of several calls: from every text that is not long enough
yet, all draft tuples again. Past so many of them together its total variation is left out; its tokens per
call are those of the first call."""

TOLERANCE = 1e-9
"""How far rounding may lift a block efficiency, in tokens, above the proven bound."""


@dataclass(frozen=True)
class PromptEfficiency:
    """One verifier after one prompt: ``block_efficiency`` and ``optimum`` in tokens per call.

    ``total_variation`` of the law of L+1 tokens to the target's, None where its enumeration is too large;
    ``optimum`` of the verifier's drafting law, with carry-over where it carries, None where not asked for.
    """

    prompt: str
    verifier: str
    block_efficiency: float
    total_variation: float | None
    optimum: ProvenBound | None


@dataclass(frozen=True)
class PairEfficiency:
    """Figures of a pair of models, verifier by verifier after each prompt; ``left_out`` says what and why."""

    title: str
    rows: tuple[PromptEfficiency, ...]
    left_out: tuple[str, ...] = ()

    @property
    def verifiers(self) -> tuple[str, ...]:
        """Their names, in order."""
        return tuple(dict.fromkeys(row.verifier for row in self.rows))

    def of(self, verifier: str) -> list[PromptEfficiency]:
        """Return the figures of one verifier."""
        return [row for row in self.rows if row.verifier == verifier]


def prompts_of(path: Path) -> list[str]:
    """Return the lines of a prompt file that are not blank; raises `InvalidInputError` without any."""
    try:
        prompts = [line for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInputError(f"{path}: cannot be read: {error}") from None
    if not prompts:
        raise InvalidInputError(f"{path}: no prompts")
    return prompts


def pair_efficiency(
    title: str,
    instances: Iterable[tuple[str, Instance]],
    names: Sequence[str],
    *,
    optimum: bool,
    jobs: int,
    progress: Callable[[str], None],
) -> PairEfficiency:
    """Enumerate the named verifiers on the instance of every prompt, in float64, in ``jobs`` processes.

    Raises `SpecOracleError` if a verifier exceeds its optimum: then one of the two is wrong.
    """
    work = partial(_prompt_efficiencies, names=names, optimum=optimum)
    rows: list[PromptEfficiency] = []
    # With several jobs the next prompts are cut here while the first are enumerated there.
    for number, part in enumerate(side_by_side(work, instances, jobs), start=1):
        rows += part
        progress(f"{number}: {part[0].prompt!r}")
    missing = [name for name in names if name not in {row.verifier for row in rows}]
    left_out = tuple(f"{name}: its plan spans more than {MAX_PLAN_TUPLES:,} draft tuples" for name in missing)
    return PairEfficiency(title, tuple(rows), left_out)


def _prompt_efficiencies(
    cut: tuple[str, Instance], names: Sequence[str], *, optimum: bool
) -> list[PromptEfficiency]:
    return prompt_efficiencies(*cut, names, optimum=optimum)


def prompt_efficiencies(
    prompt: str, instance: Instance, names: Sequence[str], *, optimum: bool
) -> list[PromptEfficiency]:
    """Enumerate the named verifiers on one instance."""
    bounds: dict[tuple[Drafting, bool], ProvenBound] = {}
    rows = []
    for name in names:
        verifier = verifiers.get(name)
        if isinstance(verifier, ModelBound) and _draft_tuples(instance) > MAX_PLAN_TUPLES:
            continue
        key = (drafting_of(verifier), isinstance(verifier, StatefulVerifier))
        if optimum and key not in bounds:
            bounds[key] = proven_bound(instance, drafting=key[0], carry_over=key[1])
        law = emission_law(verifier, instance)
        row = PromptEfficiency(
            prompt,
            name,
            float(law.block_efficiency),
            float(law.total_variation) if _text_law_fits(verifier, instance) else None,
            bounds.get(key),
        )
        if row.optimum is not None and row.block_efficiency > row.optimum.bound + TOLERANCE:
            raise SpecOracleError(
                f"{prompt!r}: {name} emits {row.block_efficiency} tokens a call, "
                f"more than its proven bound {row.optimum.bound}"
            )
        rows.append(row)
    return rows


def _text_law_fits(verifier: AnyVerifier, instance: Instance) -> bool:
    if not isinstance(verifier, StatefulVerifier):
        return True
    numbers = enumerated_instance(verifier, instance)
    texts = sum(numbers.vocab_size**length for length in range(numbers.draft_length + 1))
    return bool(texts * _draft_tuples(numbers) <= MAX_TEXT_LAW_TUPLES)


def _draft_tuples(instance: Instance) -> int:
    """Return how many draft tuples there are at most."""
    levels = instance.draft.levels[: instance.draft_length]
    widest = [int((level > 0).sum(axis=1).max()) for level in levels]
    most: int = prod(widest) ** instance.num_paths
    return most


HEAD = ("verifier", "tokens/call", "least", "most", "optimum", "headroom", "largest TV")


def _cells(result: PairEfficiency) -> Iterator[tuple[str, ...]]:
    """Yield a row a verifier: mean, least and most over prompts, the mean optimum, the largest TV."""
    for name in result.verifiers:
        mine = result.of(name)
        figures = np.array([row.block_efficiency for row in mine])
        bounds = [row.optimum.bound for row in mine if row.optimum is not None]
        distances = [row.total_variation for row in mine if row.total_variation is not None]
        yield (
            name,
            f"{figures.mean():.4f}",
            f"{figures.min():.4f}",
            f"{figures.max():.4f}",
            f"{np.mean(bounds):.4f}" if bounds else "-",
            # Rounding may leave a headroom of -1e-13 %; adding zero takes the sign from "-0.000".
            f"{round(100 * (1 - figures.mean() / np.mean(bounds)), 3) + 0.0:.3f} %" if bounds else "-",
            short(max(distances), 2) if distances else "not enumerated",
        )


def _notes(result: PairEfficiency) -> str:
    """Say how far the proven bounds may lie above the optima, and what is missing."""
    gaps = [row.optimum.gap for row in result.rows if row.optimum is not None]
    notes = [f"Left out: {reason}." for reason in result.left_out]
    if gaps:
        notes.insert(0, f"Optimum: a proven bound, attained to {short(max(gaps), 2)} tokens on every prompt.")
    return "".join(f"\n{note}\n" for note in notes)


def to_text(result: PairEfficiency) -> str:
    """Return the title, an aligned table, and notes."""
    table = text_table(HEAD, list(_cells(result)), right=range(1, 7))
    return f"{result.title}\n\n{table}\n{_notes(result)}"


def to_markdown(result: PairEfficiency) -> str:
    """Return the title, a Markdown table, and notes."""
    return f"{result.title}\n\n{markdown_table(HEAD, list(_cells(result)))}\n{_notes(result)}"


def to_json(result: PairEfficiency) -> list[dict[str, Any]]:
    """Return the figures, one entry a prompt and verifier."""
    return [
        {
            "prompt": row.prompt,
            "verifier": row.verifier,
            "block_efficiency": plain(row.block_efficiency),
            "total_variation": plain(row.total_variation),
            "optimum": plain(None if row.optimum is None else row.optimum.bound),
        }
        for row in result.rows
    ]


FORMATS: dict[str, Callable[[PairEfficiency], str]] = {
    "text": to_text,
    "markdown": to_markdown,
    "json": lambda result: json.dumps(to_json(result), indent=1) + "\n",
}
