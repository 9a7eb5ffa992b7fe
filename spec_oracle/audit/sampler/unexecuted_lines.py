"""Lines of the user's code that no recorded call ran: what they do is not judged.

Recorded are an ordinary call at every shape that is traced, those of `bad-input`, and, for lines that are
left, ordinary and traced calls on toy instances. Code may wait in such a line for a size, an option or a
number of calls that nobody tried. Which checks were left out, and what they found, does not matter: a line
that only broken input reaches is named where `bad-input` was not run.
"""

import ast
import linecache
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Final, TypeAlias

import numpy as np

from spec_oracle.audit.context import Context
from spec_oracle.audit.draws import sampled_drafts
from spec_oracle.audit.instances import panel
from spec_oracle.audit.reports import SubjectReport, SubjectVerdict
from spec_oracle.audit.results import How
from spec_oracle.audit.sampler.branch_tracing import Step, recording
from spec_oracle.audit.sampler.subject import SamplerSubject
from spec_oracle.audit.sampler.tracer import law_after
from spec_oracle.contracts import ContractError, SubjectRaisedError
from spec_oracle.exact.call import draft_table
from spec_oracle.exact.errors import NotTracedError
from spec_oracle.places import short_path
from spec_oracle.statistics.streams import stream

UNRUN_SECONDS: Final = 2.0  # Processor time of calls on toys that may run other lines.

NOT_JUDGED: Final = "not judged, because it was not seen to run"

_WRONG: Final = (SubjectVerdict.LOSSY, SubjectVerdict.BROKEN)

_REQUESTS: Final = 16
"""Requests of an ordinary call on a toy instance."""

_SHOWN: Final = 4
"""So many places are named."""

_FUNCTIONS: Final = ast.FunctionDef, ast.AsyncFunctionDef

Statement: TypeAlias = tuple[ast.stmt, tuple[ast.AST, ...]]
"""A statement, and the functions around it."""


def with_notes(reports: Iterable[SubjectReport]) -> tuple[SubjectReport, ...]:
    """Return the reports of a run, each with a note on lines of its files that ran for none of them.

    A subject that is lossy or broken gets no note: no line of it is said to be right.
    """
    listed, ran = tuple(reports), defaultdict[str, set[int]](set)
    for report in listed:
        for name, lines in report.code.lines.items():
            ran[name] |= lines
    notes = (_note(unrun({name: ran[name] for name in report.code.lines})) for report in listed)
    return tuple(
        replace(report, remarks=replace(report.remarks, notes=(*report.remarks.notes, *note)))
        if report.verdict not in _WRONG
        else report
        for report, note in zip(listed, notes, strict=True)
    )


def _note(places: Sequence[str]) -> list[str]:
    """Return the note on places that did not run, none where there are none."""
    more = f" and {len(places) - _SHOWN} more" * (len(places) > _SHOWN)
    return [f"{NOT_JUDGED}: {', '.join(places[:_SHOWN])}{more}"] if places else []


def lines_run(subject: SamplerSubject, context: Context) -> dict[str, frozenset[int]]:
    """Return the lines of the user's code that recorded calls ran, by file."""
    end = time.process_time() + UNRUN_SECONDS
    for call in _calls_on_toys(subject, context, end):
        ran = _lines(subject.steps)
        if ran and (time.process_time() > end or not unrun(ran)):
            break
        with suppress(NotTracedError, ContractError, SubjectRaisedError):
            call()
    return _lines(subject.steps)


def _lines(steps: Collection[Step]) -> dict[str, frozenset[int]]:
    ran = defaultdict[str, set[int]](set)
    for name, _, line in steps:
        ran[name].add(line)
    return {name: frozenset(lines) for name, lines in ran.items()}


def _calls_on_toys(subject: SamplerSubject, context: Context, end: float) -> Iterator[Callable[[], object]]:
    """Yield recorded calls on toy instances: ordinary ones, then traced ones of code that was traced.

    Some instances have few possible tokens.
    """
    code = replace(subject.code, function=recording(subject.code.function, subject.steps))
    toys = panel(3, 2, subject.num_paths, context.seed).values()
    rng, generator = stream(context.seed, "sampler/unrun"), code.generator(context.seed)
    for toy in toys:
        yield partial(code, sampled_drafts(toy, _REQUESTS, rng, subject.drafting), generator)
    joint = context.results.get("joint")
    if joint is not None and joint.how in {How.PROVEN, How.REPRESENTED}:
        for table in map(draft_table, toys):
            for row in np.flatnonzero(table.law.probability):
                left = end - time.process_time()
                yield partial(law_after, code, table.paths(np.array([row])), 0, max_seconds=left)


def unrun(ran: Mapping[str, Collection[int]]) -> list[str]:
    """Return the places, "file:line" or "file:first-last", of statements that did not run.

    ``ran`` are the lines that did, by file. Named are statements of functions of which something ran, and of
    functions in them. An exception that is raised is no output, so that what raises one is left out.
    """
    places = []
    for name, lines in sorted(ran.items()):
        listed = _statements_of(name)
        entered = {around[-1] for statement, around in listed if _has_run(statement, lines)}
        left_out = {
            _span(statement)
            for statement, around in listed
            if not entered.isdisjoint(around) and _goes_on(statement) and not _has_run(statement, lines)
        }
        places += [f"{short_path(Path(name))}:{place}" for place in _ranges(sorted(left_out))]
    return places


@lru_cache(maxsize=64)
def _statements_of(name: str) -> list[Statement]:
    """Return the statements in functions of a source file, none of what is no Python."""
    try:
        return [*_statements(ast.parse("".join(linecache.getlines(name))))]
    except SyntaxError:
        return []


def _statements(node: ast.AST, around: tuple[ast.AST, ...] = ()) -> Iterator[Statement]:
    """Yield the statements in a node, each with the functions around it, the innermost last."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, _FUNCTIONS):
            yield from _statements(child, (*around, child))
        else:
            if isinstance(child, ast.stmt) and around:
                yield child, around
            yield from _statements(child, around)


def _span(statement: ast.stmt) -> tuple[int, int]:
    """Return the first and the last line of a statement, of a compound one without its body."""
    inner = [child.lineno for child in ast.iter_child_nodes(statement) if isinstance(child, ast.stmt)]
    last = min(inner) - 1 if inner else statement.end_lineno or statement.lineno
    return statement.lineno, max(last, statement.lineno)


def _goes_on(statement: ast.stmt) -> bool:
    """Whether a statement is something to run that raises nothing by itself."""
    if isinstance(statement, ast.Expr):
        return not isinstance(statement.value, ast.Constant)
    return not isinstance(statement, (ast.Raise, ast.Global, ast.Nonlocal, ast.AnnAssign, ast.Try))


def _has_run(statement: ast.stmt, ran: Collection[int]) -> bool:
    first, last = _span(statement)
    return any(line in ran for line in range(first, last + 1))


def _ranges(spans: list[tuple[int, int]]) -> list[str]:
    """Return lines in words, those that follow each other as one range."""
    joined: list[list[int]] = []
    for first, last in spans:
        if joined and first <= joined[-1][1] + 1:
            joined[-1][1] = max(joined[-1][1], last)
        else:
            joined.append([first, last])
    return [f"{first}-{last}" if last > first else f"{first}" for first, last in joined]
