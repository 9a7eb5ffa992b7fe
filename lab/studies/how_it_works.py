"""The pictures of docs/how-it-works: traced runs, the tree of an emission, and the evidence of samples.

python -m lab.studies.how_it_works --output docs/how-it-works
"""

import argparse
import sys
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from html import escape
from importlib import import_module
from math import prod
from pathlib import Path
from typing import Any, Final

import numpy as np

import verifiers
from spec_oracle.exact import emission_law
from spec_oracle.exact.interception import Branch, enumerate_calls
from spec_oracle.statistics import EProcess
from spec_oracle.toy import Instance

ROOT: Final = Path(__file__).parents[2]
INK, GREEN, RED, BLUE = "#24292f", "#aceebb", "#ffcecb", "#b6e3ff"


# What pictures are made of.


def picture(width: int, height: int, title: str, parts: Sequence[str]) -> str:
    """Return an SVG on a white ground, in fonts that every reader has."""
    return f"""\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}"
 font-family="sans-serif" font-size="13">
<title>{escape(title)}</title>
<rect width="{width}" height="{height}" rx="8" fill="#ffffff"/>
{chr(10).join(parts)}
</svg>
"""


def words(x: float, y: float, text: str, *, anchor: str = "middle", bold: bool = False) -> str:
    """Return a line of text."""
    weight = ' font-weight="bold"' if bold else ""
    return f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}" fill="{INK}"{weight}>{escape(text)}</text>'


def box(x: float, y: float, width: float, height: float, *, fill: str, text: str = "") -> str:
    """Return a box, with a text in its middle if there is one."""
    shape = f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" fill="{fill}" stroke="{INK}"/>'
    return shape + (words(x + width / 2, y + height / 2 + 5, text) if text else "")


def line(points: Sequence[tuple[float, float]], colour: str = INK, width: float = 1, dashes: str = "") -> str:
    """Return a line through points."""
    along = " ".join(f"{x:g},{y:g}" for x, y in points)
    dashed = f' stroke-dasharray="{dashes}"' if dashes else ""
    return f'<polyline points="{along}" fill="none" stroke="{colour}" stroke-width="{width:g}"{dashed}/>'


# Tracing: one draft of two tokens, all runs of two samplers.

DRAFT: Final = np.array([[0, 0]])
DRAFT_ROWS: Final = np.array([[[0.5, 0.5], [0.5, 0.5]]])
TARGET_ROWS: Final = np.array([[[0.4, 0.6], [0.2, 0.8], [0.5, 0.5]]])
"""The drafted token has p/q of 0.8 at the first position and of 0.4 at the second."""

_QUESTIONS: Final = (
    "u below p/q = 0.8 at position 1?",
    "u below p/q = 0.4 at position 2?",
    "which bonus token?",
)


def traced(verify: Callable[..., Any]) -> list[Branch[tuple[int, ...]]]:
    """Return all runs of a sampler on this draft."""

    def call() -> tuple[int, ...]:
        tokens, _ = verify(DRAFT, DRAFT_ROWS, TARGET_ROWS, np.random.default_rng())
        return tuple(int(token) for token in tokens[0] if token >= 0)

    return enumerate_calls(call)


def tracing() -> str:
    """Return the picture of all runs of a right and a wrong sampler, side by side."""
    sys.path[:0] = [str(ROOT / "docs/examples"), str(ROOT / "examples/engine")]
    try:
        right, wrong = (import_module(name).verify for name in ("sampler", "same_uniform"))
    finally:
        del sys.path[:2]
    parts = [
        *_runs(20, traced(right), "right: a uniform u for each position"),
        *_runs(390, traced(wrong), "wrong: the same u for both"),
    ]
    return picture(740, 318, "Every run of two samplers on one draft", parts)


def _runs(left: float, runs: Sequence[Branch[tuple[int, ...]]], title: str) -> list[str]:
    """Return boxes as wide as they are likely: a row for each decision, and the emitted tokens below."""
    wide, parts, drawn = 330.0, [words(left + 165, 26, title, bold=True)], set[tuple[int, ...]]()
    parts += [words(left, 54 + 66 * row, question, anchor="start") for row, question in enumerate(_QUESTIONS)]
    x = left
    for run in runs:
        outcomes, weight = tuple(decision.outcome for decision in run.script), 1.0
        for row, decision in enumerate(run.script):
            weight *= decision.chance
            if outcomes[: row + 1] not in drawn:
                drawn.add(outcomes[: row + 1])
                fill = BLUE if row == len(_QUESTIONS) - 1 else RED if decision.outcome else GREEN
                parts.append(
                    box(x, 60 + 66 * row, wide * weight, 36, fill=fill, text=f"{decision.chance:.2g}")
                )
        middle = x + wide * run.weight / 2
        parts += [
            words(middle, 262, ", ".join(map(str, run.result))),
            words(middle, 282, f"{run.weight:.2g}", bold=True),
        ]
        x += wide * run.weight
    return [*parts, words(left + 165, 306, "emitted tokens, and their probability")]


# Enumeration: where an emission goes beyond, on the tree of all texts.

