"""Recorded completions, judged token by token without the server that made them.

A file has one line of JSON for each completion. ``prompt`` and ``tokens`` are token ids. If known: ``rows``,
the log-probabilities listed at each token by id, null if unknown; ``draft_rows``, those of the draft model;
``logprobs``, those reported of the tokens; ``sampling``, the temperature, top_k and top_p of the request.
Without ``rows`` a scoring server or local weights are the reference.
"""

import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from functools import partial
from typing import BinaryIO, Final, Self

import numpy as np

from spec_oracle.audit.logprobs import NEGLIGIBLE, Distribution, Logs, difference
from spec_oracle.audit.long_tokens import is_decided, result_of_tokens
from spec_oracle.audit.reports import Evidence, SubjectReport, SubjectVerdict
from spec_oracle.audit.results import (
    Cause,
    CheckResult,
    How,
    Remarks,
    Status,
    check_result,
    inconclusive,
    not_asked,
)
from spec_oracle.contracts.completion import Prefix, Sampling, Token
from spec_oracle.errors import InvalidInputError
from spec_oracle.servers.checks import effort
from spec_oracle.servers.checks.distributions import Distributions, Rows, Weights
from spec_oracle.servers.checks.long_texts import JudgedCompletions
from spec_oracle.servers.checks.model import EXPLAINS, NAMED, Distances, compare, told
from spec_oracle.servers.checks.scores import WRONG_SCORES, fetch_along
from spec_oracle.servers.client.apis import OpenAI
from spec_oracle.servers.client.client import Client
from spec_oracle.servers.client.server import Server
from spec_oracle.servers.recorded.copies import Copies
from spec_oracle.servers.recorded.temperatures import MOST_TOKENS, temperature_factor
from spec_oracle.statistics.long_completions import Scored, TokenEvidence, joined, part
from spec_oracle.statistics.streams import stream

ADVICE: Final = "record more completions, or raise --detect"
ONCE: Final = (
    "each token was counted once; record each completion once, or, if you did, find out why the server "
    "repeats itself (temperature 0, one seed for all requests)"
)
LEAST: Final = 1e-300
KEPT, MOST_KEPT = 4, 20_000
"""Rows that are kept of a completion, and of all."""
AT_ONCE: Final = 16
"""Completions that are judged together, in a fraction of the time that each alone takes."""
OLDEST: Final = "before sampling filters"


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
    prefixes = [(number, tokens[:end]) for end in range(len(tokens))]
    sampling = {name: getattr(reported.server.sampling, name) for name in _FIELDS}
    line: dict[str, object] = {
        "prompt": reported.server.prompts[number],
        "tokens": tokens,
        "sampling": sampling,
    }
    for name, rows in (("rows", reported), ("draft_rows", drafts)):
        if rows is not None:
            line[name] = [rows.logs.get(prefix) for prefix in prefixes]
    if reported.is_noisy:
        line["noise"] = math.log1p(reported.relative_error) / 2
    return json.dumps(line)


