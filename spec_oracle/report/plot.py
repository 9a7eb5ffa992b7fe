"""Pictures of block efficiency against the number of paths and the draft length, below the optimum."""

from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from spec_oracle.audit.subjects import named_verifier
from spec_oracle.efficiency import Sweep
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
DRAFTING_TITLES = {
    Siblings.INDEPENDENT: "independent paths",
    Siblings.DISTINCT: "paths drawn without replacement",
    Siblings.TOP_AND_SAMPLED: "top drafts and one sampled path",
}


def new_figure(**options: object) -> "Figure":
    """Return an empty matplotlib figure; raises `SpecOracleError` without matplotlib."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise SpecOracleError(f"--plot: {not_installed('matplotlib', 'plot')}") from None
    return Figure(facecolor="white", **options)


def save_figure(figure: "Figure", output: Path) -> None:
    """Write a picture; its suffix chooses the format. Raises `InvalidInputError` where it cannot."""
    try:
        figure.savefig(output, dpi=150)
    except (OSError, ValueError) as error:
        raise InvalidInputError(f"--plot: {error}") from None


def save_sweeps(output: Path, title: str, columns: Mapping[str, Sequence[Sweep]]) -> None:
    """Draw `spec_oracle.efficiency.sweeps`, and write the picture; errors as `new_figure` and `save_figure`.

    One row of panels for each optimum that applies: by drafting law, and with or without carry-over; one row
    on draft trees. Lossy verifiers are marked, and their lines are broken.
    """
    first = next(iter(columns.values()))
    names, tree = [sweep.verifier for sweep in first], first[0].points[0].tree
    rows = [list(members) for _, members in groupby(sorted(names, key=_row_key), _row_key)]
    if tree is not None:
        rows = [names]
    inches = (4.1 * len(columns) + 2.6, sum(max(2.4, 0.25 * len(members) + 1) for members in rows) + 0.8)
    figure = new_figure(figsize=inches, layout="constrained")
    figure.suptitle(title, x=0.02, ha="left", color=INK, fontsize=13, fontweight="bold")
    grids = figure.subplots(len(rows), len(columns), sharey="row", squeeze=False)
    for panels, members in zip(grids, rows, strict=True):
        for axes, (label, sweeps) in zip(panels, columns.items(), strict=True):
            _draw(axes, [sweep for sweep in sweeps if sweep.verifier in members])
            axes.set_xlabel(label, color=MUTED, fontsize=9)
        on_trees = tree and f"draft trees, {tree.siblings.value} siblings"
        panels[0].set_title(on_trees or _row_title(members[0]), loc="left", color=INK, fontsize=10)
        panels[0].set_ylabel("tokens per call", color=MUTED, fontsize=9)
        panels[-1].legend(loc="center left", bbox_to_anchor=(1, 0.5), fontsize=9, frameon=False)
    save_figure(figure, output)


def _row_key(name: str) -> tuple[int, bool]:
    """Sort key: verifiers that one optimum bounds share a row; those of independent paths come first."""
    verifier = named_verifier(name)
    return list(Siblings).index(drafting_of(verifier)), isinstance(verifier, StatefulVerifier)


def _row_title(name: str) -> str:
    verifier = named_verifier(name)
    carry_over = ", with carry-over" if isinstance(verifier, StatefulVerifier) else ""
    return DRAFTING_TITLES[drafting_of(verifier)] + carry_over


def grid(axes: "Axes", axis: str) -> None:
    """Draw light lines across one axis, and no ticks."""
    axes.grid(axis=axis, color=GRID, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(colors=MUTED, length=0, labelsize=9)


def _draw(axes: "Axes", sweeps: Sequence[Sweep]) -> None:
    """Draw the optimum as a thick line and the verifiers over it, each with its last value in the legend."""
    at, best = sweeps[0].at, sweeps[0].optimum
    axes.plot(at, best, color=INK, linewidth=4, alpha=0.85, label=f"optimum  {best[-1]:.3f}")
    for index, sweep in enumerate(sweeps):
        axes.plot(
            at,
            sweep.block_efficiency,
            "-" if sweep.is_lossless else ":",
            linewidth=1.5,
            markersize=4.5,
            color=COLOURS[index % len(COLOURS)],
            marker=MARKERS[index % len(MARKERS)],
            label=f"{sweep.label}  {sweep.block_efficiency[-1]:.3f}",
        )
    axes.set_xticks(at)
    axes.margins(x=0.06, y=0.1)
    grid(axes, "y")
    for side, spine in axes.spines.items():
        spine.set_visible(side == "bottom")
        spine.set_color(GRID)
