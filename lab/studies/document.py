"""The document of the study: every figure in it comes from the records."""

from collections.abc import Sequence

import numpy as np

from lab.studies.aggregate import FACTORS, TIE, Summary, losses, mean_by_level, summary
from lab.studies.measure import (
    BALANCED,
    FINE_STEPS,
    MAX_NODE_TUPLES,
    MAX_TUPLES,
    MAX_TUPLES_CARRIED,
    NUM_CALLS,
    OURS,
    PUBLISHED,
    RULES,
    CarriedRecord,
    Record,
)
from lab.studies.selected_path import STEPS
from lab.studies.toys import CONCENTRATIONS, DENOMINATOR, Grid
from spec_oracle.report.table import markdown_table

MEAN_TARGET, HARDER_TARGET = 0.003, 0.005
RATIO_TARGET = 1 / 3
BELOW_TARGET, ABOVE_TARGET = 0.85, 0.005


def document(
    grid: Grid,
    records: Sequence[Record],
    larger: Sequence[Record],
    carried: Sequence[CarriedRecord],
    plots: dict[str, str],
) -> str:
    """Return the document in Markdown."""
    sections = [
        _introduction(grid, records, larger),
        "## Shortfall of every rule\n\n" + summary_section(records),
        f"![Shortfall of every toy, by rule]({plots['distribution']})",
        "## Targets\n\n" + targets_section(records, larger),
        "## Who wins where\n\n" + factors_section(records),
        f"![Mean shortfall by factor]({plots['factors']})",
        "## Where our rule loses\n\n" + losses_section(records),
        "## Larger toys\n\n" + larger_section(larger),
        "## Experiment: carry-over on a selected path\n\n" + carried_section(carried),
        f"![Gain by carry-over]({plots['carried']})",
    ]
    return "\n\n".join(sections) + "\n"


def _introduction(grid: Grid, records: Sequence[Record], larger: Sequence[Record]) -> str:
    largest = max(max(record.total_variation.values()) for record in (*records, *larger))
    return f"""# Multi-path rules against the K-path optimum

Made by `python -m lab.studies.multipath --output docs/evidence/study-multipath.md --plots docs/evidence/`;
do not edit.

{len(records)} toys: V in {grid.vocab_sizes}, L in {grid.draft_lengths}, K in {grid.num_paths} as far as
V^(L K) <= {grid.max_tuples}; draft quality {", ".join(grid.qualities)}; rows {" and ".join(CONCENTRATIONS)};
{grid.seeds} seeds each, one beyond {grid.few_beyond} draft tuples; probabilities in multiples of
1/{DENOMINATOR}. The *shortfall* is 1 - BE / optimum: BE the exact block efficiency of one call by enumeration
of the rule's code (`emission_law`), the optimum that of `multi_path_optimum`, the most that any
lossless rule without carry-over reaches. Drafts are K independent paths. *Ours* is `{OURS}`. The largest
total variation of any rule on any toy: {largest:.0e}."""


def percent(share: float, digits: int = 2) -> str:
    """Return a share in percent; what is zero to rounding without a sign."""
    return f"{100 * share:.{digits}f} %" if abs(share) > TIE else "0 %"


SUMMARY_HEAD = ("rule", "toys", "mean", "median", "9th decile", "worst", "best or tied", "ours / its mean")


def _summary_cells(row: Summary) -> tuple[str, ...]:
    shares = map(percent, (row.mean, row.median, row.ninth_decile, row.worst))
    over_mean = f"{row.reference_mean / row.mean:.2f}" if row.mean > TIE else "-"
    return f"`{row.rule}`", str(row.toys), *shares, str(row.best), over_mean


def summaries(records: Sequence[Record]) -> list[Summary]:
    """Return the summaries of all rules: ours, `BALANCED`, and the published ones, best first."""
    rules = [rule for rule in RULES if any(rule in record.shortfall for record in records)]
    rows = [summary(records, rule, RULES, OURS) for rule in rules]
    return sorted(rows, key=lambda row: (row.rule in PUBLISHED, row.rule == BALANCED, row.mean))


def summary_section(records: Sequence[Record]) -> str:
    """Return the summary table."""
    return (
        markdown_table(SUMMARY_HEAD, [_summary_cells(row) for row in summaries(records)])
        + f"\n\n`block` looks at one path only. `canonical` was tried up to {MAX_TUPLES['canonical']} draft "
        "tuples. The last column compares means over the same toys. The average of toys is one of this grid: "
        "it says which rule is better where, not by how much on a real model; "
        "[language-models.md](../guide/language-models.md) has the same rules on cuts of a real pair."
    )


