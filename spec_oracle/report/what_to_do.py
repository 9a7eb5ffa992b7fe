"""The next step for open checks: where to look in the code, or the one command that should decide them."""

import math
import re
import shlex
from collections.abc import Sequence
from typing import Final

import numpy as np

from spec_oracle.audit.options import AuditOptions, Isolation
from spec_oracle.audit.reports import Counterexample, SubjectReport, SubjectVerdict
from spec_oracle.audit.results import CheckResult, Status
from spec_oracle.errors import INTERRUPTED
from spec_oracle.report.reading import open_checks
from spec_oracle.statistics import goodness_of_fit_by_g

_SHARE: Final = 0.01
"""Of the total variation: smaller differences are rounding."""

_CHANCE: Final = 1e-6
"""Of samples, by which a position that is right would be named."""

_ACCEPTS: Final = "the test that accepts the first draft, or what is sampled after a rejection"
_BONUS: Final = "the bonus token that follows a whole draft: its row, and its random number"
_PLACE: Final = "its row, a random number that is used twice, or going on after a rejection"
_ENGINE: Final = "what differs from target-only decoding after that prompt"
_LOOK_AT: Final = {
    "joint": "how a draft is accepted, and what is sampled after a rejection",
    "shapes": "what depends on that size or form",
    "length": "when it accepts, or declare the rule that it is",
    "long-texts": "how a draft is accepted, and what is sampled after a rejection",
    "calls": "what is kept between calls",
    "logprobs": "what it reports: log-probabilities of the distribution that is sampled are expected",
    "draft-law": "what the drafter reports: the distribution that it samples from is expected",
    "streams": "where random numbers come from: the generator or the seed of the request is expected",
    "batch": "what requests of a batch share",
    "bad-input": "such input: refuse it, or emit only tokens of positive probability",
    "inputs-kept": "what it changes: copy that first",
    "scale": "what depends on the size of the vocabulary or on the number type",
    "baseline": "what made it slower, or accept that with --update-baseline",
}
"""Where to look when a check of a rule or of a sampler failed."""

_CONTRACTS: Final = {
    "sampler": " (if it takes several paths, add --num-paths K), or let "
    "`spec-oracle init {0.subject}` write an adapter",
    "engine": "{1}; docs/guide/audit-your-engine.md has it",
    "rule": "{1}; docs/guide/write-a-verifier.md has it",
}
"""What else to do about a broken contract, by kind of subject."""

_OF_FILES: Final = ("--report", "--output", "--format", "--durations")
_COMMANDS: Final = ("audit", "audit-server", "audit-transcripts")

_ADMIT: Final = "to admit it, "
"""How the record of a failure begins; it follows where to look."""

_RUN_JOINT: Final = "run joint, too: of the checks that ran none judges the distribution by itself"

_MORE: Final = 4
"""So many times the budget is the next one to try, where no check knows which should do."""

_RAISED: Final = "raised "  # How the detail of a check begins that ended with an exception.
_MEND: Final = "mend what raises, or how it is called"

_IF_SO: Final = ("--only", "--assume-speculating")
"""Options that declare something."""


def next_steps(subject: SubjectReport, command: str = "") -> list[str]:
    """Return what to do about all open checks, the most urgent step first; [] where nothing is open.

    The other checks of a lossy or a broken subject wait for its first step. ``command`` is the line that made
    the report, whose options the next one keeps.
    """
    steps = [what_to_do(subject, command)]
    if subject.verdict not in (SubjectVerdict.LOSSY, SubjectVerdict.BROKEN):
        checks = open_checks(subject)
        steps += [check.remarks.do for check in checks if _is_a_step(check)]
        undecided = [check for check in checks if check.status is not Status.FAILED and not check.known]
        steps += [_look(subject, check) for check in undecided if _raised(check)]
        steps.append(_next_command(subject, undecided, command) if undecided else "")
    return list(dict.fromkeys(filter(None, steps)))


def what_to_do(subject: SubjectReport, command: str = "") -> str:
    """Return the first step: what to change, or the one command to run next; "" where nothing is to do."""
    checks = open_checks(subject)
    if subject.verdict is SubjectVerdict.INCONCLUSIVE:  # which waits for what is undecided
        checks = sorted(checks, key=lambda check: check.status is Status.FAILED)
    if not checks:
        return _RUN_JOINT if subject.verdict is SubjectVerdict.INCONCLUSIVE and not subject.error else ""
    first = checks[0]
    do, is_record = first.remarks.do, first.remarks.do.startswith(_ADMIT)
    if _is_a_step(first):
        return do
    if subject.verdict is SubjectVerdict.BROKEN and (do or subject.kind in _CONTRACTS):
        form = _CONTRACTS.get(subject.kind, "").format(subject, _place(subject))
        if "_adapter:" in subject.subject:  # it is one that was written so
            form = form.partition(", or let")[0]
        is_raised = first.detail.startswith(_RAISED)
        asked = f"{'do' if subject.kind == 'rule' else 'return'} what the contract asks for"
        asked = _MEND if is_raised else asked
        return command_for(subject, command, do.split()) if do else f"{asked}{form}"
    if first.status is Status.FAILED or _raised(first):
        return _look(subject, first, do if is_record else "")
    if first.known:
        return f"remove {', '.join(check.name for check in checks if check.known)} from expected-failures"
    return _next_command(subject, checks, command) or _asked(first)


