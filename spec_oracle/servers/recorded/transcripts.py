"""Files of recorded completions: written by `audit-server`, or by any other program.

A file has one line of JSON for each completion. ``prompt`` and ``tokens`` are token ids. If known: ``rows``,
the log-probabilities listed at each token by id, null if unknown; ``draft_rows``, those of the draft model;
``logprobs``, those reported of the tokens; ``sampling``, the temperature, top_k and top_p of the request.
Without ``rows`` a scoring server or local weights are the reference.
"""

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import BinaryIO, Final, Self

from spec_oracle.audit.logprobs import Logs
from spec_oracle.contracts.completion import Prefix, Sampling
from spec_oracle.errors import InvalidInputError
from spec_oracle.servers.checks.distributions import Distributions, Weights
from spec_oracle.servers.contract import prefixes_of


@dataclass(frozen=True)
class Transcript:
    """One completion and what was recorded of it; fields as in a line of the file."""

    prompt: tuple[int, ...]
    tokens: tuple[int, ...]
    sampling: Sampling = field(default_factory=Sampling)
    rows: tuple[Logs | None, ...] = ()
    draft_rows: tuple[Logs | None, ...] = ()
    logprobs: tuple[float | None, ...] = ()
    noise: float = 0.0

    @classmethod
    def read(cls, line: str | bytes, number: int) -> Self:
        """Return a line as a transcript; raises `InvalidInputError` for one that is none."""
        try:
            data = json.loads(line)
            rows = {name: tuple(map(_logs, data.get(name) or ())) for name in ("rows", "draft_rows")}
            found = cls(
                tuple(map(_as_id, data["prompt"])),
                tuple(map(_as_id, data["tokens"])),
                Sampling(**data.get("sampling", {})),
                logprobs=tuple(None if log is None else float(log) for log in data.get("logprobs") or ()),
                noise=float(data.get("noise", 0.0)),
                **rows,
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise InvalidInputError(
                f"line {number}: not a transcript: {type(error).__name__}: {error}"
            ) from None
        for name in ("rows", "draft_rows", "logprobs"):
            if (given := getattr(found, name)) and len(given) != len(found.tokens):
                raise InvalidInputError(f"line {number}: {name}: {len(given)} for {len(found.tokens)} tokens")
        return found


_FIELDS: Final = ("temperature", "top_k", "top_p")


def _as_id(token: object) -> int:
    if type(token) is not int or token < 0:
        raise ValueError(f"expected a token id, got {token!r}")
    return token


def _logs(row: Mapping[str, float] | None) -> Logs | None:
    return None if row is None else {int(token): float(log) for token, log in row.items()}


def line_of(completion: Prefix, reported: Distributions, drafts: Distributions | Weights | None) -> str:
    """Return a completion of an audit as a line of a file."""
    number, tokens = completion
    sampling = {name: getattr(reported.server.sampling, name) for name in _FIELDS}
    prompt = reported.server.prompts[number]
    line: dict[str, object] = {"prompt": prompt, "tokens": tokens, "sampling": sampling}
    for name, rows in (("rows", reported), ("draft_rows", drafts)):
        if rows is not None:
            line[name] = [rows.logs.get(prefix) for prefix in prefixes_of(completion)]
    if reported.is_noisy:
        line["noise"] = math.log1p(reported.relative_error) / 2
    return json.dumps(line)


def read_all(lines: Iterable[str | bytes], start: int = 1) -> list[Transcript]:
    """Return the transcripts of lines, empty ones left out."""
    return [Transcript.read(line, number) for number, line in enumerate(lines, start) if line.strip()]


def read_written(data: bytes) -> tuple[list[Transcript], bytes]:
    """Return the transcripts of a file, and its last line where that is still being written, else b""."""
    *lines, begun = data.split(b"\n")
    found = read_all(lines)
    try:
        return found + read_all([begun], len(lines) + 1), b""
    except InvalidInputError:
        if not found:  # a file of one line that is none
            raise
    return found, begun


def read_growing(file: BinaryIO) -> Iterator[Transcript | None]:
    """Yield the transcripts of whole lines as they are added to a file, and None after each look at it."""
    last, begun = 0, b""
    while True:
        *lines, begun = (begun + file.read()).split(b"\n")
        for number, line in enumerate(lines, last + 1):
            yield from read_all([line], number)
        last += len(lines)
        yield None
