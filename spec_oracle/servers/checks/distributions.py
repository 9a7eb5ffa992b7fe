"""Next-token distributions of target-only decoding: by one-token requests to a server, or by local weights.

A request for one token has nothing to speculate on. Some servers list probabilities as sampled, after
temperature and filters; others list them before. Each is a *reading*; which one holds is for samples to say.
"""

import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import groupby, islice
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

import numpy as np

from spec_oracle.audit import effort
from spec_oracle.audit.logprobs import NEGLIGIBLE, READINGS, SEEN_MASS, Distribution, Logs, difference
from spec_oracle.contracts import ContractError
from spec_oracle.contracts.completion import Completion, Prefix, Prompt, Token
from spec_oracle.errors import InvalidInputError
from spec_oracle.language_models import load_language_model
from spec_oracle.servers.client.apis import SCORINGS, Listed, Scoring, Text
from spec_oracle.servers.client.server import Server
from spec_oracle.servers.contract import Ask, OutOfTimeError, ServerError, prefixes_of

# Part of the time of `plain-law` for finding out what the probabilities are, and as much for their noise.
SERVER_READING_PART: Final = 0.2
SERVER_READING_MOST: Final = 1000  # Samples after each prefix, at most, that choose among readings.
# Prefixes near the prompts whose distributions are asked for again, and compared with samples.
SERVER_NEAR: Final = 8
SERVER_NOISE_REPEATS: Final = 8  # How often a distribution is asked for to measure how much it varies.
# Nats by which a completion may differ from one-token requests for no other reason than noise.
SERVER_NOISE_MOST: Final = 0.02
SERVER_SCORED: Final = 8  # Tokens of the completion by which it is found out how prompts are scored.

NOISE_FACTOR = 5.0
"""Equal requests may differ by more than the few differences by which that was measured."""

FLOAT32_LOG = 1e-5
"""Rounding of a log-probability computed in float32 from logits of ordinary size, nats."""

DEVIATIONS = 3.3
"""Standard errors either way: an interval of 99.9 % for many tokens."""

SURE = 20.0
"""Nats by which samples must be likelier under one reading to rule out another."""

CUT = 0.02
"""Mass that is missing from a list of all tokens that can be sampled for no rounding."""

_DIGITS = 6
CHUNK = 256
SHOWN = 32
"""Log-probabilities from whose digits it is read how they are rounded."""


def largest_difference(first: Logs, second: Logs) -> float:
    """Return the largest difference of log-probabilities that both list, nats."""
    seen = math.log(SEEN_MASS)
    both = [(first[token], second[token]) for token in first.keys() & second.keys()]
    return max((abs(a - b) for a, b in both if max(a, b) > seen), default=0.0)


def ids_after(server: Server, prefix: Prefix) -> Text:
    """Return the token ids of a prompt and of the tokens after it; the server must take and show ids."""
    number, tokens = prefix
    return cast(Text, (*server.prompts[number], *tokens))


def not_ruled_out(log_likelihoods: Mapping[str, float]) -> list[str]:
    """Return the readings of samples of such likelihoods, by name, that may be right, the likeliest first.

    A wrong one is likelier by `SURE` with a probability of exp(-`SURE`) at most. Of equal ones one is enough.
    """
    order = sorted(log_likelihoods, key=lambda one: -round(log_likelihoods[one], _DIGITS))
    found = {round(log_likelihoods[one], _DIGITS): one for one in reversed(order)}
    likeliest = log_likelihoods[order[0]]
    return [one for one in order if one in found.values() and log_likelihoods[one] >= likeliest - SURE]


def _total(logs: Logs) -> float:
    return sum(map(math.exp, logs.values()))


def rounding(logs: Iterable[float]) -> float:
    """Return the error of log-probabilities by their digits, nats: half a last one where they are rounded."""
    values = list(logs)
    rounded = (d for d in range(_DIGITS) if all(round(value, d) == value for value in values))
    return next((0.5 * 10.0**-digits for digits in rounded), FLOAT32_LOG)