def _raised(check: CheckResult) -> bool:
    return " raised " in check.detail and not check.remarks.do


def _asked(check: CheckResult) -> str:
    is_raised = check.status is not Status.FAILED and check.detail.startswith(_RAISED)
    return f"{_MEND}; " * is_raised + f"`spec-oracle explain {check.name}` says what is asked"


def _look(subject: SubjectReport, check: CheckResult, then: str = "") -> str:
    return f"look at {_look_at(subject, check)}; {then or _asked(check)}"


def _is_a_step(check: CheckResult) -> bool:
    """Return whether the check says in a sentence what to do; an option, or a record, is a part of a step."""
    do = check.remarks.do
    return bool(do) and not do.startswith((_ADMIT, "--"))


def _look_at(subject: SubjectReport, check: CheckResult) -> str:
    """Return where to look, with the place in the user's code."""
    found, place = subject.counterexample, _place(subject)
    if check.name == "joint" and isinstance(found, Counterexample) and found.instance is not None:
        wrong = first_wrong_token(found)
        if wrong == 0:
            return f"{_ACCEPTS}{place}"
        if wrong is None:
            return f"{_LOOK_AT['joint']}{place}"
        if wrong == found.instance.draft_length:
            return f"{_BONUS}{place}"
        return f"position {wrong}{place}: {_PLACE}"
    if subject.kind == "engine" and check.name in ("joint", "calls", "long-texts", "shapes"):
        return f"{_ENGINE}{place}"
    return f"{_LOOK_AT.get(check.name, 'what it found')}{place}"


def _place(subject: SubjectReport) -> str:
    return f" ({subject.code.place})" if subject.code.place else ""


def first_wrong_token(found: Counterexample) -> int | None:
    """Return the first position at which the distribution of the emitted tokens up to it is wrong.

    From 0 to L: the last one is that of the bonus token; None where samples do not show it. The instance of
    the counterexample is needed.
    """
    instance = found.instance
    assert instance is not None
    depth = instance.draft_length + 1
    shape = (instance.vocab_size,) * depth
    expected = np.asarray(instance.target.joint(depth), dtype=float).reshape(shape)
    actual = np.array(found.actual, dtype=float).reshape(shape)
    least = _SHARE * float(found.total_variation)
    for position in range(depth):
        law, seen = (one.sum(axis=tuple(range(position + 1, depth))).ravel() for one in (expected, actual))
        if found.samples:
            counts = np.rint(seen * found.samples).astype(np.int64)
            is_wrong = not goodness_of_fit_by_g(counts, law, alpha=_CHANCE).passed
        else:
            is_wrong = abs(seen - law).max() > least
        if is_wrong:
            return position
    return None if found.samples else depth - 1


def _next_command(subject: SubjectReport, checks: Sequence[CheckResult], command: str) -> str:
    """Return the command that should decide the open checks, "" if none is known."""
    if any(check.detail == INTERRUPTED for check in checks):
        return command_for(subject, command, [])
    options = [check.remarks.do.split() for check in checks]
    if declared := next((words for words in options if words[:1] and words[0] in _IF_SO), None):
        return f"if it is so: {command_for(subject, command, declared)}"
    if limit := next((words for words in options if words[:1] == ["--timeout"]), None):
        return command_for(subject, command, limit)
    budget = max(_budget(check, command) for check in checks)
    longer = ["--timeout", f"{_MORE * budget}"] if 2 * budget > _time_limit(subject, command) else []
    return command_for(subject, command, ["--budget", f"{budget}", *longer]) if budget else ""


def _time_limit(subject: SubjectReport, command: str) -> float:
    """Return the seconds after which a subject is ended: a server, whose requests have a limit, is not."""
    if subject.kind == "server":
        return math.inf
    given = re.search(r"--timeout[ =]([\d.]+)", command)
    return float(given[1]) if given else Isolation.timeout


def _budget(check: CheckResult, command: str) -> int:
    """Return the ``--budget`` that should decide an open check, 0 where time is not what it needs."""
    option, _, number = check.remarks.do.partition(" ")
    if option == "--budget" and number:
        return int(number)
    if option != "--budget" and "--budget" not in check.detail:
        return 0
    given = re.search(r"--budget[ =]([\d.]+)", command)
    had = max(float(given[1] if given else AuditOptions.budget), check.seconds)
    return 10 * math.ceil(_MORE * had / 10)


def command_for(subject: SubjectReport, command: str, added: Sequence[str]) -> str:
    """Return the command that made the report, for one subject, with other options; without files.

    What is declared of other axes by ``--only`` stays.
    """
    words = shlex.split(command)
    is_ours = words[:1] == ["spec-oracle"] and words[1:2] and words[1] in _COMMANDS
    name, options = (words[1], words[2:]) if is_ours else ("audit", [])
    while options and not options[0].startswith("-"):  # the subjects
        options.pop(0)
    dropped = {*_OF_FILES, *(word for word in added if word.startswith("--"))}
    axes = {word.partition("=")[0] for word in added}
    for at in reversed(range(len(options))):
        axis = "".join(options[at + 1 : at + 2]).partition("=")[0]
        if options[at] in dropped and (options[at] != "--only" or axis in axes):
            del options[at : at + 2]
    return shlex.join(["spec-oracle", name, subject.subject, *options, *added])
