"""The checks of recorded completions, `long-texts`, `logprobs` and `model`, made without their server.

Each token is compared with its own next-token distribution, of a reference or as recorded. Tokens of copies
count once (`spec_oracle.servers.recorded.transcripts`). Three faults that are not of speculation are named:

* The first tokens of completions, on which nothing speculates, contradict the reference: another model.
* Equal contexts have different rows: tokens are missing from the file, or what was reported is wrong.
* Another temperature explains the tokens: a trainer that divides logits by a temperature that the server did
  not, or twice, has samples that are wrong in one way (OpenRLHF #853, trl #4159).
"""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from typing import Final

import numpy as np
import scipy

from spec_oracle.arrays import Booleans
from spec_oracle.audit import effort
from spec_oracle.audit.logprobs import (
    NEGLIGIBLE,
    READINGS,
    UNFILTERED,
    Distribution,
    Logs,
    difference,
    likeliest,
)
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
from spec_oracle.contracts.completion import Prefix, Token
from spec_oracle.errors import InvalidInputError
from spec_oracle.servers.checks.distributions import SHOWN, Distributions, Rows, not_ruled_out, rounding
from spec_oracle.servers.checks.logprobs import WRONG_SCORES
from spec_oracle.servers.checks.long_texts import JudgedCompletions
from spec_oracle.servers.checks.model import EXPLAINS, NAMED, Distances, compare, result_of_distances
from spec_oracle.servers.client.apis import OpenAI
from spec_oracle.servers.client.client import Client
from spec_oracle.servers.client.server import Server
from spec_oracle.servers.contract import prefixes_of
from spec_oracle.servers.recorded.transcripts import Copies, Transcript
from spec_oracle.statistics.long_completions import Scored, TokenEvidence, joined, part
from spec_oracle.statistics.streams import stream

ADVICE: Final = "record more completions, or raise --detect"
ONCE: Final = (
    "record each completion once, or, if you did, find out why the server repeats itself (temperature 0, one "
    "seed for all requests)"
)
ALL_IDS: Final = (
    "record all token ids of prompt and completion, and the rows of these tokens; if you did, ask the server "
    "for rows of one prompt twice"
)
LEAST: Final = 1e-300
KEPT, MOST_KEPT = 4, 20_000
"""Rows that are kept of a completion, and of all."""
AT_ONCE: Final = 16
"""Completions that are judged together, in a fraction of the time that each alone takes."""
SHORT: Final = "rows as short as these do not tell whether they are before or after temperature and filters"
LONGER: Final = (
    "record rows after temperature and filters (vLLM: --logprobs-mode processed_logprobs), or longer ones"
)

FACTORS: Final = np.geomspace(0.4, 2.5, 47)
"""Of the temperature on record, 4 % apart."""

MOST_TOKENS: Final = 4000
"""By which another temperature is looked for: more say nothing new."""

BINS: Final = 10
EXPLAINED, REFUTED = 1e-2, 1e-6
"""P-values of equal bins: above the first a temperature explains the tokens, below the second it does not."""

NEAR: Final = 0.06
"""By how much the temperatures of equal bins and of the largest likelihood may differ."""

MOST_OTHER: Final = 1e-3
"""Mass of tokens that are not listed, beyond which a row does not say what another temperature does."""


