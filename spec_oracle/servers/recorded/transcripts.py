"""Files of recorded completions: written by `audit-server`, or by any other program; and copies in them.

A file has one line of JSON for each completion. ``prompt`` and ``tokens`` are token ids. If known: ``rows``,
the log-probabilities listed at each token by id, null if unknown; ``draft_rows``, those of the draft model;
``logprobs``, those reported of the tokens; ``sampling``, the temperature, top_k and top_p of the request.
Without ``rows`` a scoring server or local weights are the reference.

Completions may be recorded more than once. `Copies` finds which tokens are new, and how many copies chance
explains. A token is new if nothing was sampled behind the same text before: behind the prompt and the tokens
so far, or behind these tokens whatever the prompt. That is known before it came. So new tokens alone are
sound evidence, however often completions were written down, in which order, as a whole, up to a retry, or
from there on.

Whether there are copies at all is decided by two e-processes, each with half of `COPY_RATE` for a whole file.
The first bets on completions that are equal to one before. A right one is with probability s at most, the sum
of the probabilities of all different ones before after its prompt. The second bets on completions that have a
stretch of text in common with one before: of probability x, from one of T + 1 places on, they do by chance
with probability p = 2 n (T + 1) x at most, where n came before, and 1 / (2 sqrt(p)) has a mean of 1 at most.
Token ids are compared, no lines: time stamps and request ids play no part.

>>> copies = Copies()
>>> tokens, logs = range(20), np.full(20, np.log(0.1))
>>> [int(copies.add([1], tokens[:end], logs[:end]).sum()) for end in (12, 20, 20)]
[12, 7, 0]
>>> copies.found
'1 of 3 completions is equal to one before (at most 0.0 by chance), 1 has a longer part of one than by chance'
"""

import json
import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any, BinaryIO, Final, Self

import numpy as np

from spec_oracle.arrays import Booleans, Floats
from spec_oracle.audit.logprobs import Logs
from spec_oracle.contracts.completion import Prefix, Sampling
from spec_oracle.errors import InvalidInputError, unknown
from spec_oracle.servers.checks.distributions import Distributions, Weights
from spec_oracle.servers.contract import prefixes_of

_FIELDS: Final = ("temperature", "top_k", "top_p")

_ROUNDED: Final = 1e-3
"""By how much the log-probability of a token that is certain may be above 0, in nats."""

COPY_RATE: Final = 1e-9
"""Of files without copies in which some are found, at most."""

_SHARES: Final = np.array([0.02, 0.1, 0.3, 0.6, 0.9])
"""Of copies, that are bet on in equal parts."""

_LONG: Final = 1e-4
"""P-value up to which a completion that begins as one before is counted as a copy."""

_LEAST: Final = 1e-300


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
            data = _object(json.loads(line))
            rows = {name: tuple(map(_logs, data.get(name) or ())) for name in ("rows", "draft_rows")}
            found = cls(
                _ids(data, "prompt"),
                _ids(data, "tokens"),
                _sampling(data.get("sampling") or {}),
                logprobs=tuple(None if log is None else _log(log) for log in data.get("logprobs") or ()),
                noise=float(data.get("noise", 0.0)),
                **rows,
            )
        except (TypeError, ValueError, AttributeError, RecursionError) as error:
            kind = "" if type(error) in (ValueError, InvalidInputError) else f"{type(error).__name__}: "
            raise InvalidInputError(f"line {number}: not a transcript: {kind}{error}") from None
        for name in ("rows", "draft_rows", "logprobs"):
            if (given := getattr(found, name)) and len(given) != len(found.tokens):
                raise InvalidInputError(f"line {number}: {name}: {len(given)} for {len(found.tokens)} tokens")
        return found


def _object(data: object) -> Mapping[str, Any]:
    if isinstance(data, Mapping):
        return data
    raise ValueError(f"expected an object, got {json.dumps(data)[:60]}")


def _sampling(given: object) -> Sampling:
    """Return the fields of a request that change its distribution; null, and a top_k of -1, are off."""
    fields: dict[str, Any] = {name: value for name, value in _object(given).items() if value is not None}
    if foreign := next((name for name in fields if name not in _FIELDS), ""):
        known = f"{unknown(foreign, _FIELDS)}: others are not applied to rows"
        raise ValueError(f"sampling: {known}; leave them out where they change no distribution")
    if fields.get("top_k") == -1:
        fields["top_k"] = 0
    return Sampling(**fields)


def _ids(data: Mapping[str, Any], name: str) -> tuple[int, ...]:
    if name not in data:
        raise ValueError(f"no {name!r}: a line has token ids as 'prompt' and as 'tokens'")
    if isinstance(data[name], list):
        return tuple(map(_as_id, data[name]))
    raise ValueError(f"{name}: expected a list of token ids, got {json.dumps(data[name])[:60]}")


