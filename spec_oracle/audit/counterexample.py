"""The smallest instance on which a subject is lossy, found and shrunk by Hypothesis."""

import re
import shlex
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from fractions import Fraction

from spec_oracle.audit.options import AuditOptions
from spec_oracle.audit.reports import Counterexample
from spec_oracle.audit.results import (
    CheckResult,
    Findings,
    Law,
    Number,
    SampledLaw,
    TextCounterexample,
    WrongCompletion,
)
from spec_oracle.audit.saved_inputs import FailingInputs
from spec_oracle.errors import InvalidInputError, SpecOracleError
from spec_oracle.exact import EmissionLaw, Gap
from spec_oracle.exact.interception.libraries import replaced
from spec_oracle.toy import Instance

DEFECT = 1e-9
"""A total variation that no rounding explains."""

ROUNDING = 1e-13

SEARCH_SECONDS = 60.0
"""Processor time of the search; from then on no instance counts as smaller."""


def counterexample(
    subject: str, found: Findings, checks: Sequence[CheckResult], options: AuditOptions, max_paths: int
) -> Counterexample | TextCounterexample | None:
    """Return the smallest instance that shows the defect found, None where none was proven or drawn.

    Where the exact law can be had on any instance, Hypothesis looks for a small one; else, and where it finds
    none, it is the worst instance of the audit. Texts of engines grow only as long as none is wrong.
    """
    shown = next((check.shown.completion for check in checks if check.shown.completion), None)
    if isinstance(shown, TextCounterexample):
        return shown
    if shown is not None:
        return _of_completion(subject, shown, options)
    if found.worst is None or found.worst not in found.laws:
        return None
    instance, law = found.instances[found.worst], found.laws[found.worst]
    if found.elsewhere is not None:
        law_of = found.elsewhere.law_of
        if options.shrink and options.instances is None:
            explained = max(DEFECT, 10 * (found.smallest_detectable_tv or 0.0))
            is_wrong = found.elsewhere.is_wrong or (lambda law: float(law.total_variation) > explained)
            instance = _smallest(law_of, is_wrong, max_paths=max_paths) or instance
        law = _in_rationals(law_of, instance)
    return _described(subject, instance, law, options)


def _in_rationals(law_of: Callable[..., EmissionLaw], instance: Instance) -> Law:
    try:
        return law_of(instance, exact=True)
    except (SpecOracleError, TypeError, ValueError, AttributeError):  # a subject for floats only
        return law_of(instance)


