"""Tokens per call of verifiers on a pair of language models: a dot a prompt, a line at the mean."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from spec_oracle.efficiency.figures import marked
from spec_oracle.language_models.efficiency import PairEfficiency, Summary
from spec_oracle.report.plot import COLOURS, INK, MUTED, grid, new_figure, save_figure


def save_pair_plot(result: PairEfficiency, path: Path) -> None:
    """Draw tokens per call on the left and, where optima are known, headroom on the right, best mean first.

    Errors as in `spec_oracle.report.plot`.
    """
    rows = sorted(result.summaries(), key=lambda row: -row.mean)
    prompts = list(dict.fromkeys(row.prompt for row in result.rows))
    bounded = all(row.headroom is not None for row in rows)
    figure = new_figure(figsize=(10 if bounded else 7, 0.3 * len(rows) + 2.2))
    widths = {"width_ratios": [3, 2][: 1 + bounded]}
    panels = figure.subplots(1, 1 + bounded, sharey=True, squeeze=False, gridspec_kw=widths)[0]
    figure.suptitle(result.title, color=INK, fontsize=10, fontweight="bold", x=0.02, ha="left")
    _tokens(panels[0], result, rows, prompts)
    panels[0].set_yticks(range(len(rows)), [marked(row.verifier, row.largest_tv) for row in rows])
    panels[0].invert_yaxis()
    if bounded:
        _headroom(panels[1], rows)
    for axes in panels:
        grid(axes, "x")
        for spine in axes.spines.values():
            spine.set_visible(False)
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="lower center", ncols=min(3, len(labels)), fontsize=7.5, frameon=False)
    lines = -(-len(labels) // 3)
    figure.tight_layout(rect=(0, 0.24 * lines / figure.get_figheight(), 1, 1))
    save_figure(figure, path)


def _tokens(axes: Any, result: PairEfficiency, rows: Sequence[Summary], prompts: list[str]) -> None:
    """Draw a coloured dot a prompt and a bar at the mean, which is written beside it."""
    for index, prompt in enumerate(prompts):
        values = {row.verifier: row.block_efficiency for row in result.rows if row.prompt == prompt}
        found, colour = [values[row.verifier] for row in rows], COLOURS[index % len(COLOURS)]
        axes.plot(found, range(len(rows)), "o", color=colour, markersize=4, label=prompt)
    means = [row.mean for row in rows]
    axes.plot(means, range(len(rows)), "|", color=INK, markersize=11, markeredgewidth=2, label="mean")
    axes.set_xlabel("tokens per target call", color=MUTED, fontsize=9)


def _headroom(axes: Any, rows: Sequence[Summary]) -> None:
    """Draw how far the mean stays below the mean optimum of the same drafts, in per cent."""
    for height, row in enumerate(rows):
        headroom = max(0.0, 100 * (row.headroom or 0.0))  # no "-0.00" by rounding
        axes.barh(height, headroom, height=0.55, color="#9db4e3")
        how = {"xytext": (4, 0), "textcoords": "offset points", "va": "center", "color": INK, "fontsize": 8}
        axes.annotate(f"{headroom:.2f}", (headroom, height), **how)
    axes.margins(x=0.18)
    axes.set_xlim(left=0)
    axes.set_xlabel("headroom below the optimum, %", color=MUTED, fontsize=9)