class Transcripts:
    """The completions of a file, read so far, against the distributions of their reference.

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
        reading: str = "",
    ) -> None:
        self.sampling, self._rows, self.completions = transcripts[0].sampling, rows, 0
        self._longest = 0
        noise = max(noise, *(some.noise for some in transcripts))
        under = partial(type(self), transcripts, server=server, rows=rows, noise=noise, seed=seed)
        self._listed = {name: _listed(transcripts, name, noise) for name in ("rows", "draft_rows")}
        transcripts = [self._cut(some) for some in transcripts]
        listed = self._listed["rows"]

        def unasked() -> Distributions:
            """Return distributions that only the file knows."""
            found = Distributions(Server(Client.__new__(Client), OpenAI(""), self.sampling, (), listed))
            found.noise = noise
            return found

        self._is_served = server is not None
        reference = unasked() if server is None else Distributions(server)
        reference.server.prompts = (transcripts[0].prompt,)
        reference.noise = max(noise, reference.noise)
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
        self._recorded, self._distances, self._is_sure = None, Distances(), True
        self._kept, self._logprobs = _KeptRows(5 * noise), _Logprobs(NEGLIGIBLE + 5 * noise)
        rivals = list[str]()
        if reading:
            reference.reading = reading
        elif rows is not None:
            reference.reading = UNFILTERED
        elif self._is_served:
            _, *rivals = reference.reading, *reference.rivals  # sampling for the first finds the others
        else:
            (reference.reading, *rivals), self._is_sure = _likely_readings(transcripts, unasked())
        # Right completions may contradict a wrong reading: they are wrong if they contradict each of them.
        self._rivals = [under(reading=rival) for rival in rivals]
        if (rows is not None or self._is_served) and any(some.rows for some in transcripts):
            readings, is_sure = _likely_readings(transcripts, unasked())
            if is_sure and len(readings) == 1:
                self._recorded = unasked()
                self._recorded.reading = readings[0]

    def add(self, transcript: Transcript) -> None:
        """Judge one more; raises `InvalidInputError` if its sampling differs from that of the first."""
        if transcript.sampling != self.sampling:
            raise InvalidInputError(
                "sampling: it differs from that of the first completion; use a file for each"
            )
        for rival in self._rivals:
            rival.add(transcript)
        transcript, reference = self._cut(transcript), self.judged.distributions
        self._longest = max(self._longest, len(transcript.tokens))
        reference.noise = max(reference.noise, transcript.noise)
        self._fill(transcript)
        prefixes = prefixes_of((0, transcript.tokens))
        laws = reference.after_each(prefixes)
        scored = self.judged.scored_in(laws, 0, transcript.tokens)
        self._waiting.append((scored, self._without_copies(transcript, scored)))
        if sum(len(one.came) for one in self._scored) < MOST_TOKENS:
            self._scored.append(scored)
        self.completions += 1
        self.judged.completions = self.completions
        self._kept.add(transcript, self.completions)
        if (recorded := self._recorded) is not None:
            recorded.logs = _by_prefix(transcript.tokens, transcript.rows)
            compare(recorded.logs, recorded, reference, self._distances)
        reported = zip(transcript.logprobs, transcript.tokens, prefixes, laws, strict=False)
        for log, token, prefix, law in reported:
            if row := reference.logs[prefix]:
                self._logprobs.add(log, token, row, law)
        if len(self._waiting) == AT_ONCE:
            self._judge()

    def _cut(self, transcript: Transcript) -> Transcript:
        """Return a transcript whose rows list no token only because it was sampled."""

        def cut(name: str) -> tuple[Logs | None, ...]:
            rows, listed = getattr(transcript, name), self._listed[name]
            pairs = zip(rows, transcript.tokens, strict=True) if rows else ()
            return tuple(row and likeliest(row, listed, token) for row, token in pairs)

        return replace(transcript, rows=cut("rows"), draft_rows=cut("draft_rows"))

    def _fill(self, transcript: Transcript) -> None:
        """Replace the known distributions by those of one transcript."""
        reference, drafts = self.judged.distributions, self.judged.drafts
        reference.server.prompts = (transcript.prompt,)
        rows = transcript.rows
        if self._rows is not None:
            rows = tuple(self._rows(transcript.prompt, transcript.tokens))
            reference.server.listed = max(len(row) for row in rows if row)
        unknown: Sequence[None] = [None] * len(transcript.tokens)
        reference.logs = {} if self._is_served else _by_prefix(transcript.tokens, rows or unknown)
        if self._is_served:
            reference.fetch_along([(0, transcript.tokens)])
        if drafts is not None:
            drafts.logs = _by_prefix(transcript.tokens, transcript.draft_rows or unknown)

    def _without_copies(self, transcript: Transcript, scored: Scored) -> Scored:
        """Return the tokens of a completion that are not copied from one before; the others are unknown."""
        reference, own = self.judged.distributions, scored.masses[np.arange(len(scored.came)), scored.came]
        error = 2 * reference.error / min(self.sampling.temperature or 1.0, 1.0)
        logs = np.log(np.clip(np.where(np.isnan(own), 1.0, own), LEAST, 1.0)) + error
        is_new: Booleans = self.copies.add(transcript.prompt, transcript.tokens, np.minimum(logs, 0.0))
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
        """Judge those that wait; return the evidence of all tokens, without copies if there are any."""
        self._judge()
        self.judged.evidence = self._later[bool(self.copies.found)]
        return self.judged

    def is_decided(self, alpha: float) -> bool:
        """Whether the completions read so far are known to be wrong; it may be asked at any time."""
        return is_decided(self._each_once(), alpha) and all(one.is_decided(alpha) for one in self._rivals)

    def _model(self, tokens: CheckResult, detect: float) -> CheckResult:
        """Return whether the served model is another one than the reference, which explains a failure."""
        if self._kept.differ:
            found = inconclusive(self._kept.differ, how=How.SAMPLED, cause=Cause.UNDECIDED)
            return replace(found, remarks=Remarks(do=ALL_IDS))
        if self._rows is None and not self._is_served:
            return not_asked("the reference is what the file holds")
        if self._distances.distances:
            return result_of_distances("recorded next-token distributions", self._distances, 0.0, detect)
        if tokens.status is not Status.FAILED:
            return not_asked("no difference from the reference was found that a model could explain")
        first = self._first[bool(self.copies.found)]
        what = f"{first.tokens:,} first tokens, on which nothing speculates,"
        say = partial(check_result, draws=first.tokens, how=How.SAMPLED)
        if first.p_value <= effort.SERVER_BLAME_RATE:
            return say(Status.FAILED, f"{what} contradict the reference, too: {EXPLAINS} this", proviso=NAMED)
        more = "record `rows`, or requests for one token, to know whether the model is another one"
        return say(Status.INCONCLUSIVE, f"{what} are as expected; {more}")

    def _tokens(self, alpha: float, detect: float, ended: str) -> CheckResult:
        """Return the result of `long-texts`: with another temperature that explains a failure, and copies."""
        copies, judged = self.copies.found, self._each_once()
        doubtful = judged.distributions.uncertainty
        tokens = result_of_tokens(judged, detect, alpha, ended=ended, advice=ADVICE, uncertainty=doubtful)
        if self._longest < 2 and tokens.status is Status.INCONCLUSIVE:
            short = f"{self.completions:,} completions have one token each, on which nothing speculates"
            return replace(tokens, detail=short, remarks=Remarks(do="record longer completions"))
        is_wrong = tokens.status is Status.FAILED
        if is_wrong and (heat := temperature_factor(joined(self._scored), self._heats)):
            recorded = self.sampling.temperature
            said = f"they are as if sampled at temperature {heat * recorded:.2g}, not {recorded:g}"
            tokens = replace(tokens, detail=f"{tokens.detail}; {said}")
        if is_wrong and not self._is_sure:
            remarks = replace(tokens.remarks, do=LONGER)
            detail = f"{SHORT}; if after, {tokens.detail}"
            tokens = replace(tokens, status=Status.INCONCLUSIVE, detail=detail, remarks=remarks)
        if copies:
            status = Status.INCONCLUSIVE if tokens.status is Status.PASSED else tokens.status
            detail = f"{copies}: each token was counted once; {tokens.detail}"
            remarks = tokens.remarks if tokens.status is Status.FAILED else replace(tokens.remarks, do=ONCE)
            tokens = replace(tokens, status=status, detail=detail, remarks=remarks)
        return tokens

    def report(self, name: str, alpha: float, detect: float, ended: str = "") -> SubjectReport:
        """Return the report of all read so far; ``ended`` says why there is no more."""
        tokens = self._tokens(alpha, detect, ended)
        if tokens.status is Status.FAILED:
            for rival in self._rivals:
                if not rival.is_decided(alpha):
                    return rival.report(name, alpha, detect, ended)
        model = self._model(tokens, detect)
        checks = {"long-texts": tokens, "logprobs": self._logprobs.result(self.completions), "model": model}
        verdict = {Status.FAILED: SubjectVerdict.LOSSY, Status.PASSED: SubjectVerdict.LOSSLESS}
        worst = Status.FAILED if model.status is Status.FAILED else tokens.status
        if model.cause is Cause.UNDECIDED:
            worst = Status.INCONCLUSIVE
        scope = (f"{self.completions:,} recorded completions", *tokens.remarks.scope)
        return SubjectReport(
            name,
            "server",
            verdict.get(worst, SubjectVerdict.INCONCLUSIVE),
            Evidence.STATISTICAL,
            tuple(replace(result, name=check) for check, result in checks.items()),
            alpha,
            Remarks(scope, proviso=model.remarks.proviso),
            total_variation=tokens.measured.total_variation,
        )


def _listed(transcripts: Sequence[Transcript], name: str, noise: float) -> int:
    """Return how many tokens rows list, but for a sampled token that is listed beside the likeliest ones.

    The shortest of the rows that leave some out says so. More than any has, where none does; 0 where each
    has nothing but the sampled token.
    """
    rows: list[tuple[Logs, Token]] = [
        (row, token)
        for some in transcripts
        for row, token in zip(getattr(some, name), some.tokens, strict=False)
        if row
    ]
    error = noise + rounding(islice((log for row, _ in rows for log in row.values()), SHOWN))
    cut = [len(row) for row, _ in rows if sum(map(math.exp, row.values())) < 1 - math.expm1(error)]
    if cut and all(row.keys() == {token} for row, token in rows):
        return 0
    return min(cut) if cut else 1 + max((len(row) for row, _ in rows), default=0)


def _by_prefix(tokens: Sequence[int], rows: Sequence[Logs | None]) -> dict[Prefix, Logs | None]:
    return {(0, tuple(tokens[:place])): row for place, row in enumerate(rows)}


def _likely_readings(transcripts: Sequence[Transcript], rows: Distributions) -> tuple[list[str], bool]:
    """Return the readings of the ``rows`` that the first completions allow, the likeliest first.

    And whether any of these rows is long enough to apply temperature and filters to it: else it is a guess.
    More completions are looked at until they rule out all readings but one.
    """
    rows.reading, found, is_sure = UNFILTERED, list[str](), False
    log_likelihoods = dict.fromkeys(READINGS, 0.0)
    for start in range(0, len(transcripts), effort.SERVER_READING_SAMPLES):
        several: list[tuple[Prefix, Token]] = []
        logs: dict[Prefix, Logs | None] = {}
        for number, some in enumerate(transcripts[start : start + effort.SERVER_READING_SAMPLES]):
            for place, row in enumerate(some.rows):
                if row:
                    prefix = (number, some.tokens[:place])
                    logs[prefix] = row
                    several.append((prefix, some.tokens[place]))
        rows.logs = logs
        known = [one for one in several if rows.after(one[0]) is not None]
        if not several or (found and not known):
            continue
        for one in READINGS:
            log_likelihoods[one] += rows.log_likelihood(one, known or several)
        found, is_sure = not_ruled_out(log_likelihoods), bool(known)
        if len(found) == 1 or not is_sure:
            break
    if not found:
        has_rows = any(some.rows for some in transcripts)
        are = "they list the sampled tokens alone" if has_rows else "the file holds none"
        raise InvalidInputError(f"rows: {are}; give a reference by --server URL or --model NAME")
    return found if is_sure else found[:1], is_sure


@dataclass
class _KeptRows:
    """The first rows of completions: after equal contexts they must be equal, but for ``noise`` nats.

    ``differ`` says which are not, "" if all are. ``rows`` have the number of their completion.
    """

    noise: float
    rows: dict[tuple[tuple[int, ...], ...], tuple[int, Logs]] = field(default_factory=dict)
    differ: str = ""

    def add(self, transcript: Transcript, completion: int) -> None:
        """Compare the first rows of a completion with those of others after equal prompts and tokens."""
        for place, row in enumerate(transcript.rows[:KEPT]):
            if not row or self.differ:
                continue
            context = transcript.prompt, transcript.tokens[:place]
            number, first = self.rows.get(context, (completion, row))
            if (nats := difference(first, row)) > WRONG_SCORES + self.noise:
                which = f"of completions {number} and {completion} at token {place + 1}"
                self.differ = (
                    f"rows {which} differ by {nats:.2g} nats after equal prompts and tokens: tokens are "
                    "missing from the file, the model is another one, or what was reported is wrong"
                )
            if len(self.rows) < MOST_KEPT:
                self.rows.setdefault(context, (number, row))


@dataclass
class _Logprobs:
    """Reported log-probabilities, and in how many cases they differ from the reference by the ``tolerance``.

    They may be meant before temperature and filters or as sampled; ``counts`` has both.
    """

    tolerance: float
    counts: Counter[str] = field(default_factory=Counter)

    def add(self, log: float | None, token: int, row: Logs, law: Distribution | None) -> None:
        """Compare one with the reference's; a token that the reference does not list is left out."""
        if log is None:
            self.counts["missing"] += 1
        elif token in row:
            place = -1 if law is None else law.index(token)
            as_sampled = math.inf if law is None or place < 0 else math.log(law.probabilities[place])
            self.counts["tokens"] += 1
            self.counts["raw"] += abs(log - row[token]) > self.tolerance
            self.counts["as sampled"] += abs(log - as_sampled) > self.tolerance

    def result(self, completions: int) -> CheckResult:
        """Return the result of `logprobs`, by the meaning with the fewest differences."""
        found = self.counts
        if not found["tokens"] + found["missing"]:
            return not_asked("no reported log-probabilities were recorded")
        say = partial(check_result, draws=completions, how=How.SAMPLED)
        if found["missing"]:
            return say(Status.FAILED, f"{found['missing']:,} tokens have no log-probability")
        if wrong := min(found["raw"], found["as sampled"]):
            what = f"{wrong:,} of {found['tokens']:,} log-probabilities differ from the reference's"
            return say(Status.FAILED, what)
        mode = "as sampled" if found["raw"] else "before temperature and filters"
        return say(Status.PASSED, f"{found['tokens']:,} log-probabilities equal the reference's, {mode}")


