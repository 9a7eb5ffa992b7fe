"""Audit right samplers of five textbook styles under many seeds: `python -m lab.studies.null_audits`.

None may be lossy, and no more than the stated rate inconclusive. The quick checks are run: their samples are
others under every seed. Prints a line for every verdict that is wrong, and the counts after every fifty
audits and at the end: a run that is cut off has said what it found.
"""

import argparse
import time
from collections import Counter
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from lab.specimens.foreign.controls import drawing
from lab.specimens.foreign.rows import Array, draw, invert
from spec_oracle.audit import AuditOptions, SubjectReport, SubjectVerdict, audit_subject
from spec_oracle.audit.results import Status
from spec_oracle.audit.sampler.subject import SamplerSubject
from spec_oracle.contracts import SamplerCode
from spec_oracle.statistics import DEFAULT_ALPHA

CHECKS: Final = ("length", "batch", "bad-input", "inputs-kept")
SECONDS: Final = 6.0
EVERY: Final = 50
"""After so many audits the counts so far are printed."""


def by_loop(weights: Array, rng: Any) -> int:
    """Add up weights until their sum exceeds a uniform."""
    uniform, total, last = rng.random() * weights.sum(), 0.0, 0
    for token in np.flatnonzero(weights):
        total, last = total + weights[token], int(token)
        if uniform < total:
            break
    return last


def by_race(weights: Array, rng: Any) -> int:
    """Take the first of exponential clocks."""
    return int(np.argmax(weights / rng.exponential(size=len(weights))))


def by_gumbel(weights: Array, rng: Any) -> int:
    """Take the largest logarithm plus Gumbel noise."""
    with np.errstate(divide="ignore"):
        return int(np.argmax(np.log(weights) + rng.gumbel(size=len(weights))))


STYLES: Final[dict[str, Callable[[Array, Any], int]]] = {
    "loops": by_loop,
    "cumsum and searchsorted": lambda weights, rng: invert(weights, rng.random()),
    "race": by_race,
    "Gumbel": by_gumbel,
    "choice": draw,
}


def audited(number: int, seed: int = 0) -> SubjectReport:
    """Return the report of the audit of one number: each style in turn."""
    style = [*STYLES][number % len(STYLES)]
    subject = SamplerSubject(style, SamplerCode(drawing(STYLES[style])))
    options = AuditOptions(seed=seed + number, checks=CHECKS, budget=SECONDS, shrink=False)
    return audit_subject(subject, options, DEFAULT_ALPHA)


def main() -> None:
    """Audit so many, and print the verdicts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begin no audit after that")
    options = parser.parse_args()
    end, verdicts, done = time.monotonic() + options.seconds, Counter[str](), 0

    def counted() -> None:
        counts = ", ".join(f"{count} {what}" for what, count in verdicts.items())
        print(f"{done} null audits from seed {options.seed}: {counts}", flush=True)  # noqa: T201

    for number in range(options.count):
        if time.monotonic() > end:
            break
        report = audited(number, options.seed)
        verdicts[report.verdict.value] += 1
        wanted = (check for check in report.checks if check.name in CHECKS)
        verdicts.update(f"without {check.name}" for check in wanted if check.status is Status.NOT_RUN)
        if report.verdict is not SubjectVerdict.LOSSLESS:
            wrong = "; ".join(check.detail for check in report.checks if check.status is not Status.PASSED)
            print(f"{number}: {report.subject} is {report.verdict.value}: {wrong}", flush=True)  # noqa: T201
        done = number + 1
        if done % EVERY == 0:
            counted()
    if done % EVERY:
        counted()


if __name__ == "__main__":
    main()
