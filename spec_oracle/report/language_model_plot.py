"""Tokens per call of verifiers on a pair of language models: a dot a prompt, a line at the mean."""

from pathlib import Path
from typing import Any

import numpy as np

from spec_oracle.errors import InvalidInputError
from spec_oracle.report.language_models import PairEfficiency
from spec_oracle.report.plot import COLOURS, GRID, INK, MUTED, MissingExtraError


def save_pair_plot(result: PairEfficiency, path: Path) -> None:
    """Draw tokens per call on the left and, where optima are known, headroom on the right, best mean first.

    Raises `MissingExtraError` without matplotlib, `InvalidInputError` for a file that cannot be written.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingExtraError(
            "--plot: matplotlib is not installed; pip install 'spec-oracle[plot]'"
        ) from None
    names = sorted(result.verifiers, key=lambda name: -_mean(result, name))
    prompts = list(dict.fromkeys(row.prompt for row in result.rows))
    bounded = all(row.optimum is not None for row in result.rows)
    figure = Figure(figsize=(10 if bounded else 7, 0.3 * len(names) + 2.2), facecolor="white")
    panels = figure.subplots(
        1,
        2 if bounded else 1,
        sharey=True,
        squeeze=False,
        gridspec_kw={"width_ratios": [3, 2][: 1 + bounded]},
    )[0]
    figure.suptitle(result.title, color=INK, fontsize=10, fontweight="bold", x=0.02, ha="left")
    _tokens(panels[0], result, names, prompts)
    panels[0].set_yticks(range(len(names)), names)
    panels[0].invert_yaxis()
    if bounded:
        _headroom(panels[1], result, names)
    for axes in panels:
        _plain(axes)
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="lower center", ncols=min(3, len(labels)), fontsize=7.5, frameon=False)
    rows = -(-len(labels) // 3)
    figure.tight_layout(rect=(0, 0.24 * rows / figure.get_figheight(), 1, 1))
    try:
        figure.savefig(path, dpi=150)
    except (OSError, ValueError) as error:
        raise InvalidInputError(f"--plot: {error}") from None


def _mean(result: PairEfficiency, name: str) -> float:
    return float(np.mean([row.block_efficiency for row in result.of(name)]))


def _tokens(axes: Any, result: PairEfficiency, names: list[str], prompts: list[str]) -> None:
    """Draw a coloured dot a prompt and a bar at the mean, which is written beside it."""
    for index, prompt in enumerate(prompts):
        values = {row.verifier: row.block_efficiency for row in result.rows if row.prompt == prompt}
        axes.plot(
            [values[name] for name in names],
            range(len(names)),
            "o",
            color=COLOURS[index % len(COLOURS)],
            markersize=4,
            label=prompt,
        )
    means = [_mean(result, name) for name in names]
    axes.plot(means, range(len(names)), "|", color=INK, markersize=11, markeredgewidth=2, label="mean")
    axes.set_xlabel("tokens per target call", color=MUTED, fontsize=9)


def _headroom(axes: Any, result: PairEfficiency, names: list[str]) -> None:
    """Draw how far the mean stays below the mean optimum of the same drafts, in per cent."""
    for height, name in enumerate(names):
        best = float(np.mean([row.optimum.bound for row in result.of(name) if row.optimum is not None]))
        headroom = max(0.0, 100 * (1 - _mean(result, name) / best))  # no "-0.00" by rounding
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