def temperature_factor(tokens: Scored, rng: np.random.Generator) -> float | None:
    """Return the factor of the temperature that explains tokens best; None if none does, or 1 does, too.

    Each token is put into one of ten bins by the distribution at every temperature of a list: at the right
    one the bins are equally full, and the tokens are most probable. If these are two temperatures, none
    explains the tokens. ``rng`` places each token within its own probability.

    >>> rng, row = np.random.default_rng(0), np.array([0.5, 0.3, 0.15, 0.05, 0.0])
    >>> hot = row**0.5 / (row**0.5).sum()
    >>> round(temperature_factor(Scored(np.tile(row, (2000, 1)), rng.choice(5, 2000, p=hot)), rng), 1)
    2.0
    """
    masses, came = tokens.masses, tokens.came
    own = masses[np.arange(len(came)), came]
    is_known = (own > 0) & (masses[:, -1] <= MOST_OTHER) & (came < masses.shape[1] - 1)
    chosen, parts = came[is_known], rng.random(int(is_known.sum()))
    if not len(chosen):
        return None
    every = np.arange(len(chosen))
    with np.errstate(divide="ignore"):
        logs = np.log(masses[is_known, :-1])
    counts, likelihoods = [], []
    for factor in FACTORS:
        law = np.exp((logs - logs.max(axis=1, keepdims=True)) / factor)
        law /= law.sum(axis=1, keepdims=True)
        own = law[every, chosen]
        u = np.cumsum(law, axis=1)[every, chosen] - (1 - parts) * own
        cells = np.clip((u * BINS).astype(np.int64), 0, BINS - 1)
        counts.append(np.bincount(cells, minlength=BINS))
        likelihoods.append(float(np.log(own).sum()))
    p_values = scipy.stats.chisquare(counts, axis=1).pvalue
    best, likeliest = int(p_values.argmax()), int(np.argmax(likelihoods))
    as_recorded = p_values[int(abs(FACTORS - 1).argmin())]
    agree = abs(FACTORS[likeliest] / FACTORS[best] - 1) <= NEAR
    is_found = p_values[best] > EXPLAINED and as_recorded < REFUTED and agree
    return float(FACTORS[likeliest]) if is_found else None
