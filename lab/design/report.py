"""Which tree and which rule emit most at each budget of drafted tokens, in all formats."""

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from lab.design import INDEPENDENT, ORACLE, Costs, Design, Row
from spec_oracle.report.table import Table, formats, percent, plain, plural, short

HEAD = ("rule", "drafts", "tree", "tokens/call", "least", "most", "optimum", "headroom", "ours")
THROUGHPUT = "throughput"


def conclusions(result: Design, budget: int) -> list[str]:
    """Return the sentences on a budget: what is best, and where published combinations win."""
    rows = [row for row in result.best(budget) if row.drafting != ORACLE]
    said = [f"Best with {plural(budget, 'drafted token')}: {_sentence(rows[0], rows, result)}"]
    independent = [row for row in rows if row.drafting == INDEPENDENT]
    if independent and independent[0] is not rows[0]:
        said.append(f"Of independent drafts: {_sentence(independent[0], independent, result)}")
    return said


def _sentence(best: Row, rows: list[Row], result: Design) -> str:
    """Name the best row, and the best of the other kind with its distance."""
    whose = "ours" if best.ours else "published"
    text = f"{best.name}, {_amount(best, result)}; it is {whose}."
    other = next((row for row in rows if row.ours != best.ours), None)
    if other is None:
        return text
    kind = "published combination" if best.ours else "combination of ours"
    less = percent(1 - other.throughput / best.throughput, 2)
    return f"{text} The best {kind} is {other.name}, {_amount(other, result)}, {less} less."


def _amount(row: Row, result: Design) -> str:
    tokens = f"{row.mean:.4f} tokens per call"
    return tokens if result.costs == Costs() else f"{tokens} and a throughput of {row.throughput:.4f}"


def _cells(row: Row, result: Design) -> tuple[str, ...]:
    """Return the row of a table under `HEAD`."""
    optimum = "-" if row.bound is None else f"{'<= ' * (row.gap is None)}{row.bound:.4f}"
    return (
        *(row.rule, row.drafting, row.shape),
        *(f"{tokens:.4f}" for tokens in (row.mean, row.least, row.most)),
        *(optimum, percent(row.headroom, 2), "yes" if row.ours else ""),
        *([] if result.costs == Costs() else [f"{row.throughput:.4f}"]),
    )


def _tables(result: Design) -> Iterator[Table]:
    """Yield a table a budget, with the best tree of each rule and drafting; then what the words mean."""
    head = HEAD if result.costs == Costs() else (*HEAD, THROUGHPUT)
    right = [column for column in range(3, len(head)) if column != HEAD.index("ours")]
    yield Table((), (), above=result.title)
    for budget in result.budgets:
        rows = [_cells(row, result) for row in result.best(budget)]
        yield Table(head, rows, right, "\n\n".join(conclusions(result, budget)))
    yield Table((), (), below="\n\n".join(_notes(result)))


def _notes(result: Design) -> Iterator[str]:
    """Yield what the columns mean, one sentence a fact, and what was left out."""
    costs, gap = result.costs, max((row.gap for row in result.rows if row.gap is not None), default=0.0)
    most = "most tokens per call" if costs == Costs() else "highest throughput"
    mean = " on the mean over the prompts" if result.prompts > 1 else ""
    yield f"Rows: for each rule and way to draft, the tree with the {most}{mean}."
    yield (
        "Optimum: the most that any lossless rule emits with these drafts, attained to "
        f"{short(gap, 2)} tokens. After <= it is a bound that may not be attained."
    )
    yield (
        "Trees: K paths of L tokens. Delay d: d tokens before the paths branch. Fan-outs: drafts of each "
        "node, level by level. Nodes: prefixes, ranks or slots that are chosen one by one."
    )
    if result.prompts > 1:
        yield "Fixed ranks and fixed slots are chosen, for each prompt, by their mean over the other prompts."
    yield f"No drafter knows the tree of the prefixes {ORACLE}: it is for comparison."
    if any(row.rule == "univer" for row in result.rows):
        yield "univer is a reconstruction from the abstract of arXiv 2605.04543."
    yield from result.notes
    if costs != Costs():
        yield (
            f"Throughput: tokens in the time of one target call on one token. A call takes 1, and "
            f"{costs.draft:g} for each level of the tree, {costs.target:g} for each drafted token and "
            f"{costs.verify:g} for verification."
        )
    yield from (f"Left out: {reason}." for reason in result.left_out)
    if result.seconds:
        yield f"Processor time: {result.seconds:.0f} s, models included."


def _data(result: Design) -> list[dict[str, Any]]:
    return [
        {
            **{name: value for name, value in asdict(row).items() if name not in {"mean", "bound", "gap"}},
            "block_efficiency": plain(row.mean),
            "bound": plain(row.bound),
            "bound_gap": plain(row.gap),
        }
        for row in result.rows
    ]


FORMATS = formats(_tables, _data, title="Which draft tree, which rule")


def page(result: Design, command: str, plot: str | None) -> str:
    """Return the Markdown of a page that a ``command`` makes, with its ``plot`` (a path from the page)."""
    title, _, rest = FORMATS["markdown"](result).partition("\n\n")
    picture = [f"![Tokens per call against drafted tokens, a line a combination]({plot})"] if plot else []
    return "\n\n".join([title, f"Made by `{command}`; do not edit.", *picture, rest])