PATHS: Final = Instance.context_free(["2/3", "1/3"], ["1/3", "2/3"], draft_length=2, num_paths=2)


def goes_beyond(rule: str) -> Mapping[tuple[int, ...], Fraction]:
    """Return the probability that an emission of a rule goes beyond each context, in rationals."""
    law, found = (
        emission_law(verifiers.get(rule), PATHS, exact=True),
        defaultdict[tuple[int, ...], Fraction](Fraction),
    )
    for tokens, mass in law.probabilities.items():
        for length in range(len(tokens)):
            found[tokens[:length]] += Fraction(mass)
    return found


def enumeration(rule: str = "recursive_rejection") -> str:
    """Return the picture of contexts: how likely each is, and how likely an emission goes beyond it."""
    found, parts = goes_beyond(rule), []
    places: dict[tuple[int, ...], tuple[float, float]] = {(): (95.0, 150.0)}
    for first in (0, 1):
        places[first,] = 315.0, 80.0 + 140 * first
        places |= {(first, second): (555.0, 45.0 + 140 * first + 70 * second) for second in (0, 1)}
    for context, (x, y) in places.items():  # lines first: boxes cover their ends
        if context:
            before = places[context[:-1]]
            parts.append(line([(before[0] + 75, before[1]), (x - 75, y)]))
    for context, (x, y) in places.items():
        target = Fraction(prod((Fraction(2, 3), Fraction(1, 3))[token] for token in context))
        share = float(found[context] / target)
        parts.append(box(x - 75, y - 27, 150, 54, fill="#ffffff"))
        parts.append(
            f'<rect x="{x - 74:g}" y="{y - 26:g}" width="{148 * share:g}" height="52" fill="{GREEN}"/>'
        )
        name = ", ".join(map(str, context)) or "root"
        parts += [words(x, y - 8, name, bold=True), words(x, y + 14, f"p = {target}, w = {found[context]}")]
    total = sum(found.values())
    parts.append(
        words(325, 308, f"tokens per call: the sum of w over all contexts = {total} = {float(total):.3f}")
    )
    return picture(650, 326, f"What an emission of {rule} reaches on the tree of contexts", parts)


# Decisions: evidence against three samplers while samples come in.

LAW: Final = (0.5, 0.3, 0.2)
SHIFTS: Final = {"right": 0.0, "off by 0.02": 0.02, "off by 0.05": 0.05}
"""The mass that moves from the first token to the second, which is the total variation."""

RATE: Final = 1e-6
_STEP, _MOST = 250, 40_000


def evidence(shift: float) -> list[float]:
    """Return the evidence after each `_STEP` samples, as a power of ten."""
    process, found, rng = EProcess.against([LAW]), [0.0], np.random.default_rng(0)
    wrong = [LAW[0] - shift, LAW[1] + shift, LAW[2]]
    for _ in range(_MOST // _STEP):
        process = process.observe(rng.multinomial(_STEP, wrong))
        found.append(process.log_e / np.log(10))
    return found


def decisions() -> str:
    """Return the picture of evidence against samples: it stays low for right ones, and grows for others."""
    left, bottom, wide, high, top = 60.0, 270.0, 560.0, 230.0, 9.0
    low = -3.0

    def at(samples: float, power: float) -> tuple[float, float]:
        return left + wide * samples / _MOST, bottom - high * (min(power, top) - low) / (top - low)

    parts = [line([at(0, top), at(0, low), at(_MOST, low)])]
    parts += [words(at(n, low)[0], bottom + 18, f"{n:,}") for n in range(0, _MOST + 1, 10_000)]
    names = {-3: "1e-3", 0: "1", 3: "1e3", 6: "1e6", 9: "1e9"}
    parts += [words(left - 8, at(0, power)[1] + 4, name, anchor="end") for power, name in names.items()]
    parts.append(line([at(0, 6), at(_MOST, 6)], dashes="6 4"))
    parts.append(words(*at(6_500, 6.2), "alarm: evidence of 1/rate = 1e6", anchor="start"))
    for (name, shift), colour in zip(SHIFTS.items(), ("#1a7f37", "#0969da", "#cf222e"), strict=True):
        values = evidence(shift)
        shown = next((number for number, power in enumerate(values) if power >= top), len(values) - 1)
        points = [at(number * _STEP, power) for number, power in enumerate(values[: shown + 1])]
        parts.append(line(points, colour, 2))
        x, y = points[-1]
        parts.append(words(min(x + 6, left + wide - 90), y - 6, name, anchor="start", bold=True))
    parts.append(words(left + wide / 2, bottom + 38, "samples"))
    return picture(660, 320, "Evidence against three samplers while samples come in", parts)


PICTURES: Final = {"tracing": tracing, "enumeration": enumeration, "decisions": decisions}


def main(arguments: Sequence[str] | None = None) -> None:
    """Draw the pictures, and write each into the folder."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=ROOT / "docs/how-it-works")
    options = parser.parse_args(arguments)
    for name, drawn in PICTURES.items():
        (options.output / f"{name}.svg").write_text(drawn(), encoding="utf-8")


if __name__ == "__main__":
    main()
