"""Checks of subjects one by one, in this process: what they share is computed once."""

import shlex
from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property
from types import MappingProxyType
from typing import Any

from spec_oracle.audit.checks import CHECKS
from spec_oracle.audit.context import Context
from spec_oracle.audit.counterexample import counterexample, with_file
from spec_oracle.audit.first_call import FirstCall
from spec_oracle.audit.options import AuditOptions
from spec_oracle.audit.reports import Counterexample
from spec_oracle.audit.results import CheckResult, Findings, Status, TextCounterexample
from spec_oracle.audit.run import as_subject
from spec_oracle.audit.subject import Subject
from spec_oracle.audit.suite import SUITES
from spec_oracle.audit.verdict import evidence_of, with_record
from spec_oracle.json_data import Json
from spec_oracle.threads import one_torch_thread


class SharedAudit:
    """A subject and the results of its checks; each check is run once, when it is first asked for.

    ``alpha`` is the false-alarm rate of all of them, to be set before the first one is run. A check finds
    what an audit of all finds: `joint` is run before any other.
    """

    def __init__(self, subject: Any, options: AuditOptions) -> None:
        self.given, self.options = subject, options
        self.alpha = options.alpha
        self.results: dict[str, CheckResult] = {}

    @cached_property
    def subject(self) -> Subject:
        """The subject; errors as `as_subject`."""
        return as_subject(self.given, self.options)

    @cached_property
    def context(self) -> Context:
        """What its checks share."""
        return replace(self.options.context(self.alpha), results=MappingProxyType(self.results))

    @cached_property
    def first(self) -> FirstCall:
        """What is known of its contract."""
        return FirstCall(self.subject, self.context, SUITES[self.subject.kind])

    @property
    def findings(self) -> Findings:
        """What `joint` found besides its result."""
        return self.context.findings

    def check_names(self) -> Iterator[str]:
        """Yield the checks to run."""
        chosen = self.options.checks
        yield from (name for name in CHECKS if chosen is None or name in {*chosen, "joint"})

    def result(self, name: str) -> CheckResult:
        """Return the result of a check."""
        for needed in ("joint", name):
            if needed not in self.results:
                with one_torch_thread():
                    self.results[needed] = self._result(needed)
        return with_record(self.results[name], self.subject.facts)

    def _result(self, name: str) -> CheckResult:
        found = self.first.result(CHECKS[name], self.options.reason_to_skip(name))
        if found.shown.inputs is None and found.status is not Status.FAILED:
            return found
        return with_file(found, self.subject.name, replace(self.options, alpha=self.alpha))

    def counterexample(self) -> Counterexample | TextCounterexample | None:
        """Return the smallest counterexample of `joint`, None where none was found."""
        options = replace(self.options, alpha=self.alpha)
        checks = list(self.results.values())
        return counterexample(self.subject.name, self.findings, checks, options, self.subject.num_paths)

    def reproduce(self, name: str) -> str:
        """Return the command line that runs a check again, at the same rate."""
        options = replace(self.options, alpha=self.alpha)
        words = ["spec-oracle", "audit", self.subject.name, "--check", name, *options.to_reproduce()]
        return shlex.join(words)

    def figures(self) -> dict[str, Json]:
        """Return what `joint` found, as JSON data."""
        if "joint" not in self.results:
            return {}
        found = self.findings
        return {
            "evidence": evidence_of(self.results["joint"]).value,
            "total_variation": found.total_variation,
            "smallest_detectable_tv": found.smallest_detectable_tv,
            "block_efficiency": found.block_efficiency,
        }