class Transcripts:
    """What the completions of a file, read so far, say against the distributions of their reference.

    ``server`` scores them by one-token requests, or ``rows`` computes their distributions, or the file holds
    them. ``noise`` in nats is by how much log-probabilities of the reference may be off, besides what the
    file says of that.
    """

    def __init__(
        self,
        transcripts: Sequence[Transcript],
        *,
        server: Server | None = None,
        rows: Rows | None = None,
        noise: float = 0.0,
        seed: int = 0,
    ) -> None:
        self.sampling, self._rows, self.completions = transcripts[0].sampling, rows, 0
        noise = max(noise, *(some.noise for some in transcripts))
        self._tolerance, self._logprobs = NEGLIGIBLE + 5 * noise, Counter[str]()
        listed = max((len(row) for some in transcripts for row in some.rows if row), default=0)

        def unasked() -> Distributions:
            """Return distributions that only the file knows."""
            return Distributions(Server(Client.__new__(Client), OpenAI(""), self.sampling, (), listed))

        self._is_served = server is not None
        reference = unasked() if server is None else Distributions(server)
        reference.server.prompts = (transcripts[0].prompt,)
        reference.noise = max(noise, reference.noise) if self._is_served else noise
        has_drafts = any(some.draft_rows for some in transcripts)
        drafts = Distributions(reference.server) if has_drafts else None
        of_all, of_new = (stream(seed, f"transcripts/{name}") for name in ("uniforms", "new tokens"))
        self.judged = JudgedCompletions(reference, drafts, of_all)
        # All tokens, and new ones alone: copies, if there are any, count once.
        self._later = self.judged.evidence, TokenEvidence(self.judged.evidence.drafts, of_new)
        self._first = TokenEvidence([], of_all), TokenEvidence([], of_new)
        self._waiting: list[tuple[Scored, Scored]] = []
        self._scored: list[Scored] = []
        self.copies, self._heats = Copies(), stream(seed, "transcripts/temperatures")
        self._recorded, self._distances = None, Distances()
        # The first rows of completions, by their contexts, with the number of the completion: after equal
        # contexts rows must be equal.
        self._kept: dict[tuple[tuple[int, ...], ...], tuple[int, Logs]] = {}
        self._differ, self._noise = "", 5 * noise
        if rows is not None:
            reference.reading = OLDEST
        elif not self._is_served:
            reference.reading = self._reading(transcripts, reference)
        if (rows is not None or self._is_served) and any(some.rows for some in transcripts):
            self._recorded = unasked()
            self._recorded.noise = noise
            self._recorded.reading = self._reading(transcripts, self._recorded)

    def add(self, transcript: Transcript) -> None:
        """Judge one more; raises `InvalidInputError` where it was sampled otherwise than the first."""
        if transcript.sampling != self.sampling:
            raise InvalidInputError(
                "sampling: it differs from that of the first completion; use a file for each"
            )
        reference = self.judged.distributions
        reference.noise = max(reference.noise, transcript.noise)
        self._fill(transcript)
        scored = self.judged.scored(0, transcript.tokens, start=0)
        self._waiting.append((scored, self._new(transcript, scored)))
        if sum(len(one.came) for one in self._scored) < MOST_TOKENS:
            self._scored.append(scored)
        self.completions += 1
        self.judged.completions = self.completions
        self._compare_rows(transcript)
        if (recorded := self._recorded) is not None:
            recorded.logs = _by_prefix(transcript.tokens, transcript.rows)
            compare(recorded.logs, recorded, reference, self._distances)
        for place, log in enumerate(transcript.logprobs):
            prefix = (0, transcript.tokens[:place])
            if row := reference.logs.get(prefix):
                self._add_logprob(log, transcript.tokens[place], row, reference.after(prefix))
        if len(self._waiting) == AT_ONCE:
            self._judge()

    def _new(self, transcript: Transcript, scored: Scored) -> Scored:
        """Return the tokens of a completion without those that are copies."""
        reference, own = self.judged.distributions, scored.masses[np.arange(len(scored.came)), scored.came]
        error = 2 * reference.error / min(self.sampling.temperature or 1.0, 1.0)
        logs = np.log(np.clip(np.where(np.isnan(own), 1.0, own), LEAST, 1.0)) + error
        is_new = self.copies.add(transcript.prompt, transcript.tokens, np.minimum(logs, 0.0))
        return replace(scored, masses=np.where(is_new[:, None], scored.masses, np.nan))

    def _judge(self) -> None:
        """Add the completions that wait to the evidence, their first tokens apart."""
        waiting, self._waiting = self._waiting, []  # first: none counts twice after Ctrl-C
        for number in range(2 * bool(waiting)):
            some = [pair[number] for pair in waiting]
            self._first[number].add(joined([part(one, 0, 1) for one in some]))
            if later := [part(one, 1, len(one.came)) for one in some if len(one.came) > 1]:
                self._later[number].add(joined(later))

    def _each_once(self) -> JudgedCompletions:
        """Judge those that wait; return the evidence of all tokens, without copies where there are any."""
        self._judge()
        judged = copy(self.judged)
        judged.evidence = self._later[bool(self.copies.found)]
        return judged

    def is_decided(self, alpha: float) -> bool:
        """Whether the completions read so far are known to be wrong; it may be asked at any time."""
        return is_decided(self._each_once(), alpha)

    def _compare_rows(self, transcript: Transcript) -> None:
        """Compare the first rows of a completion with those of others after equal prompts and tokens."""
        for place, row in enumerate(transcript.rows[:KEPT]):
            if not row or self._differ:
                continue
            context = transcript.prompt, transcript.tokens[:place]
            number, first = self._kept.get(context, (self.completions, row))
            if (nats := difference(first, row)) > WRONG_SCORES + self._noise:
                which = f"of completions {number} and {self.completions} at token {place + 1}"
                self._differ = (
                    f"rows {which} differ by {nats:.2g} nats after equal prompts and tokens: tokens are "
                    "missing from the file, the model is another one, or what was reported is wrong"
                )
            if len(self._kept) < MOST_KEPT:
                self._kept.setdefault(context, (number, row))

    def _fill(self, transcript: Transcript) -> None:
        """Let the distributions be those of one transcript: no others are kept."""
        reference, drafts = self.judged.distributions, self.judged.drafts
        reference.server.prompts = (transcript.prompt,)
        rows = transcript.rows
        if self._rows is not None:
            rows = tuple(self._rows(transcript.prompt, transcript.tokens))
            reference.server.listed = max(len(row) for row in rows if row)
        unknown: Sequence[None] = [None] * len(transcript.tokens)
        reference.logs = {} if self._is_served else _by_prefix(transcript.tokens, rows or unknown)
        if self._is_served:
            fetch_along(reference, [(0, transcript.tokens)])
        if drafts is not None:
            drafts.logs = _by_prefix(transcript.tokens, transcript.draft_rows or unknown)

    def _reading(self, transcripts: Sequence[Transcript], reference: Distributions) -> str:
        """Return how recorded rows are to be read: so that the tokens are as probable as they can be."""
        several: list[tuple[Prefix, Token]] = []
        logs: dict[Prefix, Logs | None] = {}
        for number, some in enumerate(transcripts[: effort.SERVER_READING_SAMPLES]):
            for place, row in enumerate(some.rows):
                if row:
                    prefix = (number, some.tokens[:place])
                    logs[prefix] = row
                    several.append((prefix, some.tokens[place]))
        if not several:
            raise InvalidInputError(
                "rows: the file holds none; give a reference by --server URL or --model NAME"
            )
        reference.logs = logs
        return reference.most_likely_reading(several)

    def _add_logprob(self, log: float | None, token: int, row: Logs, law: Distribution | None) -> None:
        """Compare one that was reported with the reference's; a token that it does not list is left out."""
        if log is None:
            self._logprobs["missing"] += 1
        elif token in row:
            place = -1 if law is None else law.index(token)
            as_sampled = math.inf if law is None or place < 0 else math.log(law.probabilities[place])
            self._logprobs["tokens"] += 1
            self._logprobs["raw"] += abs(log - row[token]) > self._tolerance
            self._logprobs["as sampled"] += abs(log - as_sampled) > self._tolerance

    def _logprobs_result(self) -> CheckResult:
        """Return the result: the mode with the fewest differences is that which was meant."""
        found = self._logprobs
        if not found["tokens"] + found["missing"]:
            return not_asked("no reported log-probabilities were recorded")
        say = partial(check_result, draws=self.completions, how=How.SAMPLED)
        if found["missing"]:
            return say(Status.FAILED, f"{found['missing']:,} tokens have no log-probability")
        if wrong := min(found["raw"], found["as sampled"]):
            what = f"{wrong:,} of {found['tokens']:,} log-probabilities differ from the reference's"
            return say(Status.FAILED, what)
        mode = "as sampled" if found["raw"] else "before temperature and filters"
        return say(Status.PASSED, f"{found['tokens']:,} log-probabilities equal the reference's, {mode}")

    def _model(self, tokens: CheckResult, detect: float) -> CheckResult:
        """Say whether what the reference contradicts is the served model, without any speculation."""
        if self._differ:
            return inconclusive(self._differ, how=How.SAMPLED, cause=Cause.UNDECIDED)
        if self._rows is None and not self._is_served:
            return not_asked("the reference is what the file holds")
        if self._distances.distances:
            return told("recorded next-token distributions", self._distances, 0.0, detect)
        if tokens.status is not Status.FAILED:
            return not_asked("no difference from the reference was found that a model could explain")
        first = self._first[bool(self.copies.found)]
        what = f"{first.tokens:,} first tokens, on which nothing speculates,"
        say = partial(check_result, draws=first.tokens, how=How.SAMPLED)
        if first.p_value <= effort.SERVER_BLAME_RATE:
            return say(Status.FAILED, f"{what} contradict the reference, too: {EXPLAINS} this", proviso=NAMED)
        more = "record `rows`, or requests for one token, to know whether the model is another one"
        return say(Status.INCONCLUSIVE, f"{what} are as expected; {more}")

    def report(self, name: str, alpha: float, detect: float, ended: str = "") -> SubjectReport:
        """Return the report of all read so far; ``ended`` says why there is no more."""
        copies, judged = self.copies.found, self._each_once()
        doubtful = judged.distributions.uncertainty
        tokens = result_of_tokens(judged, detect, alpha, ended=ended, advice=ADVICE, uncertainty=doubtful)
        heat = None
        if tokens.status is Status.FAILED:
            heat = temperature_factor(joined(self._scored), self._heats)
        if heat:
            recorded = self.sampling.temperature
            said = f"they are as if sampled at temperature {heat * recorded:.2g}, not {recorded:g}"
            tokens = replace(tokens, detail=f"{tokens.detail}; {said}")
        if copies:
            status = Status.INCONCLUSIVE if tokens.status is Status.PASSED else tokens.status
            tokens = replace(tokens, status=status, detail=f"{copies}: {ONCE}; {tokens.detail}")
        checks = (
            replace(tokens, name="long-texts"),
            replace(self._logprobs_result(), name="logprobs"),
            replace(model := self._model(tokens, detect), name="model"),
        )
        verdict = {Status.FAILED: SubjectVerdict.LOSSY, Status.PASSED: SubjectVerdict.LOSSLESS}
        worst = Status.FAILED if model.status is Status.FAILED else tokens.status
        if model.cause is Cause.UNDECIDED:
            worst = Status.INCONCLUSIVE
        return SubjectReport(
            name,
            "server",
            verdict.get(worst, SubjectVerdict.INCONCLUSIVE),
            Evidence.STATISTICAL,
            checks,
            alpha,
            Remarks(
                (f"{self.completions:,} recorded completions", *tokens.remarks.scope),
                proviso=model.remarks.proviso,
            ),
            total_variation=tokens.measured.total_variation,
        )


def _by_prefix(tokens: Sequence[int], rows: Sequence[Logs | None]) -> dict[Prefix, Logs | None]:
    return {(0, tuple(tokens[:place])): row for place, row in enumerate(rows)}


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
