"""Block efficiency of verifiers, on instances and on language models, and the optima that bound it."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from spec_oracle.arrays import Json
from spec_oracle.audit.draftings import FIGURES_OF_FIRST_CALL
from spec_oracle.efficiency import Efficiency, is_lossless, marked
from spec_oracle.language_models.efficiency import PairEfficiency, Summary
from spec_oracle.optimum import Optimum
from spec_oracle.report.plot import COLOURS, INK, MUTED, grid, new_figure, save_figure
from spec_oracle.report.table import Table, formats, percent, plain, short
from spec_oracle.toy import context_text

HEAD = ("verifier", "tokens/call", "TV", "P(accepted = 0, 1, ...)", "optimum", "share", "headroom")


def cells(result: Efficiency) -> tuple[str, ...]:
    """Return the row of a verifier under `HEAD`."""
    return (
        result.label,
        short(result.block_efficiency, 6),
        short(result.total_variation, 2),
        "  ".join(short(mass, 4) for mass in result.accepted_length),
        short(result.optimum, 6),
        percent(result.share, 2),
        percent(None if result.share is None else 1 - result.share, 2),
    )


def _tables(results: Sequence[Efficiency]) -> Iterator[Table]:
    """Yield a table a file."""
    for file, each in groupby(results, lambda result: result.file):
        mine = list(each)
        first, best = mine[0], mine[0].optima
        title = f"{file}: optimum "
        if first.tree is None:
            title += f"{short(best.single_path, 6)} with one path, {short(best.multi_path, 6)} with all, "
            title += f"{short(best.block_transport, 6)} with carry-over"
        else:
            title += f"{short(first.optimum, 6)} on draft trees ({first.tree})"
        below = first_call(result.verifier for result in mine if result.carries_state)
        yield Table(HEAD, [cells(result) for result in mine], (1, 2, 4, 5, 6), title, below)


def first_call(names: Iterable[str]) -> str:
    """Say that the figures of the named rules, which keep a state, are those of a first call."""
    said = ", ".join(names)
    return f"{said}: {FIGURES_OF_FIRST_CALL}." if said else ""


def _data(results: Sequence[Efficiency]) -> list[dict[str, Json]]:
    return [
        {
            "file": result.file,
            "verifier": result.verifier,
            "block_efficiency": plain(result.block_efficiency),
            "total_variation": plain(result.total_variation),
            "accepted_length": [plain(mass) for mass in result.accepted_length],
            "single_path_optimum": plain(result.optima.single_path),
            "multi_path_optimum": plain(result.optima.multi_path),
            "block_transport_optimum": plain(result.optima.block_transport),
            "tree": None if result.tree is None else str(result.tree),
            "tree_optimum": None if result.tree is None else plain(result.optimum),
            "lossless": is_lossless(result.total_variation),
        }
        for result in results
    ]


FORMATS = formats(_tables, _data)


CheckedOptima: TypeAlias = Mapping[str, Mapping[str, Optimum]]
"""The optima of each file by name, as `spec_oracle.optimum.checked_optima` returns them."""

_OPTIMUM_HEAD = ("optimum", "tokens/call", "gap", "budgets c(v)")


def _optimum_tables(results: CheckedOptima) -> Iterator[Table]:
    """Yield a table a file: value, gap, and the budgets c(v) that attain it."""
    for file, optima in results.items():
        rows = [
            (name, short(optimum.value, 8), short(optimum.gap, 2), _budgets(optimum))
            for name, optimum in optima.items()
        ]
        yield Table(_OPTIMUM_HEAD, rows, above=file)
    yield Table((), (), below="Every certificate was checked in rationals, without a solver.")


def _budgets(optimum: Optimum, most: int = 8) -> str:
    budgets = list(optimum.certificate.budgets.items())
    shown = "  ".join(f"[{context_text(context)}] {short(budget)}" for context, budget in budgets[:most])
    return shown + ("  ..." if len(budgets) > most else "")


def _optimum_data(results: CheckedOptima) -> list[dict[str, Json]]:
    return [
        {
            "file": file,
            "optimum": name,
            "value": plain(optimum.value),
            "gap": plain(optimum.gap),
            "budgets": {context_text(at): plain(c) for at, c in optimum.certificate.budgets.items()},
        }
        for file, optima in results.items()
        for name, optimum in optima.items()
    ]


OPTIMUM_FORMATS = formats(_optimum_tables, _optimum_data)


if TYPE_CHECKING:
    from matplotlib.axes import Axes

PAIR_HEAD = ("verifier", "tokens/call", "least", "most", "optimum", "headroom", "largest TV")


def _pair_cells(result: PairEfficiency) -> Iterator[tuple[str, ...]]:
    """Yield a row a verifier."""
    for row in result.summaries():
        yield (
            marked(row.verifier, row.largest_tv),
            *(f"{tokens:.4f}" for tokens in (row.mean, row.least, row.most)),
            "-" if row.optimum is None else f"{row.optimum:.4f}",
            percent(row.headroom, 3),
            "not enumerated" if row.largest_tv is None else short(row.largest_tv, 2),
        )


def _pair_tables(result: PairEfficiency) -> Iterator[Table]:
    """Yield the table; notes say how far the proven bounds may exceed the optima, and what is missing."""
    gaps = [row.gap for row in result.rows if row.gap is not None]
    notes = [said] if (said := first_call(result.carrying)) else []
    notes += [f"Left out: {reason}." for reason in result.left_out]
    if gaps:
        notes.insert(0, f"Optimum: a proven bound, attained to {short(max(gaps), 2)} tokens on every prompt.")
    yield Table(PAIR_HEAD, list(_pair_cells(result)), range(1, 7), result.title, "\n\n".join(notes))


def _pair_data(result: PairEfficiency) -> list[dict[str, Json]]:
    return [
        {
            "prompt": row.prompt,
            "verifier": row.verifier,
            "block_efficiency": plain(row.block_efficiency),
            "total_variation": plain(row.total_variation),
            "optimum": plain(row.optimum),
            "lossless": None if row.total_variation is None else is_lossless(row.total_variation),
        }
        for row in result.rows
    ]


PAIR_FORMATS = formats(_pair_tables, _pair_data)


def save_pair_plot(result: PairEfficiency, path: Path) -> None:
    """Draw tokens per call, a dot a prompt and a line at the mean; on the right headroom, if it is known.

    The best mean comes first.
    Errors as in `spec_oracle.report.plot`.
    """
    rows = sorted(result.summaries(), key=lambda row: -row.mean)
    prompts = list(dict.fromkeys(row.prompt for row in result.rows))
    bounded = all(row.headroom is not None for row in rows)
    figure = new_figure(figsize=(10 if bounded else 7, 0.3 * len(rows) + 2.2))
    widths = {"width_ratios": [3, 2][: 1 + bounded]}
    panels = figure.subplots(1, 1 + bounded, sharey=True, squeeze=False, gridspec_kw=widths)[0]
    figure.suptitle(result.title, color=INK, fontsize=10, fontweight="bold", x=0.02, ha="left")
    _draw_tokens(panels[0], result, rows, prompts)
    panels[0].set_yticks(range(len(rows)), [marked(row.verifier, row.largest_tv) for row in rows])
    panels[0].invert_yaxis()
    if bounded:
        _draw_headroom(panels[1], rows)
    for axes in panels:
        grid(axes, "x")
        for spine in axes.spines.values():
            spine.set_visible(False)
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="lower center", ncols=min(3, len(labels)), fontsize=7.5, frameon=False)
    lines = -(-len(labels) // 3)
    figure.tight_layout(rect=(0, 0.24 * lines / figure.get_figheight(), 1, 1))
    save_figure(figure, path)


def _draw_tokens(axes: "Axes", result: PairEfficiency, rows: Sequence[Summary], prompts: list[str]) -> None:
    """Draw a coloured dot for each prompt, and a bar at the mean."""
    for index, prompt in enumerate(prompts):
        values = {row.verifier: row.block_efficiency for row in result.rows if row.prompt == prompt}
        found, colour = [values[row.verifier] for row in rows], COLOURS[index % len(COLOURS)]
        axes.plot(found, range(len(rows)), "o", color=colour, markersize=4, label=prompt)
    means = [row.mean for row in rows]
    axes.plot(means, range(len(rows)), "|", color=INK, markersize=11, markeredgewidth=2, label="mean")
    axes.set_xlabel("tokens per target call", color=MUTED, fontsize=9)


def _draw_headroom(axes: "Axes", rows: Sequence[Summary]) -> None:
    """Draw how far the mean stays below the mean optimum of the same drafts, in per cent."""
    for height, row in enumerate(rows):
        headroom = max(0.0, 100 * (row.headroom or 0.0))  # no "-0.00" by rounding
        axes.barh(height, headroom, height=0.55, color="#9db4e3")
        how = {"xytext": (4, 0), "textcoords": "offset points", "va": "center", "color": INK, "fontsize": 8}
        axes.annotate(f"{headroom:.2f}", (headroom, height), **how)
    axes.margins(x=0.18)
    axes.set_xlim(left=0)
    axes.set_xlabel("headroom below the optimum, %", color=MUTED, fontsize=9)
