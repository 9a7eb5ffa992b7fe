"""The checks of a plain function beyond its joint law, as far as its pace, its law and its paths allow."""

import time
from collections.abc import Callable, Collection, Mapping
from functools import partial
from types import MappingProxyType
from typing import TypeAlias

from spec_oracle.audit.bad_input import bad_input_of_function
from spec_oracle.audit.batch import batch_of_function
from spec_oracle.audit.calls import calls_of_function
from spec_oracle.audit.draws import checks_own_rng, sampled_drafts
from spec_oracle.audit.inputs_kept import inputs_kept_by_function
from spec_oracle.audit.length import length_of_function
from spec_oracle.audit.mixed_batch import mixed_batch, options_of
from spec_oracle.audit.panel import panel
from spec_oracle.audit.plain import ContractError, SubjectRaisedError, call_plain, make_generator
from spec_oracle.audit.results import CheckResult, Status
from spec_oracle.audit.scale import scale_of_function
from spec_oracle.audit.streams import streams_of_function
from spec_oracle.audit.subjects import Subject
from spec_oracle.audit.watch import first_failure
from spec_oracle.statistics import ErrorBudget
from spec_oracle.toy import Instance

Checks: TypeAlias = Mapping[str, Callable[[], CheckResult]]

REQUESTS: Mapping[str, int] = MappingProxyType(
    {
        "length": 15_000,
        "calls": 6_000,
        "streams": 5_900,
        "batch": 9_000,
        "bad-input": 1_300,
        "inputs-kept": 64,
        "scale": 18_000,
    }
)
"""Verified requests that each check costs at most, in round numbers."""

ONE_PATH_ONLY = ("batch", "bad-input", "scale")
"""Checks whose inputs are made for one path."""

OF_A_TRUE_LAW = ("length", "calls", "streams", "batch", "scale")
"""Checks that compare with laws: those of a function whose law of one call is wrong say nothing more."""

LENGTH_INSTANCES = ("flat", "good-draft", "reversed")

_TRIAL = 16


def function_checks(subject: Subject, budget: ErrorBudget, *, num_paths: int = 1, seed: int) -> Checks:
    """Return the checks by name; each runs when it is called."""
    pairs = panel(3, 1, num_paths, seed)
    flat, other = pairs["flat"], pairs["reversed"]
    # Two drafts, since uniforms may overlap along the draft; reversed rows, which reject often.
    neighbours = panel(2, 2, 1, seed)["reversed"]
    toys = panel(3, 3, num_paths, seed)
    one_path = panel(3, 3, 1, seed)
    lengths = {name: toys[name] for name in LENGTH_INSTANCES}
    parts = {
        "length": partial(length_of_function, subject, lengths, alpha=budget.rate_of("length")),
        "calls": partial(calls_of_function, subject, flat, other, alpha=budget.rate_of("calls")),
        "streams": partial(streams_of_function, subject, flat, alpha=budget.rate_of("streams")),
        "batch": partial(_batch, subject, neighbours, one_path["flat"], alpha=budget.rate_of("batch")),
        "bad-input": partial(bad_input_of_function, subject, one_path["zeros"]),
        "inputs-kept": partial(inputs_kept_by_function, subject, toys["flat"]),
        "scale": partial(
            scale_of_function, subject, panel(3, 2, 1, seed)["flat"], alpha=budget.rate_of("scale")
        ),
    }
    return {name: partial(part, seed=seed) for name, part in parts.items()}


def _batch(
    subject: Subject, neighbours: Instance, instance: Instance, *, alpha: float, seed: int
) -> CheckResult:
    """Judge requests beside others, and mixed batches where the function takes them."""
    if not options_of(subject):
        return batch_of_function(subject, neighbours, instance, alpha=alpha, seed=seed)
    return first_failure(
        "batch",
        lambda: batch_of_function(subject, neighbours, instance, alpha=alpha / 2, seed=seed),
        lambda: mixed_batch("batch", subject, instance, alpha=alpha / 2, seed=seed),
    )


def run_function_checks(
    subject: Subject,
    budget: ErrorBudget,
    *,
    wanted: Collection[str],
    num_paths: int,
    is_law_kept: bool,
    seconds: float,
    seed: int,
) -> dict[str, CheckResult]:
    """Run the ``wanted`` checks as far as they apply; the others come back as not run, with the reason.

    ``is_law_kept`` tells how the joint law of one call was found; ``seconds`` is what a single check may
    take, judged by the pace of a first call.
    """
    pace = _pace(subject, num_paths, seed)

    def run(name: str, check: Callable[[], CheckResult]) -> CheckResult:
        if name not in wanted:
            return CheckResult(name, Status.NOT_RUN, "not asked for")
        if not is_law_kept and name in OF_A_TRUE_LAW:
            return CheckResult(name, Status.NOT_RUN, "the law of one call is not the target's")
        if num_paths > 1 and name in ONE_PATH_ONLY:
            return CheckResult(name, Status.NOT_RUN, "made for one path")
        if REQUESTS[name] > pace * seconds:
            needed = f"takes {REQUESTS[name]} requests, at {pace:.0f} a second; raise --budget"
            return CheckResult(name, Status.NOT_RUN, needed)
        return check()

    checks = function_checks(subject, budget, num_paths=num_paths, seed=seed)
    return {name: run(name, check) for name, check in checks.items()}


def _pace(subject: Subject, num_paths: int, seed: int) -> float:
    """Return verified requests per second of a second call: the first may compile.

    Infinite where the subject raises: the checks will say so better.
    """
    drafts = sampled_drafts(panel(3, 3, num_paths, seed)["flat"], _TRIAL, checks_own_rng(seed))
    generator = make_generator(subject.array, seed)
    try:
        call_plain(subject, drafts, generator)
        started = time.perf_counter()
        call_plain(subject, drafts, generator)
    except (ContractError, SubjectRaisedError):
        return float("inf")
    return _TRIAL / (time.perf_counter() - started)
