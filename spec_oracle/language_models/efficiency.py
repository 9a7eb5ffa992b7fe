"""Exact block efficiency of verifiers on cuts of real language models, prompt by prompt."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from spec_oracle.audit.subjects import named_verifier
from spec_oracle.errors import SpecOracleError
from spec_oracle.exact import emission_law
from spec_oracle.exact.call import enumerated_instance
from spec_oracle.exact.drafting import num_tuples
from spec_oracle.optimum import ProvenBound, proven_bound
from spec_oracle.toy import Instance
from verifiers import AnyVerifier, ModelBound, Siblings, StatefulVerifier, drafting_of

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
    ``optimum`` a proven bound for the verifier's drafting law, with carry-over where it carries, at most
    ``gap`` above what can be attained; None where not asked for.
    """

    prompt: str
    verifier: str
    block_efficiency: float
    total_variation: float | None
    optimum: float | None
    gap: float | None


@dataclass(frozen=True)
class Summary:
    """One verifier over all prompts: ``mean``, ``least`` and ``most`` tokens per call.

    ``optimum``, the mean one, and the share ``headroom`` by which the mean stays below it: None where optima
    were not asked for; ``largest_tv`` None where no law of a text was enumerated.
    """

    verifier: str
    mean: float
    least: float
    most: float
    optimum: float | None
    headroom: float | None
    largest_tv: float | None


@dataclass(frozen=True)
class PairEfficiency:
    """Figures of a pair of models, verifier by verifier after each prompt; ``left_out`` says what and why.

    Those of ``carrying`` verifiers, which keep a state, are of their first call after a prompt.
    """

    title: str
    rows: tuple[PromptEfficiency, ...]
    left_out: tuple[str, ...] = ()
    carrying: tuple[str, ...] = ()

    def summaries(self) -> list[Summary]:
        """Return the figures over all prompts, verifier by verifier."""
        by_name: dict[str, list[PromptEfficiency]] = {}
        for row in self.rows:
            by_name.setdefault(row.verifier, []).append(row)
        return [_summary(name, rows) for name, rows in by_name.items()]


def _summary(name: str, rows: Sequence[PromptEfficiency]) -> Summary:
    tokens = [row.block_efficiency for row in rows]
    bounds = [row.optimum for row in rows if row.optimum is not None]
    mean, best = fmean(tokens), fmean(bounds) if bounds else None
    headroom = None if best is None else 1 - mean / best
    largest = max((row.total_variation for row in rows if row.total_variation is not None), default=None)
    return Summary(name, mean, min(tokens), max(tokens), best, headroom, largest)


def pair_efficiency(title: str, names: Sequence[str], cells: Iterable[Mapping[str, Any]]) -> PairEfficiency:
    """Return the figures of the named verifiers from the rows of a sweep over prompts."""
    rows = [PromptEfficiency(**figures) for cell in cells for figures in cell["figures"]]
    known = {row.verifier for row in rows}
    missing = [name for name in names if name not in known]
    carrying = tuple(name for name in names if name in known and _carries_state(name))
    left_out = tuple(f"{name}: its plan spans more than {MAX_PLAN_TUPLES:,} draft tuples" for name in missing)
    return PairEfficiency(title, tuple(rows), left_out, carrying)


def _carries_state(name: str) -> bool:
    return isinstance(named_verifier(name), StatefulVerifier)


def prompt_efficiencies(
    prompt: str, instance: Instance, names: Sequence[str], *, optimum: bool
) -> list[PromptEfficiency]:
    """Enumerate the named verifiers on one instance, in float64.

    Raises `SpecOracleError` if a verifier exceeds its optimum: then one of the two is wrong.
    """
    bounds: dict[tuple[Siblings, bool], ProvenBound] = {}
    rows = []
    for name in names:
        verifier = named_verifier(name)
        if isinstance(verifier, ModelBound) and _draft_tuples(instance) > MAX_PLAN_TUPLES:
            continue
        key = (drafting_of(verifier), isinstance(verifier, StatefulVerifier))
        if optimum and key not in bounds:
            bounds[key] = proven_bound(instance, drafting=key[0], carry_over=key[1])
        law = emission_law(verifier, instance)
        best, tokens = bounds.get(key), float(law.block_efficiency)
        if best is not None and tokens > best.bound + TOLERANCE:
            raise SpecOracleError(
                f"{prompt!r}: {name} emits {tokens} tokens a call, more than its proven bound {best.bound}"
            )
        found = float(law.total_variation) if _text_law_fits(verifier, instance) else None
        bound, gap = (None, None) if best is None else (best.bound, best.gap)
        rows.append(PromptEfficiency(prompt, name, tokens, found, bound, gap))
    return rows


def _text_law_fits(verifier: AnyVerifier, instance: Instance) -> bool:
    if not isinstance(verifier, StatefulVerifier):
        return True
    numbers = enumerated_instance(verifier, instance)
    texts = sum(numbers.vocab_size**length for length in range(numbers.draft_length + 1))
    return bool(texts * _draft_tuples(numbers) <= MAX_TEXT_LAW_TUPLES)


def _draft_tuples(instance: Instance) -> int:
    levels = [instance.draft.rows(length) for length in range(instance.draft_length)]
    return num_tuples(levels, instance.num_paths)
