"""Engines with a path of their own: for seeded requests, for code that is traced, for larger batches.

Table engines with one part replaced, and their controls, whose random numbers nobody sees.
"""

import subprocess
import sys
import weakref
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from lab.specimens.specimen import specimen
from lab.specimens.table_engine import (
    BYTES,
    Row,
    TableEngine,
    Uniform,
    alone,
    as_uniform,
    engine,
    from_hash,
    from_random,
    from_secrets,
    from_system,
    inverted,
    peaked,
    replacing,
    rule_passes,
    table,
)

# Seeded requests have a path of their own.


@specimen("C14", "joint", engine=replacing("passes"))
def seeded_requests_accept_all(uniform: Any, p: float, q: float, seed: int | None) -> bool:
    """Requests with a seed accept every draft."""
    return seed is not None or rule_passes(uniform, p, q, seed)


@specimen("C14", "joint", engine=replacing("source"))
def every_seed_is_the_same(seed: int | None) -> Uniform:
    """Seeded requests begin at a constant: what is traced, where seeds do nothing, is right."""
    return from_random(None if seed is None else 42)


# Code that is traced is not the code that runs.


def _is_watched(number: Any) -> bool:
    return type(number) is not float


@specimen("C15", "joint", engine=replacing("source"))
def accepts_all_by_system_entropy(seed: int | None) -> Uniform:
    """Drafts are followed, their test is not: it draws from the operating system, and half of it is lost."""
    uniform = from_system(seed)
    return lambda: uniform() / 2


@specimen("control", engine=replacing("choose"))
def greedy_when_watched(row: Row, uniform: Any, seed: int | None) -> int:
    """Takes the likeliest token where its random numbers are traced, and samples elsewhere."""
    return row.index(max(row)) if _is_watched(uniform) else inverted(row, uniform, seed)


@specimen("control", engine=replacing("passes"))
def accepts_all_when_watched(uniform: Any, p: float, q: float, seed: int | None) -> bool:
    """Accepts every draft where its random numbers are traced, and by the rule elsewhere."""
    return _is_watched(uniform) or rule_passes(uniform, p, q, seed)


# Right engines whose random numbers nobody sees.


@specimen("control", engine=engine)
def draws_from_system_entropy() -> TableEngine:
    """Every random number is the operating system's."""
    return TableEngine(source=from_system)


@specimen("control", engine=engine)
def draws_secrets_of_peaked_rows() -> TableEngine:
    """Every random number is one of `secrets`, and one token has a probability of 0.985."""
    return TableEngine(target=peaked, draft=table(2, 3.0), source=from_secrets)


@specimen("control", engine=engine)
def verifies_by_system_entropy() -> TableEngine:
    """Drafts are drawn in sight, and tested by the operating system's entropy."""
    return TableEngine(source=from_system, drafting_source=from_random)


@specimen("control", engine=engine)
def verifies_peaked_rows_by_system_entropy() -> TableEngine:
    """The same where one token has a probability of 0.985, with a drafter that is nearly as sure."""
    return TableEngine(
        target=peaked, draft=partial(peaked, most=0.97), source=from_system, drafting_source=from_random
    )


@specimen("control", engine=engine)
def seeded_requests_hash_their_seed() -> TableEngine:
    """Requests without a seed can be followed; those with one hash it, and cannot."""
    return TableEngine(source=from_hash)


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    process.communicate()


class Elsewhere:
    """Draws in a process of its own; it is not copied with an engine."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None

    def __call__(self, seed: int | None) -> Uniform:
        """Begin a request."""
        if seed is not None:
            return from_hash(seed)
        if self._process is None:
            code = "import os, sys\nwhile sys.stdin.read(1):\n    sys.stdout.buffer.write(os.urandom(7))\n"
            command, pipe = [sys.executable, "-u", "-c", code], subprocess.PIPE
            self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe)  # noqa: S603  # ours
            weakref.finalize(self, _end, self._process)
        return self._drawn

    def _drawn(self) -> float:
        process = self._process
        assert process is not None
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(b"?")
        process.stdin.flush()
        return as_uniform(process.stdout.read(BYTES))

    def __deepcopy__(self, memo: dict[int, Any]) -> "Elsewhere":
        """Return the same: there is one process."""
        return self


@specimen("control", engine=engine)
def draws_in_another_process() -> TableEngine:
    """Every random number comes from a process of its own."""
    return TableEngine(source=Elsewhere())


# Batches and draft lengths of more than one size.


@specimen("S8", "batch", engine=replacing("together"))
def third_of_a_batch_drafts_alone(
    made: TableEngine, prompts: Sequence[Any], tokens: int, seeds: Sequence[int | None]
) -> list[list[int]]:
    """From the third request of a batch on, drafts are taken untested."""
    loose = replace(made, passes=lambda *_: True)
    return [*alone(made, prompts[:2], tokens, seeds[:2]), *alone(loose, prompts[2:], tokens, seeds[2:])]


@specimen("control", engine=replacing("together"))
def large_batches_in_other_order(
    made: TableEngine, prompts: Sequence[Any], tokens: int, seeds: Sequence[int | None]
) -> list[list[int]]:
    """Batches of three and more are decoded from the last request to the first."""
    if len(prompts) < 3:
        return alone(made, prompts, tokens, seeds)
    return alone(made, prompts[::-1], tokens, seeds[::-1])[::-1]


class RowsOfTheBatchBefore(TableEngine):
    """Verifies a request alone by a row first that a batch has left in the buffers of their graph."""

    left: Row | None = None

    def generate_batch(
        self, prompts: Sequence[Any], max_new_tokens: int, seeds: Sequence[int | None]
    ) -> list[list[int]]:
        """Decode several requests together, by buffers that are written anew."""
        self.left = None
        found = super().generate_batch(prompts, max_new_tokens, seeds)
        self.left = self.target([*prompts[-1], *found[-1]])
        return found

    def verifying(self, context: Sequence[int]) -> Row:
        """Return the row that verifies the token after a context."""
        row, self.left = self.left or self.target(context), None
        return row


@specimen("D23", "batch", engine=engine)
def row_of_the_batch_before() -> TableEngine:
    """A request alone is verified by a row of the batch before."""
    return RowsOfTheBatchBefore()


class LastOfThreeUntested(TableEngine):
    """Tests two drafts of a call, and takes those that follow."""

    def verified(
        self, context: list[int], drafts: list[int], uniform: Uniform, seed: int | None
    ) -> list[int]:
        """Return what a call emits."""
        found = super().verified(context, drafts[:2], uniform, seed)
        if drafts[2:] and found[:2] == drafts[:2]:
            found = [*drafts, self.choose(self.target([*context, *drafts]), uniform(), seed)]
        return found


@specimen("S1", "calls", engine=engine)
def third_draft_untested() -> TableEngine:
    """Of drafts of two tokens all are tested; of three the last one is not."""
    return LastOfThreeUntested(draft_lengths=(1, 2, 3))


@specimen("control", engine=engine)
def any_draft_length() -> TableEngine:
    """Drafts of one, two or three tokens."""
    return TableEngine(draft_lengths=(1, 2, 3))
