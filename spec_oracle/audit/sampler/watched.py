"""Whether samplers run the same branches when they are traced: ordinary calls beside traced ones."""

import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np

from spec_oracle.audit import effort
from spec_oracle.audit.draws import draft_table
from spec_oracle.contracts import SamplerCode
from spec_oracle.exact.conditional import ConditionalLaw
from spec_oracle.exact.interception import UnlikeError, Watch
from spec_oracle.exact.interception.watched import places_of
from spec_oracle.toy import Instance
from verifiers import Drafts

LawAfter: TypeAlias = Callable[..., ConditionalLaw]
"""Traces code after drafts: `spec_oracle.audit.sampler.traced.law_after`."""


@dataclass
class Beside:
    """Ordinary calls of code beside traced ones: what ordinary ones do must have been traced.

    ``traced`` are the steps of traced calls, ``missing`` those of ordinary ones that none of them took.
    """

    code: SamplerCode
    rng: np.random.Generator
    traced: set[int] = field(default_factory=set)
    missing: set[int] = field(default_factory=set)
    _watch: Watch = field(default_factory=Watch)

    def law_after(self, drafts: Drafts, request: int, law_after: LawAfter) -> ConditionalLaw:
        """Return the exact law of the emission of one request.

        Where ordinary calls branch by a sampled id of which few were run, those that they emitted are run.
        Raises `UnlikeError` besides what ``law_after`` raises.
        """
        ids = self._called(drafts, request, effort.WATCHED_CALLS)
        law = law_after(self.code, drafts, request, watched=self._while_missing)
        self._settle()
        if self.missing and law.assumed:
            law = law_after(self.code, drafts, request, looked_at=ids, watched=self._while_missing)
        self._require_alike()
        return law

    def compare(self, instance: Instance, law_after: LawAfter) -> None:
        """Call the code in the ordinary way after each draft of an instance that was traced already.

        Raises `UnlikeError` where it takes another step.
        """
        table = draft_table(instance)
        for row in np.flatnonzero(table.law.probability).tolist():
            drafts = table.drafts(np.array([row]))
            ids = self._called(drafts, 0, 1)
            self._settle()
            if self.missing:
                law_after(self.code, drafts, looked_at=ids, watched=self._while_missing)
            self._require_alike()

    def watched(self) -> AbstractContextManager[Any]:
        """Return the context of a traced run that is watched."""
        return self._watch

    def _while_missing(self) -> AbstractContextManager[Any]:
        """Return the context of a traced run: it is watched as long as something is missing."""
        self._settle()
        return self._watch if self.missing else nullcontext()

    def _called(self, drafts: Drafts, request: int, calls: int) -> set[int]:
        """Call the code in the ordinary way, and return the ids that the request got."""
        ids: set[int] = set()
        watch, function = Watch(), self.code.function

        def watched(*arguments: Any) -> Any:
            with watch:
                return function(*arguments)

        end = time.process_time() + effort.WATCHED_SECONDS
        for number in range(calls):
            if number and time.process_time() > end:
                break
            found = replace(self.code, function=watched)(
                drafts, self.code.generator(int(self.rng.integers(2**31)))
            )
            ids.update(found.tokens[request, : found.lengths[request]].tolist())
        self.missing |= watch.steps - self.traced
        return ids

    def _settle(self) -> None:
        if self._watch.steps:
            self.traced |= self._watch.steps
            self.missing -= self._watch.steps
            self._watch.steps.clear()

    def _require_alike(self) -> None:
        """Raise `UnlikeError` where ordinary calls took a step that no traced call took."""
        self._settle()
        if self.missing:
            raise UnlikeError(
                f"{places_of(self.missing)}: ordinary calls take another branch than traced ones"
            )
