"""Whether an engine drafts, and whether its drafts are accepted and rejected, as far as it shows."""

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final
from unittest import mock

UNKNOWN: Final = "not known whether it drafts: to show it, set `drafted` and `accepted`, or `drafter`"

_DO: Final = {
    "": "",
    "never called": (
        "call `drafter`, the attribute, which was never called; or count drafts in `drafted` and `accepted`; "
        "or remove `drafter` and, if you know that it drafts, say --assume-speculating"
    ),
    "never drafted": (
        "count its drafts in `drafted`, which stayed 0; or remove `drafted` and `accepted` and, if you know "
        "that it drafts, say --assume-speculating"
    ),
    "never accepted a draft": (
        "count accepted drafts in `accepted`, which stayed 0; or give it a drafter, or a --prompt, whose "
        "drafts are accepted now and then"
    ),
    "never rejected a draft": (
        "give it a drafter that differs from the target: nothing shows what follows a rejection"
    ),
}
"""What to do about what never happened."""


@dataclass(frozen=True)
class Speculation:
    """What is known of the drafts of some generations: without drafts a right completion says little.

    ``counted`` if calls of the drafter are; ``reported`` if the engine reports what was accepted.
    """

    counted: bool = False
    reported: bool = False
    drafted: bool = False
    accepted: bool = False
    rejected: bool = False

    def __or__(self, other: "Speculation") -> "Speculation":
        """Return what is known of both together."""
        return Speculation(
            self.counted or other.counted,
            self.reported or other.reported,
            self.drafted or other.drafted,
            self.accepted or other.accepted,
            self.rejected or other.rejected,
        )

    @property
    def is_known(self) -> bool:
        """Whether anything shows that drafts were made, or that none were."""
        return self.counted or self.reported or self.drafted

    @property
    def never(self) -> str:
        """What never happened, "" where all did or nobody knows."""
        if self.is_known and not self.drafted:
            return "never drafted"
        if self.reported and not self.accepted:
            return "never accepted a draft"
        return "never rejected a draft" if self.reported and not self.rejected else ""

    @property
    def do(self) -> str:
        """What to do about what never happened, "" where all did or nobody knows."""
        return _DO["never called" if self.never == "never drafted" and self.counted else self.never]

    @property
    def notes(self) -> tuple[str, ...]:
        """What is not known of the drafts, and how to show it."""
        drafts = "it drafts; to show that drafts are accepted and rejected, set `drafted` and `accepted`"
        return () if self.reported else (drafts if self.is_known else UNKNOWN,)


@dataclass(eq=False)
class SeenDrafts:
    """What was seen of an engine's drafts in all of its generations so far."""

    seen: Speculation = Speculation()

    @contextmanager
    def of(self, engine: object) -> Iterator[None]:
        """Watch an engine inside the block."""
        with speculation_seen(engine) as seen:
            yield
        self.seen |= seen()


@contextmanager
def speculation_seen(engine: object) -> Iterator[Callable[[], Speculation]]:
    """Watch an engine inside the block; what it yields returns, after a generation, what its drafts did."""
    drafter = getattr(engine, "drafter", None)
    if hasattr(engine, "drafted") and hasattr(engine, "accepted"):
        yield lambda: _reported(int(engine.drafted), int(engine.accepted))
    elif callable(drafter) and _can_be_counted(engine, drafter):
        calls: list[None] = []
        with _counting(engine, drafter, calls):
            yield lambda: Speculation(counted=True, drafted=bool(calls))
    else:
        yield Speculation


def _reported(drafted: int, accepted: int) -> Speculation:
    return Speculation(reported=True, drafted=drafted > 0, accepted=accepted > 0, rejected=accepted < drafted)


def _can_be_counted(engine: object, drafter: Callable[..., object]) -> bool:
    """Whether calls of the drafter can be seen: not of a property, or without attributes to set."""
    is_property = isinstance(inspect.getattr_static(engine, "drafter", None), property)
    return hasattr(drafter, "register_forward_pre_hook") or (hasattr(engine, "__dict__") and not is_property)


@contextmanager
def _counting(engine: object, drafter: Callable[..., object], calls: list[None]) -> Iterator[None]:
    """Add to ``calls`` when the drafter is called: a torch module by its hook, a function in its place."""

    def counted(*arguments: object, **keywords: object) -> object:
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