@dataclass
class Distributions:
    """The next-token distributions of a server by prefix, each asked for once.

    ``drafted`` counts tokens that one-token requests drafted: none, or they are not target-only decoding.
    ``reference`` serves the same model without speculation, None if none is known. ``along`` is what is asked
    for those along a completion, and how it scores prompts, None if it does not; None as long as not known.
    ``differ``: by how much probabilities along completions differ when asked for again, largest ratio - 1.
    ``is_cut``: whether the server lists fewer log-probabilities than it is asked for. ``rivals`` are readings
    that may be right, too.
    """

    server: Server
    reference: Server | None = None
    drafted: int = field(default=0, init=False)
    along: tuple["Distributions", Scoring | None] | None = field(default=None, init=False)
    logs: dict[Prefix, Logs | None] = field(default_factory=dict, init=False)
    differ: list[float] = field(default_factory=list, init=False)
    is_cut: bool = field(default=False, init=False)
    rivals: list[str] = field(default_factory=list, init=False)

    def after(self, prefix: Prefix) -> Distribution | None:
        """Return the distribution after a prefix; None where the server does not show enough of it."""
        return self.after_each([prefix])[0]

    def after_each(self, prefixes: Sequence[Prefix]) -> list[Distribution | None]:
        """Return the distributions after several prefixes, as `after` does."""
        self.fetch(prefixes)
        reading, error = self.reading, self.error
        return [self._read(self.logs[prefix], reading, error) for prefix in prefixes]

    def fetch(self, prefixes: Iterable[Prefix], *, together: bool = False) -> None:
        """Ask for the distributions that are not known yet, ``together`` in one request if possible."""
        missing = [prefix for prefix in dict.fromkeys(prefixes) if prefix not in self.logs]
        for start in range(0, len(missing), CHUNK):
            some = missing[start : start + CHUNK]
            answers = self._stream(some, self.server.listed, together=together)
            self.logs.update((one, answer.logs) for one, answer in zip(some, answers, strict=True))

    def ask(self, prefix: Prefix, listed: int) -> Ask:
        """Return the request for the token after a prefix."""
        return Ask(ids_after(self.server, prefix), 1, listed=listed)

    def _stream(self, some: Sequence[Prefix], listed: int, *, together: bool = False) -> Iterator[Completion]:
        ask = self.server.together if together else self.server.stream
        for answer in ask([self.ask(prefix, listed) for prefix in some]):
            self.drafted += answer.drafted or 0
            yield answer

    def _until(self) -> float:
        """Return the end of the part of the time that repeated requests are worth."""
        now = time.monotonic()
        return now + SERVER_READING_PART * (self.server.client.end - now)

    def _read(self, logs: Logs | None, reading: str, error: float) -> Distribution | None:
        if not logs:
            return None
        listed, sampling = self.server.listed, self.server.sampling
        if self.is_cut and sampling.top_k == listed == len(
            logs
        ):  # all that can be sampled, as far as is known
            logs, listed = {token: log - math.log(_total(logs)) for token, log in logs.items()}, listed + 1
        return READINGS[reading](logs, sampling, listed, error)

    @cached_property
    def reading(self) -> str:
        """The name of the reading under which one-token samples are most probable.

        Sampled until these rule out the others, as long as that is worth it; ``rivals`` are then left.
        """
        near, until, likelihoods = self.near(), self._until(), dict.fromkeys(READINGS, 0.0)
        self._count_listed(near)
        for number in range(1, SERVER_READING_MOST):
            samples = [*self.samples(near)]
            for one in READINGS:
                likelihoods[one] += self.log_likelihood(one, samples)
            first, *self.rivals = not_ruled_out(likelihoods)
            is_enough = number >= effort.SERVER_READING_SAMPLES and not self.rivals
            if is_enough or time.monotonic() > until:
                break
        return first

    def next_reading(self) -> bool:
        """Read as the likeliest rival does; false if none is left.

        Right completions may contradict a wrong reading: they are wrong if they contradict each that is left.
        """
        if self.rivals:
            self.reading = self.rivals.pop(0)
            return True
        return False

    def _count_listed(self, prefixes: Sequence[Prefix]) -> None:
        """Take note where the server lists fewer log-probabilities than are asked for, and not all."""
        lists = [logs for prefix in prefixes if (logs := self.logs[prefix])]
        sizes, least = {len(logs) for logs in lists}, min((_total(logs) for logs in lists), default=1.0)
        if len(sizes) == 1 and least < 1 - CUT:
            self.is_cut, self.server.listed = True, min(self.server.listed, *sizes)

    def likely_readings(self, samples: Sequence[tuple[Prefix, Token]]) -> list[str]:
        """Return the names of the readings that tokens after known prefixes allow, the likeliest first.

        One that gives them the same probabilities as a likelier one is left out.
        """
        return not_ruled_out({one: self.log_likelihood(one, samples) for one in READINGS})

    def near(self) -> list[Prefix]:
        """Return the prompts, and the most likely prefixes of one more token; none that ends a completion."""
        roots: list[Prefix] = [(number, ()) for number in range(len(self.server.prompts))]
        self.fetch(roots)
        listed = [(log, root, token) for root in roots for token, log in (self.logs[root] or {}).items()]
        children = [(n, (token,)) for _, (n, _), token in sorted(listed, key=lambda entry: -entry[0])]
        open_ = [child for child in children if child[1][0] not in self.server.ends]
        nearest = open_[: max(0, SERVER_NEAR - len(roots))]
        self.fetch(nearest)
        return [*roots, *nearest]

    def samples(self, prefixes: Sequence[Prefix]) -> Iterator[tuple[Prefix, Token]]:
        """Sample one token after each prefix, asked for as in a completion: no probabilities are shown."""
        for prefix, answer in zip(prefixes, self._stream(prefixes, listed=0), strict=True):
            if len(answer.tokens) != 1:
                self.server.hides_ends |= answer.ended and not answer.tokens
                raise ContractError(f"{len(answer.tokens)} tokens where one was asked for: {answer.tokens!r}")
            yield prefix, answer.tokens[0]

    def log_likelihood(self, reading: str, samples: Sequence[tuple[Prefix, Token]]) -> float:
        """Return the log-probability of tokens after known prefixes under a reading, nats."""
        total, error = 0.0, self.rounding
        for prefix, token in samples:
            law = self._read(self.logs[prefix], reading, error)
            if law is None:
                return -math.inf
            place = law.index(token)
            mass = law.other if place < 0 else law.probabilities[place]
            # A token that a reading rules out costs much, but does not make all readings alike.
            total += math.log(max(mass, 1e-9))
        return total

    @property
    def error(self) -> float:
        """By how much log-probabilities may be off, nats: rounding, and the noise that was measured."""
        return self.noise + self.rounding

    @cached_property
    def noise(self) -> float:
        """By how much log-probabilities differ when they are asked for again, mixed and at once, nats.

        And in completions: several tokens are verified at once, and computed in another order than one.
        """
        near, until, noise = self.near(), self._until(), 0.0
        for _ in range(SERVER_NOISE_REPEATS - 1):
            for prefix, answer in zip(near, self._stream(near, self.server.listed), strict=True):
                noise = max(noise, largest_difference(self.logs[prefix] or {}, answer.logs or {}))
            if time.monotonic() > until:
                break
        return max(noise, *map(self._differ_along, range(len(self.server.prompts))))

    def _differ_along(self, number: int) -> float:
        """Return by how much a completion differs from one-token requests, 0 if by more than noise."""
        ask = Ask(self.server.prompts[number], SERVER_SCORED, listed=self.server.listed)
        (answer,) = self.server.stream([ask])
        prefixes: list[Prefix] = [(number, answer.tokens[:place]) for place in range(len(answer.tokens))]
        self.fetch(prefixes)
        logs = [self.logs[one] or {} for one in prefixes]
        pairs = zip(logs, answer.reported, strict=False)
        differ = max((largest_difference(one, other.logs) for one, other in pairs), default=0.0)
        return differ if self.rounding < differ <= SERVER_NOISE_MOST else 0.0

    def ask_again(self, prefixes: Sequence[Prefix]) -> None:
        """Ask again for some of the distributions that were asked for last, in another order.

        What a server computes depends on what else is in the same batch.
        """
        count = max(1, effort.SERVER_PILOT - len(self.differ))
        chosen = np.random.default_rng(len(self.differ)).permutation(len(prefixes))[:count]
        some = [prefixes[place] for place in chosen]
        for prefix, answer in zip(some, self._stream(some, self.server.listed), strict=True):
            self.differ.append(math.expm1(largest_difference(self.logs[prefix] or {}, answer.logs or {})))

    def fetch_along(self, completions: Iterable[Prefix]) -> None:
        """Fetch the distributions at all tokens of completions but their first ones.

        A server that lists log-probabilities of the tokens of a prompt scores a completion in one request, in
        place of one request for each of its tokens.
        """
        missing = [one for one in completions if any(place not in self.logs for place in prefixes_of(one, 1))]
        if not missing:
            return
        if self.along is None:
            self.along = self._way_along()
        source, scoring = self.along
        if scoring is not None:
            for completion, rows in zip(missing, source.scores(missing, scoring), strict=True):
                self.logs.update(zip(prefixes_of(completion), rows, strict=True))
            return
        width = source.server.client.limits.concurrency
        for start in range(0, len(missing), width):
            some = missing[start : start + width]
            prefixes = [prefix for completion in some for prefix in prefixes_of(completion, 1)]
            # The longest first, each in its own slot: the cache of it holds the shorter ones.
            prefixes.sort(key=lambda prefix: -len(prefix[1]))
            if source.server.takes_lists:
                for _, equally_long in groupby(prefixes, lambda prefix: len(prefix[1])):
                    source.fetch(equally_long, together=True)
            source.fetch(prefixes)
            self.logs.update((prefix, source.logs[prefix]) for prefix in prefixes)
        source.ask_again(prefixes)
        self.differ = source.differ

    def _way_along(self) -> tuple["Distributions", Scoring | None]:
        """Return whom to ask, and how it scores completions: the first that agrees with one-token requests.

        A reference is asked token by token where nothing is scored: it drafts nothing, and so is faster.
        """
        server, reference = self.server, self.reference
        (answer,) = server.complete([Ask(server.prompts[0], SERVER_SCORED)])
        completion = (0, answer.tokens)
        prefixes = prefixes_of(completion)
        self.fetch(prefixes)
        ways: list[tuple[Distributions, Scoring | None]] = [(self, scoring) for scoring in SCORINGS]
        if reference is not None and reference.listed:
            other = Distributions(replace(reference, prompts=server.prompts, listed=server.listed))
            ways += [(other, scoring) for scoring in (*SCORINGS, None)]
        for source, scoring in ways:
            try:
                if scoring is None:
                    source.fetch(prefixes)
                    rows: Sequence[Logs | None] = [source.logs[prefix] for prefix in prefixes]
                else:
                    (rows,) = source.scores([completion], scoring, is_probe=True)
            except OutOfTimeError:
                raise
            except ServerError:
                continue
            pairs = [(self.logs[prefix] or {}, row or {}) for prefix, row in zip(prefixes, rows, strict=True)]
            differ = max(difference(*pair) for pair in pairs)
            if differ <= self.tolerance:
                self.noise = max(self.noise, differ - self.rounding)
                return source, scoring
        return self, None

    def scores(
        self, completions: Sequence[Prefix], scoring: Scoring, *, is_probe: bool = False
    ) -> Iterator[list[Listed]]:
        """Yield the log-probabilities listed at each token of completions."""
        texts = [ids_after(self.server, completion) for completion in completions]
        scores = self.server.score(texts, scoring, is_probe=is_probe)
        for (_, tokens), rows in zip(completions, scores, strict=True):
            yield rows[len(rows) - len(tokens) :]

    @property
    def is_noisy(self) -> bool:
        """Whether equal requests differ: then a token may come that a filter rules out in another one."""
        return self.noise > 0 or max(self.differ, default=0.0) > math.expm1(2 * self.rounding)

    @property
    def relative_error(self) -> float:
        """By how much ratios of equal requests' probabilities differ from 1: a bound of the mean over tokens.

        As long as too few were asked for again, that of the largest difference after the prompts.
        """
        if len(self.differ) < effort.SERVER_PILOT // 2:
            return math.expm1(2 * self.error)
        differ = np.array(self.differ)
        half = DEVIATIONS * float(differ.std(ddof=1)) / math.sqrt(len(differ))
        return float(differ.mean()) + half + math.expm1(2 * self.rounding)

    @property
    def rounding(self) -> float:
        """By how much log-probabilities are rounded, nats."""
        listed = (log for logs in self.logs.values() for log in (logs or {}).values())
        return rounding(islice(listed, SHOWN))

    @property
    def tolerance(self) -> float:
        """By how much log-probabilities of equal requests may differ, nats."""
        return NOISE_FACTOR * self.noise + 2 * self.rounding + NEGLIGIBLE

    @property
    def uncertainty(self) -> str:
        """Return why the reported probabilities are too coarse, and what would help."""
        tv = math.expm1(self.error) / 2
        bound = f"which counts as its own noise: up to {tv:.2g} in total variation a token"
        if self.noise > self.rounding:
            differ = f"the server's probabilities differ by {self.noise:.2g} nats between equal requests"
            return f"{differ}, {bound}; try one slot, no batching, full precision, or a larger --detect"
        rounds = f"the server's log-probabilities are accurate to {self.rounding:.2g} nats"
        return f"{rounds}, {bound}; ask it for more digits, or use a larger --detect"


