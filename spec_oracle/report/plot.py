"""Block efficiency against the number of paths and the draft length, drawn beneath the optimum."""

from collections.abc import Sequence
from itertools import groupby
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from scipy.optimize import isotonic_regression

from spec_oracle.audit.rules import named_verifier
from spec_oracle.efficiency import Sweep, Sweeps
from spec_oracle.errors import InvalidInputError, SpecOracleError, not_installed
from verifiers import Siblings, StatefulVerifier, drafting_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK, MUTED, GRID = "#1b1e23", "#6b7280", "#e5e7eb"
COLOURS = (
    *("#4269d0", "#ff725c", "#3ca951", "#a463f2", "#c28e0e", "#0f9f98"),
    *("#d6478f", "#9c6b4e", "#6c8ebf", "#7a8b2f", "#b04a5a", "#5b6472"),
)
MARKERS = "osD^vPX"
LABEL_INCHES = 0.19
"""Height of one label line."""

DRAFTING_TITLES = {
    Siblings.INDEPENDENT: "independent paths",
    Siblings.DISTINCT: "paths drawn without replacement",
    Siblings.TOP_AND_SAMPLED: "top drafts and one sampled path",
}


class MissingExtraError(SpecOracleError):
    """An optional dependency is not installed."""


def new_figure(**options: object) -> "Figure":
    """Return an empty matplotlib figure; raises `MissingExtraError` without matplotlib."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingExtraError(f"--plot: {not_installed('matplotlib', 'plot')}") from None
    return Figure(facecolor="white", **options)


def save_figure(figure: "Figure", output: Path) -> None:
    """Write a picture; its suffix chooses the format. Raises `InvalidInputError` where it cannot."""
    try:
        figure.savefig(output, dpi=150)
    except (OSError, ValueError) as error:
        raise InvalidInputError(f"--plot: {error}") from None


def save_sweeps(output: Path, title: str, found: Sweeps) -> None:
    """Draw the verifiers against K and L, and write the picture; errors as `new_figure` and `save_figure`.

    One row of panels for each optimum that applies: by drafting law, and with or without carry-over; one row
    on draft trees. Lossy verifiers are marked, and their lines are broken.
    """
    length = f"draft length L  (K = {found.num_paths})"
    drawn = (
        (f"draft paths K  (L = {found.draft_length})", found.by_paths),
        (length if found.tree is None else f"levels of the tree  ({found.tree.shape})", found.by_length),
    )
    columns = [column for column in drawn if column[1]]
    names = [sweep.verifier for sweep in columns[0][1]]
    rows = [list(members) for _, members in groupby(sorted(names, key=_row_key), _row_key)]
    if found.tree is not None:
        rows = [names]
    heights = [max(1.9, LABEL_INCHES * (len(members) + 1) + 0.3) for members in rows]
    inches = (4.1 * len(columns) + 2.6, sum(heights) + 0.75 * len(rows) + 0.8)
    figure = new_figure(figsize=inches)
    grids = figure.subplots(
        len(rows), len(columns), sharey="row", squeeze=False, gridspec_kw={"height_ratios": heights}
    )
    figure.subplots_adjust(
        left=0.62 / inches[0],
        right=1 - 2.5 / inches[0],
        bottom=0.6 / inches[1],
        top=1 - 0.95 / inches[1],
        wspace=0.08,
        hspace=0.75 * len(rows) / sum(heights),
    )
    figure.text(
        0.62 / inches[0], 1 - 0.36 / inches[1], title, color=INK, fontsize=13, fontweight="bold", va="center"
    )
    for panels, members, height in zip(grids, rows, heights, strict=True):
        for axes, (label, sweeps) in zip(panels, columns, strict=True):
            mine = [sweep for sweep in sweeps if sweep.verifier in members]
            _draw(axes, mine)
            axes.set_xlabel(label, color=MUTED, fontsize=9)
        on_trees = found.tree and f"draft trees, {found.tree.siblings.value} siblings"
        panels[0].set_title(on_trees or _row_title(members[0]), loc="left", color=INK, fontsize=10)
        panels[0].set_ylabel("tokens per call", color=MUTED, fontsize=9)
        _label(panels[-1], mine, height)
    save_figure(figure, output)


def _row_key(name: str) -> tuple[int, bool]:
    """Verifiers that one optimum bounds share a row; those of independent paths come first."""
    verifier = named_verifier(name)
    return list(Siblings).index(drafting_of(verifier)), isinstance(verifier, StatefulVerifier)


def _row_title(name: str) -> str:
    verifier = named_verifier(name)
    carry_over = ", with carry-over" if isinstance(verifier, StatefulVerifier) else ""
    return DRAFTING_TITLES[drafting_of(verifier)] + carry_over


def _style(index: int) -> dict[str, str]:
    return {"color": COLOURS[index % len(COLOURS)], "marker": MARKERS[index % len(MARKERS)]}


def grid(axes: "Axes", axis: str) -> None:
    """Draw light lines across one axis, and no ticks."""
    axes.grid(axis=axis, color=GRID, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(colors=MUTED, length=0, labelsize=9)


def _draw(axes: "Axes", sweeps: Sequence[Sweep]) -> None:
    """Draw the optimum as a thick line and the verifiers over it."""
    axes.plot(sweeps[0].at, sweeps[0].optimum, color=INK, linewidth=4, alpha=0.85, solid_capstyle="round")
    for index, sweep in enumerate(sweeps):
        line = "-" if sweep.is_lossless else ":"
        axes.plot(sweep.at, sweep.block_efficiency, line, linewidth=1.5, markersize=4.5, **_style(index))
    axes.set_xticks(sweeps[0].at)
    axes.margins(x=0.06, y=0.1)
    grid(axes, "y")
    for side, spine in axes.spines.items():
        spine.set_visible(side == "bottom")
        spine.set_color(GRID)


_LINE = {"arrowstyle": "-", "linewidth": 0.7, "alpha": 0.6, "relpos": (0, 0.5), "shrinkA": 1, "shrinkB": 5}


def _label(axes: "Axes", sweeps: Sequence[Sweep], height: float) -> None:
    """Name every line at its right end, spread so that no two labels overlap; ``height`` is in inches."""
    ends = [(sweep.block_efficiency[-1], sweep.label, _style(i)["color"]) for i, sweep in enumerate(sweeps)]
    best = sweeps[0].optimum[-1]
    if not isnan(best):
        ends.append((best, "optimum", INK))
    ends.sort(key=lambda end: (end[0], end[1] == "optimum"))
    low, high = axes.get_ylim()
    places = spread([value for value, _, _ in ends], (high - low) * LABEL_INCHES / height, low, high)
    edge = axes.get_xlim()[1]
    for (value, name, colour), place in zip(ends, places, strict=True):
        axes.annotate(
            f"{name}  {value:.3f}",
            xy=(sweeps[0].at[-1], value),
            xytext=(edge + 0.04 * (edge - axes.get_xlim()[0]), place),
            color=colour,
            fontsize=9,
            fontweight="bold" if name == "optimum" else "normal",
            va="center",
            annotation_clip=False,
            arrowprops={**_LINE, "color": colour},
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
