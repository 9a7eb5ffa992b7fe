"""Names lines of the user's code that no recorded call ran: what they do is not judged.

Recorded are an ordinary call at every shape that is traced, the calls of `bad-input`, and, while lines are
left, ordinary calls on toy instances. What compiled code runs is not recorded, nor what threads run that were
started before.
"""

import ast
import linecache
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from itertools import chain
from pathlib import Path
from types import FrameType
from typing import Any, Final, TypeAlias

from spec_oracle.audit.context import Context
from spec_oracle.audit.draftings import sampled_trees
from spec_oracle.audit.draws import sampled_drafts
from spec_oracle.audit.instances import panel
from spec_oracle.audit.larger_trees import later_sizes
from spec_oracle.audit.reports import SubjectReport, SubjectVerdict
from spec_oracle.audit.sampler.subject import SamplerSubject
from spec_oracle.contracts import ContractError, SubjectRaisedError
from spec_oracle.places import is_users, short_path
from spec_oracle.statistics.streams import stream
from verifiers import Drafts, Paths

UNRUN_SECONDS: Final = 2.0  # Processor time of calls on toy instances.
UNRUN_REQUESTS: Final = 64  # Requests of such a call.
NOT_JUDGED: Final = "not judged, because it was not seen to run"

Functions: TypeAlias = tuple[ast.AST, ...]
_WRONG: Final = (SubjectVerdict.LOSSY, SubjectVerdict.BROKEN)
_SHOWN: Final = 4  # So many places are named.
_FUNCTIONS: Final = ast.FunctionDef, ast.AsyncFunctionDef
_LEFT_OUT: Final = *_FUNCTIONS, ast.Raise, ast.Global, ast.Nonlocal, ast.AnnAssign, ast.Try
"""Statements that emit nothing by themselves."""


@contextmanager
def recording(ran: defaultdict[str, set[int]]) -> Iterator[None]:
    """Add to ``ran`` the users' lines that run meanwhile, unseen by `sys.gettrace`; also in new threads."""
    is_over = False

    def seen(frame: FrameType, event: str, _: object) -> Any:
        if is_over:  # in a thread that goes on
            return sys.settrace(None)
        name = frame.f_code.co_filename
        if event == "line":
            ran[name].add(frame.f_lineno)
        return seen if is_users(name) else None

    before, gettrace, of_threads = sys.gettrace(), sys.gettrace, threading.gettrace()
    sys.gettrace = lambda: before
    sys.settrace(seen)
    threading.settrace(seen)
    try:
        yield
    finally:
        is_over = True
        sys.settrace(before)
        threading.settrace(of_threads)
        sys.gettrace = gettrace


def with_lines(report: SubjectReport, subject: SamplerSubject, context: Context) -> SubjectReport:
    """Return the report with the lines that ran; where some are left, toy instances are verified first."""
    ran, seed, end = subject.ran, context.seed, time.process_time() + UNRUN_SECONDS
    if report.verdict not in _WRONG and (unrun(ran) or not ran):
        code, rng = subject.code, stream(seed, "sampler/unrun")
        toys = panel(3, 2, subject.num_paths, seed).values()
        trees = later_sizes(subject.on_trees, seed) if subject.on_trees else ()
        batches: Iterator[Paths | Drafts] = chain(
            (sampled_drafts(toy, UNRUN_REQUESTS, rng, subject.drafting) for toy in toys),
            (sampled_trees(one.instance, one.drafting, UNRUN_REQUESTS, rng) for one in trees),
        )
        for drafts in batches:
            if time.process_time() > end:
                break
            with suppress(ContractError, SubjectRaisedError), recording(ran):
                code(drafts, code.generator(seed))
    return replace(report, code=replace(report.code, lines=ran))


def with_notes(reports: Iterable[SubjectReport]) -> tuple[SubjectReport, ...]:
    """Return the reports of a run, each with a note on lines of its files that ran for none of them.

    A subject that is lossy or broken gets no note: no line of it is said to be right.
    """
    listed, ran = tuple(reports), defaultdict[str, set[int]](set)
    for report in listed:
        for name, lines in report.code.lines.items():
            ran[name] |= lines

    def noted(report: SubjectReport) -> SubjectReport:
        places = unrun({name: ran[name] for name in report.code.lines})
        more = f" and {len(places) - _SHOWN} more" * (len(places) > _SHOWN)
        notes = [f"{NOT_JUDGED}: {', '.join(places[:_SHOWN])}{more}"] if places else []
        return replace(report, remarks=replace(report.remarks, notes=(*report.remarks.notes, *notes)))

    return tuple(one if one.verdict in _WRONG else noted(one) for one in listed)


def unrun(ran: Mapping[str, set[int]]) -> list[str]:
    """Return the places, "file:line" or "file:first-last", of statements that did not run.

    ``ran`` are the lines that did, by file. Named are statements of functions of which something ran, and of
    functions in them; not what raises an exception, which is no output.
    """
    places = []
    for name, lines in sorted(ran.items()):
        try:
            listed = [*_statements(ast.parse("".join(linecache.getlines(name))))]
        except SyntaxError:  # a file that is no Python
            continue
        entered = {around[-1] for span, around in listed if not lines.isdisjoint(span)}
        left = [span for span, around in listed if lines.isdisjoint(span) and not entered.isdisjoint(around)]
        missing = {line for span in left for line in span}
        firsts = sorted(line for line in missing if line - 1 not in missing)
        lasts = sorted(line for line in missing if line + 1 not in missing)
        for first, last in zip(firsts, lasts, strict=True):
            places.append(f"{short_path(Path(name))}:{first}{f'-{last}' * (last > first)}")
    return places


def _statements(node: ast.AST, around: Functions = ()) -> Iterator[tuple[range, Functions]]:
    """Yield lines of each statement, without its body, and the functions around it, the innermost last."""
    for child in ast.iter_child_nodes(node):
        is_text = isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant)
        if isinstance(child, ast.stmt) and around and not is_text and not isinstance(child, _LEFT_OUT):
            inner = [one.lineno for one in ast.iter_child_nodes(child) if isinstance(one, ast.stmt)]
            last = min(inner) - 1 if inner else child.end_lineno or child.lineno
            yield range(child.lineno, max(last, child.lineno) + 1), around
        yield from _statements(child, (*around, child) if isinstance(child, _FUNCTIONS) else around)
