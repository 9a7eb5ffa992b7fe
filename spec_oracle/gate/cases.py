"""Checks of subjects one by one, in this process: what they share is computed once."""

import shlex
from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

from spec_oracle.audit import AuditOptions, CheckResult, Counterexample, Subject
from spec_oracle.audit.table import CHECKS
from spec_oracle.audit.context import Bench
from spec_oracle.audit.counterexample import counterexample
from spec_oracle.audit.reports import TextCounterexample
from spec_oracle.audit.run import as_subject, report_on, result_of
from spec_oracle.gate import baseline
from spec_oracle.threads import one_torch_thread


class SharedAudit:
    """A subject and the bench of all its checks; each check is run once, when it is first asked for.

    ``alpha`` is the false-alarm rate of all of them, to be set before the first one is run. A check finds
    what an audit of all finds: `joint` is run before any other.
    """

    def __init__(self, subject: Any, options: AuditOptions, baseline: Path | None = None) -> None:
        self.given, self.options, self.baseline = subject, options, baseline
        self.alpha = options.alpha
        self.results: dict[str, CheckResult] = {}

    @cached_property
    def subject(self) -> Subject:
        """The subject; errors as `as_subject`."""
        return as_subject(self.given, self.options)

    @cached_property
    def bench(self) -> Bench:
        """Where its checks are run."""
        return self.options.bench(self.alpha)

    def check_names(self) -> Iterator[str]:
        """Yield the checks that are asked for."""
        asked = self.options.checks
        yield from (name for name in CHECKS if asked is None or name in {*asked, "joint"})
        if self.baseline is not None:
            yield baseline.CHECK

    def result(self, name: str) -> CheckResult:
        """Return the result of a check."""
        for needed in ("joint", name):
            if needed not in self.results:
                with one_torch_thread():
                    self.results[needed] = self._result(needed)
        return self.results[name]

    def _result(self, name: str) -> CheckResult:
        if name == baseline.CHECK and self.baseline is not None:
            report = report_on(self.subject, self.options, self.bench, [self.results["joint"]])
            return baseline.compared(report, baseline.read_baseline(self.baseline).get(report.subject))
        return result_of(CHECKS[name], self.subject, self.options, self.bench)

    def counterexample(self) -> Counterexample | TextCounterexample | None:
        """Return the smallest counterexample to the law of one call, None where none was found."""
        found = self.bench.findings
        if found is None:
            return None
        options = replace(self.options, alpha=self.alpha)
        return counterexample(self.subject.name, found, options, self.subject.num_paths)

    def reproduce(self, name: str) -> str:
        """Return the command line that runs a check again, at the same rate."""
        options = replace(self.options, alpha=self.alpha)
        what = ["--baseline", str(self.baseline)] if name == baseline.CHECK else ["--check", name]
        return shlex.join(["spec-oracle", "audit", self.subject.name, *what, *options.to_reproduce()])

    def figures(self) -> dict[str, Any]:
        """Return what was found of the law of one call, as JSON data."""
        found = self.bench.findings
        if found is None:
            return {}
        return {
            "evidence": found.evidence.value,
            "total_variation": found.total_variation,
            "smallest_detectable_tv": found.smallest_detectable_tv,
            "block_efficiency": found.block_efficiency,
        }