def targets_section(records: Sequence[Record], larger: Sequence[Record]) -> str:
    """Return what was demanded, and whether it holds."""
    every = [*records, *larger]
    several = _longer(every)
    rows = [
        *(_mean_row("mean shortfall", of, MEAN_TARGET) for of in (records, every)),
        *(_mean_row("mean shortfall for L > 1", of, HARDER_TARGET) for of in (_longer(records), several)),
        *(_ratio_row(several, length) for length in sorted({r.toy.instance.draft_length for r in several})),
        *_against_balanced(_longer(records)),
    ]
    table = markdown_table(
        ("target", "found", "met"), [(name, found, "yes" if met else "**no**") for name, found, met in rows]
    )
    return (
        f"The {len(records)} toys above, and these with the {len(larger)} larger ones below, where not every "
        f"rule can be measured.\n\n{table}"
    )


def _longer(records: Sequence[Record]) -> list[Record]:
    return [record for record in records if record.toy.instance.draft_length > 1]


def _mean_row(name: str, records: Sequence[Record], most: float) -> tuple[str, str, bool]:
    mean = summary(records, OURS, RULES, OURS).mean
    return f"{name} ({len(records)} toys): at most {percent(most, 1)}", percent(mean), mean <= most


def _ratio_row(records: Sequence[Record], length: int) -> tuple[str, str, bool]:
    """Compare with the published rule that is best at draft length ``length``."""
    at_length = [record for record in records if record.toy.instance.draft_length == length]
    rivals = [row for row in summaries(at_length) if row.rule in PUBLISHED]
    closest = max(rivals, key=lambda row: row.reference_mean / row.mean)
    ratio = closest.reference_mean / closest.mean
    means = f"{percent(closest.reference_mean)} against {percent(closest.mean)} on {closest.toys} toys"
    names = ", ".join(f"`{row.rule}`" for row in rivals)
    return (
        f"L = {length}: at most a third of any published rule's ({names})",
        f"{ratio:.3f} of `{closest.rule}` ({means})",
        ratio <= RATIO_TARGET,
    )


def _against_balanced(records: Sequence[Record]) -> list[tuple[str, str, bool]]:
    """Compare with balanced multi-path block, toy by toy."""
    gains = np.array([record.shortfall[BALANCED] - record.shortfall[OURS] for record in records])
    below = float((gains > TIE).mean())
    optimal = float(np.mean([record.shortfall[BALANCED] <= TIE for record in records]))
    most_above, there = -float(gains.min()), records[int(gains.argmin())].toy.source
    return [
        (
            f"L > 1: below `{BALANCED}` on at least {percent(BELOW_TARGET, 0)} of the toys",
            f"{percent(below)}; that rule is the optimum on {percent(optimal)}",
            below >= BELOW_TARGET,
        ),
        (
            f"never more than {percent(ABOVE_TARGET, 1)} of the optimum above it",
            f"at most {percent(most_above)}, `{there}`",
            most_above <= ABOVE_TARGET,
        ),
    ]


def factors_section(records: Sequence[Record]) -> str:
    """Return the mean shortfall of every rule at each level of each factor, the least in bold."""
    rules = [row.rule for row in summaries(records)]
    tables = []
    for factor in FACTORS:
        columns = [mean_by_level(records, factor, rule) for rule in rules]
        rows = []
        for level in columns[0]:
            means = [column.get(level) for column in columns]
            least = min(mean for mean in means if mean is not None)
            shown = ("-" if mean is None else percent(mean) for mean in means)
            is_best = (mean is not None and mean <= least + TIE for mean in means)
            bold = (f"**{text}**" if best else text for text, best in zip(shown, is_best, strict=True))
            rows.append((level, *bold))
        tables.append(markdown_table((factor, *(f"`{rule}`" for rule in rules)), rows))
    return "\n\n".join(tables)


