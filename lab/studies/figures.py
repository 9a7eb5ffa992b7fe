"""The plots of the study."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from lab.studies.aggregate import FACTORS, mean_by_level
from lab.studies.measure import BALANCED, OURS, RULES, CarriedRecord, Record

COLOURS = {
    OURS: "#d1495b",
    BALANCED: "#b0702e",
    "global_resolution": "#edae49",
    "canonical": "#66a182",
    "k_seq": "#2e4057",
    "traversal": "#00798c",
    "greedy_multipath_block": "#8d6a9f",
}
"""The rules that the plots by factor show: others lie above them or overlap them."""

STYLE = {
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "#888888",
    "axes.titlesize": 11,
    "figure.dpi": 150,
    "savefig.bbox": "tight",
}


def draw_all(records: Sequence[Record], carried: Sequence[CarriedRecord], folder: Path) -> dict[str, str]:
    """Write the plots to ``folder``; return their file names by what they show."""
    import matplotlib as mpl

    mpl.use("agg")
    from matplotlib import pyplot as plt

    with mpl.rc_context(STYLE):
        drawn = {
            "distribution": _distribution(plt, records),
            "factors": _factors(plt, records),
            "carried": _carried(plt, carried),
        }
        for name, figure in drawn.items():
            # no software version in the file: the same figures give the same bytes
            figure.savefig(folder / f"study-multipath-{name}.png", metadata={"Software": None})
            plt.close(figure)
    return {name: f"study-multipath-{name}.png" for name in drawn}


def _distribution(plt: Any, records: Sequence[Record]) -> Any:
    """One row a rule: every toy a dot, the box from first to ninth decile, the mean a diamond."""
    rules = sorted(RULES, key=lambda rule: -float(np.mean(_values(records, rule))))
    figure, axes = plt.subplots(figsize=(8.5, 0.55 * len(rules) + 1))
    jitter = np.random.default_rng(0)
    for row, rule in enumerate(rules):
        values = 100 * _values(records, rule)
        colour = COLOURS[OURS] if rule == OURS else "#2e4057"
        low, median, high = np.quantile(values, [0.1, 0.5, 0.9])
        axes.scatter(
            values, row + jitter.uniform(-0.3, 0.3, len(values)), s=6, color=colour, alpha=0.25, lw=0
        )
        axes.barh(row, high - low, 0.5, left=low, color=colour, alpha=0.18)
        axes.plot([median, median], [row - 0.25, row + 0.25], color=colour, lw=1.5)
        axes.plot(values.mean(), row, "D", color=colour, ms=6, mec="white")
        place = {"xycoords": ("axes fraction", "data"), "va": "center"}
        axes.annotate(f"{values.mean():.1f} %", (1.01, row), color=colour, **place)
    axes.set_yticks(range(len(rules)), rules)
    axes.get_yticklabels()[rules.index(OURS)].set(color=COLOURS[OURS], weight="bold")
    axes.set_xlim(left=-0.5)
    axes.set_xlabel("shortfall from the K-path optimum, % of tokens per call")
    axes.annotate("mean", (1.01, 1.015), xycoords="axes fraction", color="#666666")
    axes.set_title("Every toy a dot; band: first to ninth decile; line: median; diamond: mean", loc="left")
    axes.grid(axis="x", color="#dddddd", lw=0.6)
    axes.set_axisbelow(True)
    return figure


def _values(records: Sequence[Record], rule: str) -> Any:
    return np.array([record.shortfall[rule] for record in records if rule in record.shortfall])


def _factors(plt: Any, records: Sequence[Record]) -> Any:
    """Mean shortfall against each factor of the grid, one panel a factor."""
    figure, panels = plt.subplots(1, len(FACTORS), figsize=(13, 3.6), sharey=True, layout="constrained")
    for panel, factor in zip(panels, FACTORS, strict=True):
        for rule, colour in COLOURS.items():
            means = mean_by_level(records, factor, rule)
            widths = {"lw": 2.6, "ms": 6} if rule == OURS else {"lw": 1.4, "ms": 4}
            shares = [100 * mean for mean in means.values()]
            panel.plot(list(means), shares, "o-", color=colour, label=rule, **widths)
        panel.set_title(factor)
        panel.margins(x=0.25)
        panel.grid(axis="y", color="#dddddd", lw=0.6)
        panel.tick_params(axis="x", rotation=25 if factor == "draft quality" else 0)
    panels[0].set_ylabel("mean shortfall, %")
    panels[0].set_ylim(bottom=0)
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(COLOURS), frameon=False)
    return figure


def _carried(plt: Any, carried: Sequence[CarriedRecord]) -> Any:
    """What carry-over gains in the first call and in the calls together, every toy a dot."""
    figure, axes = plt.subplots(figsize=(5.4, 4.4))
    first = [100 * (record.carried[0] / record.balanced[0] - 1) for record in carried]
    together = [100 * (sum(record.carried) / sum(record.balanced) - 1) for record in carried]
    axes.axhline(0, color="#888888", lw=0.8)
    axes.axvline(0, color="#888888", lw=0.8)
    reach = max(0.1, *first)
    axes.plot([0, reach], [0, reach], ":", color="#888888", lw=1)
    axes.annotate("kept in full", (reach, reach), ha="right", va="bottom", color="#666666")
    axes.scatter(first, together, s=34, color=COLOURS[BALANCED], alpha=0.6, lw=0)
    axes.set_xlabel("gain in the first call, %")
    axes.set_ylabel("gain over the first calls together, %")
    axes.set_title(f"Carry-over against {BALANCED}", loc="left")
    return figure