def _smallest(
    law_of: Callable[[Instance], EmissionLaw],
    is_wrong: Callable[[EmissionLaw], bool],
    *,
    max_paths: int,
    max_examples: int = 300,
) -> Instance | None:
    """Return the smallest instance found on which the law is wrong, by more than rounding explains.

    Deterministic: Hypothesis is derandomised. ``max_paths`` bounds the number of draft paths.
    """
    # Imported where it is needed: most audits find nothing that has to be shrunk.
    from hypothesis import HealthCheck, Phase, find, settings
    from hypothesis.errors import NoSuchExample

    from spec_oracle.toy.strategies import instances

    end, judged = time.process_time() + SEARCH_SECONDS, dict[str, bool]()

    def is_lossy(instance: Instance) -> bool:
        # Hypothesis asks for the smallest one again at the end: another answer is an error to it.
        key = repr(instance)
        if key not in judged:
            judged[key] = False
            with suppress(SpecOracleError):
                judged[key] = time.process_time() < end and is_wrong(law_of(instance))
        return judged[key]

    how = settings(
        max_examples=max_examples,
        derandomize=True,
        deadline=None,
        database=None,
        phases=[Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
    )
    # Most defects show at small sizes, and to shrink larger ones takes most of the time.
    for vocab, length in ((2, 2), (2, 3), (3, 3)):
        if time.process_time() >= end:
            break
        some = instances(
            vocab_sizes=(vocab, vocab), draft_lengths=(1, length), num_paths=(1, max_paths), max_tuples=100
        )
        with suppress(NoSuchExample), _no_source_read():
            return find(some, is_lossy, settings=how)
    return None


@contextmanager
def _no_source_read() -> Iterator[None]:
    """Keep Hypothesis from parsing every module of the user's for numbers to try.

    With a library in a working tree that takes longer than all else, and what is found would depend on what
    the code has imported. There is no public way; versions without that function read none.
    """
    from hypothesis.internal.conjecture import providers

    name = "_get_local_constants"
    of_modules = {name: lambda: providers._local_constants} if hasattr(providers, name) else {}  # noqa: SLF001
    with replaced(providers, **of_modules):
        yield


def _described(subject: str, instance: Instance, law: Law, options: AuditOptions) -> Counterexample:
    """Save the instance, unless that is not asked for, and say how to reproduce the gap."""
    file, not_saved = _saved(instance, subject, options)
    reproduce = _command(subject, "--instance", file or "FILE", *options.to_reproduce())
    sequence, _, actual = law.largest_gap
    samples = int(law.counts.sum()) if isinstance(law, SampledLaw) else 0
    number = float if samples else as_fraction  # shares of samples are no probabilities
    gap = Gap(sequence, instance.exact.target.probability(sequence), number(actual))
    masses = tuple(map(number, law.extended().reshape(-1)))
    total = number(law.total_variation)
    return Counterexample(instance, gap, total, masses, file, reproduce, not_saved=not_saved, samples=samples)


def with_file(check: CheckResult, subject: str, options: AuditOptions) -> CheckResult:
    """Save the inputs of a failed check, and add the command that runs it again.

    `joint` without such inputs has a counterexample of its own.
    """
    again = check.shown.inputs
    if again is None and (check.known or check.name == "joint"):
        return check
    again = replace(again or FailingInputs("", "", {}, check.measured.alpha, check.detail), check=check.name)
    file, not_saved = again.file, ""
    if file is None and again.part:
        file, not_saved = _saved(again, f"{subject}-{check.name}", options)
    what = ["--check", check.name] if file is None else ["--instance", file]
    reproduce = _command(subject, *what, *options.to_reproduce())
    again = replace(again, file=file, not_saved=not_saved, reproduce=reproduce)
    return replace(check, shown=replace(check.shown, inputs=again))


def _saved(found: Instance | FailingInputs, name: str, options: AuditOptions) -> tuple[str | None, str]:
    """Save a counterexample, if that is asked for; return the file, and why there is none."""
    folder = options.counterexamples
    if folder is None:
        return None, ""
    path = folder / f"{re.sub(r'[^A-Za-z0-9_.-]+', '-', name)}.json"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        found.save(path)
    except OSError as error:
        return None, f"{path}: {error.strerror or error}"
    except InvalidInputError as error:
        return None, f"{path}: {error}"
    return str(path), ""


def _command(subject: str, *words: str) -> str:
    return shlex.join(["spec-oracle", "audit", subject, *words])


def _of_completion(subject: str, found: WrongCompletion, options: AuditOptions) -> Counterexample:
    """Say how to reproduce the gap of an engine's completions."""
    name = f"{subject}/{found.engine}" if found.engine else subject
    words = ["--tokens", str(found.tokens), "--prompt", ",".join(map(str, found.prompt))]
    reproduce = _command(name, *words, *options.to_reproduce())
    return Counterexample(
        None, found.gap, found.total_variation, (), None, reproduce, found.prompt, found.tokens
    )


def as_fraction(value: Number, largest_denominator: int = 10**5) -> Number:
    """Return the short fraction that a float is the rounding of, if there is one; else the value."""
    if isinstance(value, Fraction):
        return value
    near = Fraction(float(value)).limit_denominator(largest_denominator)
    return near if abs(float(near) - value) < ROUNDING else value
