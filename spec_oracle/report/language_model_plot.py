"""Tokens per call of verifiers on a pair of language models: a dot a prompt, a line at the mean."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from spec_oracle.efficiency import PairEfficiency, Summary
from spec_oracle.report.plot import COLOURS, GRID, INK, MUTED, new_figure, save_figure


def save_pair_plot(result: PairEfficiency, path: Path) -> None:
    """Draw tokens per call on the left and, where optima are known, headroom on the right, best mean first.

    Errors as in `spec_oracle.report.plot`.
    """
    rows = sorted(result.summaries(), key=lambda row: -row.mean)
    prompts = list(dict.fromkeys(row.prompt for row in result.rows))
    bounded = all(row.headroom is not None for row in rows)
    figure = new_figure(figsize=(10 if bounded else 7, 0.3 * len(rows) + 2.2))
    panels = figure.subplots(
        1,
        2 if bounded else 1,
        sharey=True,
        squeeze=False,
        gridspec_kw={"width_ratios": [3, 2][: 1 + bounded]},
    )[0]
    figure.suptitle(result.title, color=INK, fontsize=10, fontweight="bold", x=0.02, ha="left")
    _tokens(panels[0], result, rows, prompts)
    panels[0].set_yticks(range(len(rows)), [row.verifier for row in rows])
    panels[0].invert_yaxis()
    if bounded:
        _headroom(panels[1], rows)
    for axes in panels:
        _plain(axes)
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="lower center", ncols=min(3, len(labels)), fontsize=7.5, frameon=False)
    lines = -(-len(labels) // 3)
    figure.tight_layout(rect=(0, 0.24 * lines / figure.get_figheight(), 1, 1))
    save_figure(figure, path)


def _tokens(axes: Any, result: PairEfficiency, rows: Sequence[Summary], prompts: list[str]) -> None:
    """Draw a coloured dot a prompt and a bar at the mean, which is written beside it."""
    for index, prompt in enumerate(prompts):
        values = {row.verifier: row.block_efficiency for row in result.rows if row.prompt == prompt}
        axes.plot(
            [values[row.verifier] for row in rows],
            range(len(rows)),
            "o",
            color=COLOURS[index % len(COLOURS)],
            markersize=4,
            label=prompt,
        )
    means = [row.mean for row in rows]
    axes.plot(means, range(len(rows)), "|", color=INK, markersize=11, markeredgewidth=2, label="mean")
    axes.set_xlabel("tokens per target call", color=MUTED, fontsize=9)


def _headroom(axes: Any, rows: Sequence[Summary]) -> None:
    """Draw how far the mean stays below the mean optimum of the same drafts, in per cent."""
    for height, row in enumerate(rows):
        headroom = max(0.0, 100 * (row.headroom or 0.0))  # no "-0.00" by rounding
        axes.barh(height, headroom, height=0.55, color="#9db4e3")
        axes.annotate(
            f"{headroom:.2f}",
            (headroom, height),
            xytext=(4, 0),
            textcoords="offset points",
            va="center",
            color=INK,
            fontsize=8,
        )
    axes.margins(x=0.18)
    axes.set_xlim(left=0)
    axes.set_xlabel("headroom below the optimum, %", color=MUTED, fontsize=9)


def _plain(axes: Any) -> None:
    axes.grid(axis="x", color=GRID, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(colors=MUTED, length=0, labelsize=9)
    for spine in axes.spines.values():
        spine.set_visible(False)
