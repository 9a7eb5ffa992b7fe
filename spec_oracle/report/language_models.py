"""Exact block efficiency of verifiers on cuts of real language models, averaged over prompts."""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

import verifiers
from spec_oracle.errors import InvalidInputError
from spec_oracle.exact import emission_law
from spec_oracle.optimum import multi_path_optimum
from spec_oracle.report.numbers import plain, short
from spec_oracle.report.table import markdown_table, text_table
from spec_oracle.toy import Instance
from verifiers import Drafting, StatefulVerifier, drafting_of

OPTIMUM_DENOMINATOR = 256
"""The optimum is a program in rationals: rows are rounded to multiples of 1/256 first, which moves its value
by a few thousandths of a token."""

LEFT_OUT = {
    "balanced_multipath_block": "not timed yet at these sizes",
    "global_resolution": "not timed yet at these sizes",
    "k_seq": "over 20 s a prompt",
    "canonical": "over 15 s a prompt",
    "greedy_multipath_carry": "its text law takes several calls of all draft tuples",
    "block_transport": "solves a transport plan a position",
}
"""Verifiers left out unless asked for: with them, 8 prompts at the default sizes take over ten minutes."""


@dataclass(frozen=True)
class PromptEfficiency:
    """One verifier after one prompt: ``block_efficiency`` in tokens per call."""

    prompt: str
    verifier: str
    block_efficiency: float
    total_variation: float


@dataclass(frozen=True)
class PairEfficiency:
    """Figures of a pair of models; ``optimum`` of independent paths by prompt, empty where not asked for."""

    title: str
    rows: tuple[PromptEfficiency, ...]
    optimum: dict[str, float]


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
    instances: Iterator[tuple[str, Instance]],
    names: Sequence[str],
    *,
    optimum: bool,
    progress: Callable[[str], None],
) -> PairEfficiency:
    """Enumerate the named verifiers on the instance of every prompt; floats throughout."""
    rows, best = [], {}
    for prompt, instance in instances:
        started = perf_counter()
        if optimum:
            best[prompt] = float(multi_path_optimum(instance.rounded(OPTIMUM_DENOMINATOR)).value)
        for name in names:
            verifier = verifiers.get(name)
            # Further paths are ignored by these: with one path the law is the same and soon enumerated.
            single = getattr(verifier, "single_path", False)
            law = emission_law(verifier, instance.with_paths(1) if single else instance)
            progress(f"{prompt!r}, {name}: {perf_counter() - started:.0f} s so far")
            rows.append(
                PromptEfficiency(prompt, name, float(law.block_efficiency), float(law.total_variation))
            )
    return PairEfficiency(title, tuple(rows), best)


HEAD = ("verifier", "tokens/call", "least", "most", "largest TV", "optimum", "headroom")


def _cells(result: PairEfficiency) -> list[tuple[str, ...]]:
    """Return a row a verifier: mean, least and most over prompts, and the mean of the optimum."""
    table: list[tuple[str, ...]] = []
    for name in dict.fromkeys(row.verifier for row in result.rows):
        mine = [row for row in result.rows if row.verifier == name]
        figures = np.array([row.block_efficiency for row in mine])
        rule = verifiers.get(name)
        bounded = drafting_of(rule) is Drafting.INDEPENDENT and not isinstance(rule, StatefulVerifier)
        best = np.mean(list(result.optimum.values())) if result.optimum and bounded else None
        table.append(
            (
                name,
                f"{figures.mean():.4f}",
                f"{figures.min():.4f}",
                f"{figures.max():.4f}",
                short(max(row.total_variation for row in mine), 2),
                "-" if best is None else f"{best:.4f}",
                "-" if best is None else f"{100 * (1 - figures.mean() / best):.2f} %",
            )
        )
    return table


def to_text(result: PairEfficiency) -> str:
    """Return the title and an aligned table."""
    return f"{result.title}\n\n{text_table(HEAD, _cells(result), right=range(1, 7))}\n"


def to_markdown(result: PairEfficiency) -> str:
    """Return the title and a Markdown table."""
    return f"{result.title}\n\n{markdown_table(HEAD, _cells(result))}\n"


def to_json(result: PairEfficiency) -> list[dict[str, Any]]:
    """Return the figures, one entry a prompt and verifier."""
    return [
        {
            "prompt": row.prompt,
            "verifier": row.verifier,
            "block_efficiency": plain(row.block_efficiency),
            "total_variation": plain(row.total_variation),
            "multi_path_optimum": plain(result.optimum.get(row.prompt)),
        }
        for row in result.rows
    ]


FORMATS: dict[str, Callable[[PairEfficiency], str]] = {
    "text": to_text,
    "markdown": to_markdown,
    "json": lambda result: json.dumps(to_json(result), indent=1) + "\n",
}


def plot(result: PairEfficiency, path: Path) -> None:
    """Draw the verifiers' tokens per call, a dot a prompt and a bar at the mean; needs matplotlib."""
    from matplotlib.figure import Figure

    names = list(dict.fromkeys(row.verifier for row in result.rows))
    figure = Figure(figsize=(7, 0.5 * len(names) + 1.5), layout="constrained")
    axes = figure.subplots()
    for height, name in enumerate(names):
        values = [row.block_efficiency for row in result.rows if row.verifier == name]
        axes.barh(height, np.mean(values), color="lightsteelblue")
        axes.plot(values, [height] * len(values), "o", color="black", markersize=3)
    if result.optimum:
        axes.axvline(float(np.mean(list(result.optimum.values()))), color="firebrick", label="optimum")
        axes.legend()
    axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()
    axes.set_xlabel("tokens per target call")
    try:
        figure.savefig(path)
    except (OSError, ValueError) as error:
        raise InvalidInputError(f"--plot: {error}") from None
