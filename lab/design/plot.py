"""Tokens per call against the budget of drafted tokens: a line a combination, ours thick."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import isotonic_regression

from lab.design import ORACLE, Costs, Design
from spec_oracle.report.plot import (
    COLOURS,
    GRID,
    INK,
    MARKERS,
    MUTED,
    grid,
    new_figure,
    save_figure,
)

LABEL_INCHES = 0.19
"""Height of one label line."""


def save_design_plot(result: Design, path: Path) -> None:
    """Draw the best tree of every rule and drafting at each budget.

    Errors as in `spec_oracle.report.plot`.
    """
    lines: dict[tuple[str, str], list[tuple[int, float]]] = {}
    ours = {(row.rule, row.drafting) for row in result.rows if row.ours}
    for budget in result.budgets:
        for row in result.best(budget):
            lines.setdefault((row.rule, row.drafting), []).append((budget, row.throughput))
    height = LABEL_INCHES * (len(lines) + 2)
    figure = new_figure(figsize=(9.5, height + 1.1))
    axes = figure.add_axes((0.07, 0.55 / (height + 1.1), 0.45, height / (height + 1.1)))
    figure.text(0.02, 1 - 0.2 / (height + 1.1), result.title, color=INK, fontsize=9, fontweight="bold")
    ends = []
    for index, (key, points) in enumerate(lines.items()):
        colour = MUTED if key[1] == ORACLE else COLOURS[index % len(COLOURS)]
        how = {"linestyle": "--" if key[1] == ORACLE else "-", "linewidth": 2.8 if key in ours else 1.2}
        marker = MARKERS[index % len(MARKERS)]
        axes.plot(*zip(*points, strict=True), color=colour, marker=marker, markersize=4, **how)
        ends.append((points[-1][1], f"{key[0]}, {key[1]}", colour, key in ours, points[-1][0]))
    axes.set_xticks(result.budgets)
    axes.set_xlabel("drafted tokens", color=MUTED, fontsize=9)
    unit = "tokens per call" if result.costs == Costs() else "tokens in the time of a target call"
    axes.set_ylabel(unit, color=MUTED, fontsize=9)
    axes.margins(x=0.04, y=0.05)
    grid(axes, "y")
    for side, spine in axes.spines.items():
        spine.set_visible(side == "bottom")
        spine.set_color(GRID)
    _label(axes, sorted(ends), height)
    save_figure(figure, path)


def _label(axes: Any, ends: list[tuple[float, str, str, bool, int]], height: float) -> None:
    """Name every line at its right end, ours in bold, spread so that no two labels overlap."""
    (low, high), (left, right) = axes.get_ylim(), axes.get_xlim()
    places = spread([end[0] for end in ends], (high - low) * LABEL_INCHES / height, low, high)
    for (value, name, colour, bold, at), place in zip(ends, places, strict=True):
        axes.annotate(
            f"{value:.3f}  {name}",
            xy=(at, value),
            xytext=(right + 0.05 * (right - left), place),
            color=colour,
            fontsize=8,
            fontweight="bold" if bold else "normal",
            va="center",
            annotation_clip=False,
            arrowprops={
                "arrowstyle": "-",
                "linewidth": 0.6,
                "alpha": 0.6,
                "color": colour,
                "relpos": (0, 0.5),
            },
        )


def spread(values: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """Return places for ascending ``values``, at least ``gap`` apart, that move them least.

    Place i less i gaps must not fall: an isotonic regression. Places stay within ``low`` and ``high`` where
    there is room.
    """
    steps = gap * np.arange(len(values))
    fitted = isotonic_regression(np.asarray(values) - steps).x
    places: list[float] = (np.clip(fitted, low, max(low, high - steps[-1])) + steps).tolist()
    return places