def _as_id(token: object) -> int:
    if type(token) is not int or token < 0:
        raise ValueError(f"expected a token id, got {token!r}")
    return token


def _logs(row: Mapping[str, float] | None) -> Logs | None:
    if row is None:
        return None
    if foreign := [token for token in row if not token.isdecimal()]:
        raise ValueError(f"expected log-probabilities by token id, got {foreign[0]!r}")
    return {int(token): _log(log) for token, log in row.items()}


def _log(value: float) -> float:
    if not isinstance(value, int | float | str):
        raise InvalidInputError(f"expected a log-probability, got {json.dumps(value)[:60]}")
    if (log := float(value)) > _ROUNDED:
        raise ValueError(f"expected log-probabilities, got {value}: write their logarithms")
    return log


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


@dataclass
class Copies:
    """The completions so far, as hashes of the texts after which a token was sampled.

    ``equal`` counts completions that are equal to one before, ``expected`` how many of these chance explains
    at most; ``parts`` those that only have a part in common with one before, longer than chance explains.
    """

    completions: int = field(default=0, init=False)
    equal: int = field(default=0, init=False)
    expected: float = field(default=0.0, init=False)
    parts: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        self._texts, self._beginnings, self._whole = set[int](), set[int](), set[int]()
        self._mass: defaultdict[int, float] = defaultdict(float)
        # Two e-processes, [2, S] by share of copies, and the largest mean so far of each; nats.
        self._log_e, self.largest = np.zeros((2, len(_SHARES))), [0.0, 0.0]

    def add(self, prompt: Sequence[int], tokens: Sequence[int], logs: Floats) -> Booleans:
        """Add a completion; return which of its T tokens are new, [T].

        ``logs`` [T] are the log-probabilities of its tokens at most, 0 where they are not known.
        """
        *_, start = accumulate(map(int, prompt), _hashed, initial=1)
        texts = list(accumulate(map(int, tokens), _hashed, initial=start))
        beginnings = list(accumulate(map(int, tokens), _hashed, initial=0))
        seen = np.array(
            [[node in self._texts for node in texts], [b in self._beginnings for b in beginnings]]
        )
        is_equal = self._bet_on_equal(start, texts[-1], float(logs.sum()))
        p_value = self._bet_on_stretch(min(_least_sum(logs, one[:-1] & one[1:]) for one in seen), len(tokens))
        self.parts += p_value <= _LONG and not is_equal
        self.completions += 1
        self._texts.update(texts)
        self._beginnings.update(beginnings)
        return np.asarray(~seen[:, :-1].any(axis=0))

    def _bet_on_equal(self, start: int, end: int, log_mass: float) -> bool:
        """Return whether the completion between two texts is equal to one before."""
        whole, chance = _hashed(start, end), min(self._mass[start], 1.0)
        is_equal = whole in self._whole
        if chance:  # else there was none before
            self._bet(0, is_equal / max(chance, _LEAST))
            self.expected += chance
        if is_equal:
            self.equal += 1
        else:
            self._whole.add(whole)
            self._mass[start] += math.exp(max(log_mass, math.log(_LEAST)))
        return is_equal

    def _bet_on_stretch(self, log_mass: float, tokens: int) -> float:
        """Return the p-value of what a completion has in common with one before, of such a probability."""
        if not self.completions:
            return 1.0
        number = 2 * self.completions * (tokens + 1)
        p_value = min(1.0, max(number * math.exp(max(log_mass, math.log(_LEAST))), _LEAST))
        self._bet(1, 0.5 / math.sqrt(p_value))
        return p_value

    def _bet(self, number: int, e_value: float) -> None:
        """Bet each share of copies at an e-value, which is 0 for a completion that is no copy."""
        self._log_e[number] += np.log1p(_SHARES * (e_value - 1))
        mean = float(np.logaddexp.reduce(self._log_e[number])) - math.log(len(_SHARES))
        self.largest[number] = max(self.largest[number], mean)

    @property
    def found(self) -> str:
        """Say how many copies there are, "" for no more than chance explains."""
        if max(self.largest) < -math.log(COPY_RATE / 2):
            return ""
        are, have = ("is", "are")[self.equal != 1], ("has", "have")[self.parts != 1]
        found = f"{self.equal:,} of {self.completions:,} completions {are} equal to one before "
        found += f"(at most {self.expected:.1f} by chance)"
        return found + f", {self.parts:,} {have} a longer part of one than by chance" * (self.parts > 0)


def _hashed(before: int, token: int) -> int:
    return hash((before, token))


def _least_sum(logs: Floats, chosen: Booleans) -> float:
    """Return the least sum of numbers [T] in a row, all of them ``chosen`` [T]; 0 for none."""
    least = here = 0.0
    for log, is_chosen in zip(logs.tolist(), chosen.tolist(), strict=True):
        here = here + log if is_chosen else 0.0
        least = min(least, here)
    return least
