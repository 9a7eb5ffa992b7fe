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
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Final

import numpy as np

from spec_oracle.audit.context import Context
from spec_oracle.audit.draws import sampled_drafts
from spec_oracle.audit.instances import panel
from spec_oracle.audit.reports import SubjectReport, SubjectVerdict
from spec_oracle.audit.results import How
from spec_oracle.audit.sampler.branch_tracing import LINES, Step, recording
from spec_oracle.audit.sampler.subject import SamplerSubject
from spec_oracle.audit.sampler.tracer import law_after
from spec_oracle.contracts import ContractError, SamplerCode, SubjectRaisedError
from spec_oracle.exact.call import draft_table
from spec_oracle.exact.errors import NotTracedError
from spec_oracle.places import short_path

UNRUN_SECONDS: Final = 2.0  # Processor time in which toys are traced to see whether all lines run.

NOT_JUDGED: Final = "not judged, because it was not seen to run"

_WRONG: Final = (SubjectVerdict.LOSSY, SubjectVerdict.BROKEN)

_REQUESTS: Final = 16
"""Requests of an ordinary call on a toy instance."""

_SHOWN: Final = 4
"""So many places are named."""

_FUNCTIONS: Final = ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda


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
        _with_note(report, note) if note and report.verdict not in _WRONG else report
        for report, note in zip(listed, notes, strict=True)
    )


def _with_note(report: SubjectReport, note: str) -> SubjectReport:
    remarks = report.remarks
    return replace(report, remarks=replace(remarks, notes=(*remarks.notes, note)))


def _note(places: Sequence[str]) -> str:
    if not places:
        return ""
    more = f" and {len(places) - _SHOWN} more" * (len(places) > _SHOWN)
    return f"{NOT_JUDGED}: {', '.join(places[:_SHOWN])}{more}"


def lines_run(subject: SamplerSubject, context: Context) -> dict[str, frozenset[int]]:
    """Return the lines of the user's code that recorded calls ran, by file."""
    joint = context.results.get("joint")
    if unrun(_lines(subject.steps)) or not subject.steps:
        _call_toys(subject, context)
    if joint is not None and joint.how in {How.PROVEN, How.REPRESENTED}:
        _trace_toys(subject, context)
    return _lines(subject.steps)


def _lines(steps: Collection[Step]) -> dict[str, frozenset[int]]:
    ran = defaultdict[str, set[int]](set)
    for name, _, kind, following in steps:
        if kind == LINES:
            ran[name].add(following)
    return {name: frozenset(lines) for name, lines in ran.items()}


def _recorded(subject: SamplerSubject) -> SamplerCode:
    return replace(subject.code, function=recording(subject.code.function, subject.steps.update))


def _call_toys(subject: SamplerSubject, context: Context) -> None:
    """Call the code on toy instances, as long as time is left."""
    end, code = time.process_time() + UNRUN_SECONDS, _recorded(subject)
    rng, generator = context.stream("sampler/unrun"), code.generator(context.seed)
    for instance in panel(3, 2, subject.num_paths, context.seed).values():
        if time.process_time() > end:
            return
        with suppress(ContractError, SubjectRaisedError):
            code(sampled_drafts(instance, _REQUESTS, rng, subject.drafting), generator)


def _trace_toys(subject: SamplerSubject, context: Context) -> None:
    """Trace the code on toy instances, of which some have few possible tokens, until nothing is left."""
    end, code = time.process_time() + UNRUN_SECONDS, _recorded(subject)
    for instance in panel(3, 2, subject.num_paths, context.seed).values():
        table = draft_table(instance)
        for row in np.flatnonzero(table.law.probability):
            left = end - time.process_time()
            if left <= 0 or not unrun(_lines(subject.steps)):
                return
            try:
                law_after(code, table.paths(np.array([row])), 0, max_seconds=left)
            except (NotTracedError, ContractError, SubjectRaisedError):
                break


def unrun(ran: Mapping[str, Collection[int]]) -> list[str]:
    """Return the places, "file:line" or "file:first-last", of statements that did not run.

    ``ran`` are the lines that did, by file. Named are statements of functions of which something ran, and of
    functions in them. An exception that is raised is no output, so that what raises one is left out.
    """
    places = []
    for name, lines in sorted(ran.items()):
        left_out = sorted(set(_unrun_in(_parsed(name), lines, within=False)))
        places += [f"{short_path(Path(name))}:{place}" for place in _ranges(left_out)]
    return places


@lru_cache(maxsize=64)
def _parsed(name: str) -> ast.AST:
    """Return the syntax tree of a source file, an empty one of what is no Python."""
    try:
        return ast.parse("".join(linecache.getlines(name)))
    except SyntaxError:
        return ast.Module([], [])


def _unrun_in(node: ast.AST, ran: Collection[int], *, within: bool) -> Iterator[tuple[int, int]]:
    """Yield first and last lines of what did not run in functions that did, or are ``within`` one."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, _FUNCTIONS):
            entered = within or any(_has_run(own, ran) for own in _statements(child))
            yield from _unrun_in(child, ran, within=entered)
        else:
            if within and isinstance(child, ast.stmt) and _goes_on(child) and not _has_run(child, ran):
                yield _span(child)
            yield from _unrun_in(child, ran, within=within)


def _statements(function: ast.AST) -> Iterator[ast.stmt]:
    """Yield the statements of a function, without those of functions in it."""
    for child in ast.iter_child_nodes(function):
        if not isinstance(child, _FUNCTIONS):
            if isinstance(child, ast.stmt):
                yield child
            yield from _statements(child)


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
