"""Whether an engine drafted, and whether drafts were accepted and rejected: told by it, or seen by a spy.

Without it nobody knows whether a right text says anything of speculation at all.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from unittest import mock


@dataclass(frozen=True)
class Drafts:
    """What is known of the drafts of some generations; ``told`` says whether acceptance is known at all."""

    spied: bool = False
    told: bool = False
    drafted: bool = False
    accepted: bool = False
    rejected: bool = False

    def __or__(self, other: "Drafts") -> "Drafts":
        """Return what is known of both together."""
        names = ("spied", "told", "drafted", "accepted", "rejected")
        return Drafts(**{name: getattr(self, name) or getattr(other, name) for name in names})

    @property
    def missing(self) -> str:
        """Say what never happened, "" where all did or nobody knows."""
        if (self.spied or self.told) and not self.drafted:
            return "never drafted"
        if self.told and not self.accepted:
            return "never accepted a draft"
        return "never rejected a draft" if self.told and not self.rejected else ""

    @property
    def unknown(self) -> str:
        """Say what is not known, "" where all is."""
        if self.told:
            return ""
        if self.spied:
            return "it drafts; not known whether drafts are accepted or rejected: no `drafted`, `accepted`"
        return "not known whether it drafts, accepts or rejects: no `drafted` and `accepted`, no `drafter`"


@contextmanager
def drafts_seen(engine: Any) -> Iterator[Callable[[], Drafts]]:
    """Watch an engine inside the block; what it yields tells, after one generation, what its drafts did."""
    drafter = getattr(engine, "drafter", None)
    if hasattr(engine, "drafted") and hasattr(engine, "accepted"):
        yield lambda: _told(engine)
    elif callable(drafter):
        calls: list[None] = []
        with _counting(engine, drafter, calls):
            yield lambda: Drafts(spied=True, drafted=bool(calls))
    else:
        yield Drafts


def _told(engine: Any) -> Drafts:
    drafted, accepted = int(engine.drafted), int(engine.accepted)
    return Drafts(told=True, drafted=drafted > 0, accepted=accepted > 0, rejected=accepted < drafted)


@contextmanager
def _counting(engine: Any, drafter: Any, calls: list[None]) -> Iterator[None]:
    """Add to ``calls`` when the drafter is called: a torch module by its hook, a function in its place."""

    def counted(*arguments: Any, **keywords: Any) -> Any:
        calls.append(None)
        return drafter(*arguments, **keywords)

    if hasattr(drafter, "register_forward_pre_hook"):
        hook = drafter.register_forward_pre_hook(lambda *_: calls.append(None))
        try:
            yield
        finally:
            hook.remove()
    else:
        with mock.patch.object(engine, "drafter", counted):
            yield