def losses_section(records: Sequence[Record]) -> str:
    """Return on how many toys another rule is better, with the smallest instance of each, and why."""
    rows = []
    for lost in losses(records, OURS, RULES[1:]):
        smallest, largest = lost.records[0], lost.largest
        gap = percent(largest.shortfall[OURS] - largest.shortfall[lost.rival])
        ours, theirs = (percent(smallest.shortfall[rule], 3) for rule in (OURS, lost.rival))
        there = (gap, _size(largest), f"{ours} / {theirs}", f"`{smallest.toy.source}`")
        rows.append((f"`{lost.rival}`", str(len(lost.records)), *there))
    head = ("better rule", "toys", "largest gap", "there", "smallest toy: ours / its shortfall", "made by")
    worst = max(records, key=lambda record: record.shortfall[OURS])
    fine = float(np.mean([record.fine for record in records]))
    return (
        markdown_table(head, rows)
        + f"\n\nOur own worst: {percent(worst.shortfall[OURS])} at {_size(worst)}, `{worst.toy.source}`; "
        f"optimum {worst.optimum:.6f} tokens per call.\n\n"
        "Why: every node is divided so that the most of *its* tokens can be accepted, before what follows "
        "is looked at; the optimum may give up some of them for more of the next. And what a division leaves "
        "free is passed on as ranks that suit most rows to come, not as the best for those that do come. "
        f"The number of ranks costs little: with {FINE_STEPS} in place of {STEPS} the mean is "
        f"{percent(fine, 3)} in place of {percent(summary(records, OURS, RULES, OURS).mean, 3)}."
    )


def _size(record: Record) -> str:
    vocab, length, paths = record.toy.size
    return f"V={vocab} L={length} K={paths} {record.toy.quality} {record.toy.concentration}"


def larger_section(larger: Sequence[Record]) -> str:
    """Return ours against the optimum where draft tuples cannot be enumerated."""
    rules = [rule for rule in RULES if any(rule in record.shortfall for record in larger)]
    rows = []
    for record in larger:
        toy, lost = record.toy, record.shortfall
        shares = (percent(lost[rule]) if rule in lost else "-" for rule in rules)
        rows.append((*map(str, toy.size), toy.quality, toy.concentration, f"{record.optimum:.4f}", *shares))
    head = ("V", "L", "K", "draft quality", "rows", "bound, tokens", *(f"`{rule}`" for rule in rules))
    worst = max(larger, key=lambda record: record.shortfall[OURS])
    return (
        "Longer drafts, and toys with too many draft tuples to enumerate, one seed each. Shortfalls of the "
        f"latter are from a proven bound, at most {max(record.gap for record in larger):.1e} tokens above "
        "what can be attained. There the tokens of our rule follow from its divisions, a node at a time (on "
        "small toys the tests compare them with the enumeration), and walks are enumerated with the states "
        f"of a node merged, where a node has at most {MAX_NODE_TUPLES} draft tuples; other rules of several "
        "paths are out of reach.\n\n"
        + markdown_table(head, rows)
        + f"\n\nOur worst: {percent(worst.shortfall[OURS])} at {_size(worst)}, `{worst.toy.source}`."
    )


def carried_section(carried: Sequence[CarriedRecord]) -> str:
    """Return what carry-over gains, call by call."""
    plain, tokens = np.array([r.balanced for r in carried]), np.array([r.carried for r in carried])
    columns = [
        *((f"call {i + 1}", plain[:, i], tokens[:, i]) for i in range(NUM_CALLS)),
        (f"all {NUM_CALLS}", plain.mean(axis=1), tokens.mean(axis=1)),
    ]
    rows = []
    for name, before, after in columns:
        gain = after / before - 1
        gains = map(percent, (gain.mean(), gain.min(), gain.max()))
        counts = f"{(gain > TIE).sum()} / {(gain < -TIE).sum()}"
        rows.append((name, f"{before.mean():.4f}", f"{after.mean():.4f}", *gains, counts))
    gains_head = ("mean gain", "least", "most", "toys better / worse")
    head = ("call", f"`{BALANCED}`, tokens", "carried, tokens", *gains_head)
    shortfall = np.array([record.shortfall for record in carried])
    variation = max(record.total_variation for record in carried)
    return (
        f"Accept min(p, path law) on the path that `{BALANCED}` selects (its law: "
        "`lab/studies/count_law.py`), owe the rest of the block a modified target. Tokens of a call are "
        "exact, from contexts and debts in which the calls before leave the text; after the first call the "
        "draft, "
        f"whose memory is shorter than the target's, is no longer of the quality that labels the toy. "
        f"{len(carried)} toys with L > 1 and at most {MAX_TUPLES_CARRIED} draft tuples. "
        "Lossless over the text of several calls: largest "
        f"total variation {variation:.0e}. Shortfall of the first call from `block_transport_optimum`: mean "
        f"{percent(float(shortfall.mean()))}, worst {percent(float(shortfall.max()))}.\n\n"
        + markdown_table(head, rows)
    )