if TYPE_CHECKING:
    from transformers import PreTrainedModel

Rows: TypeAlias = Callable[[Sequence[object], Sequence[object]], Sequence[Logs | None]]
"""(prompt, tokens) -> log-probabilities listed at each token, before temperature and filters."""


@dataclass
class Weights:
    """The distributions that ``rows`` computes along completions, by prefix; ``prompts`` are token ids."""

    rows: Rows
    prompts: Sequence[Prompt]
    logs: dict[Prefix, Logs | None] = field(default_factory=dict, init=False)

    def fetch_along(self, completions: Iterable[Prefix]) -> None:
        """Compute the distributions at all tokens of completions."""
        for number, tokens in completions:
            for end, row in enumerate(self.rows(self.prompts[number], tokens)):
                self.logs[number, tokens[:end]] = row


def load_rows(spec: str) -> Rows:
    """Load the weights that a short text names, as `load_language_model` does.

    Raises `InvalidInputError`, also where a loader raises anything else.
    """
    try:
        return of_weights(load_language_model(spec, has_text=False).network)
    except InvalidInputError:
        raise
    except Exception as error:
        raise InvalidInputError(f"local weights: {type(error).__name__}: {error}") from error


def of_weights(network: "PreTrainedModel", listed: int = 200) -> Rows:
    """Return the distributions by a causal network of transformers: one pass a completion, the likeliest.

    Raises `InvalidInputError` for tokens that the network does not have.
    """
    import torch

    vocab = network.get_input_embeddings().num_embeddings

    def rows(prompt: Sequence[object], tokens: Sequence[Any]) -> list[Logs]:
        if largest := max((token for token in (*prompt, *tokens) if token >= vocab), default=0):
            raise InvalidInputError(f"local weights: they have {vocab:,} tokens, not token {largest}")
        ids = torch.tensor([[*prompt, *tokens]], device=network.device)
        with torch.inference_mode():
            logits = network(ids, logits_to_keep=len(tokens) + 1).logits[0, -len(tokens) - 1 : -1]
        likeliest, which = logits.topk(min(listed, logits.shape[-1]), dim=-1)
        logs = likeliest.double() - logits.double().logsumexp(dim=-1, keepdim=True)
        return [dict(zip(*pair, strict=True)) for pair in zip(which.tolist(), logs.tolist(), strict=True)]

    return rows
