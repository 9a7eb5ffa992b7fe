"""Right engines in unusual dress: completions are traced, and right, or what hides the noise is named."""

import asyncio
import hashlib
import itertools
import math
import os
import random
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from spec_oracle.audit.engine.tracer import completions_of, traced
from spec_oracle.audit.results import NoEvidenceError
from spec_oracle.contracts.engine import EngineCode
from tests.spec_oracle.audit.engine import engines


class Yields(engines.Right):
    """Yields its token ids one by one."""

    def generate(self, *arguments, **options):
        yield from super().generate(*arguments, **options)


class OfNumpy(engines.Right):
    """Token ids of 32 bits and rows are arrays; the global generator of numpy decides."""

    class source:  # noqa: D106, N801  (stands for the module `random`)
        random = staticmethod(lambda: np.random.random())  # noqa: NPY002, PLW0108  (may be replaced)
        seed = staticmethod(lambda seed: np.random.seed(seed % 2**32))  # noqa: NPY002

    def next_token_probs(self, context):
        return np.array(engines.TARGET([int(token) for token in context]))

    def draw(self, weights):
        return int(np.random.choice(len(weights), p=np.array(weights) / sum(weights)))  # noqa: NPY002

    def generate(self, prompt, max_new_tokens, seed=None):
        return np.array(super().generate([*prompt], max_new_tokens, seed), dtype=np.int32)


class OfThreads(engines.Right):
    """Decodes in another thread."""

    def generate(self, *arguments, **options):
        with ThreadPoolExecutor(1) as pool:
            return pool.submit(super().generate, *arguments, **options).result()


class OfCoroutines(engines.Right):
    """Decodes in an event loop that is made for the request."""

    def generate(self, *arguments, **options):
        async def decoded():
            await asyncio.sleep(0)
            return super(OfCoroutines, self).generate(*arguments, **options)

        return asyncio.run(decoded())


class AdaptsItsDrafts(engines.Right):
    """Drafts one token more after a full acceptance, one less after a rejection; requests inherit that."""

    def call(self, context, left):
        drafted, accepted = self.drafted, self.accepted
        emitted = super().call(context, left)
        grows = self.drafted - drafted == self.accepted - accepted
        self.draft_length = min(self.draft_length + 1, 4) if grows else max(self.draft_length - 1, 1)
        return emitted


class GivesUp(engines.Right):
    """Decodes without drafts after two rejections of a request."""

    def begin(self):
        super().begin()
        self.rejections = 0

    def call(self, context, left):
        if self.rejections == 2:
            return [self.draw(self.next_token_probs(context))]
        drafted, accepted = self.drafted, self.accepted
        emitted = super().call(context, left)
        self.rejections += self.drafted - drafted > self.accepted - accepted
        return emitted


class LooksUp(engines.Right):
    """Drafts what followed the same token last time: such drafts are certain, and q is 1."""

    def drafter(self, context):
        follow = [after for token, after in itertools.pairwise(context) if token == context[-1]]
        return follow[-1] if follow else 0

    def draft_probs(self, context):
        row = [0.0] * engines.VOCAB
        row[self.drafter(context)] = 1.0
        return row


class SharesItsNoise(engines.Right):
    """Draft and target take the largest sum of log probability and Gumbel noise, with the same noise."""

    def call(self, context, left):
        emitted = []
        for _ in range(left):
            noise = [-math.log(-math.log(1 - random.random() or 0.5)) for _ in range(engines.VOCAB)]
            after = [*context, *emitted]
            drafted, token = (
                self.best(row, noise) for row in (self.draft_probs(after), self.target(after, []))
            )
            emitted.append(token)
            self.note(drafted=1, accepted=drafted == token)
            if drafted != token:
                break
        return emitted

    def best(self, row, noise):
        return max(range(engines.VOCAB), key=lambda token: math.log(row[token]) + noise[token])


class KeepsRows(engines.Right):
    """Keeps the rows of fifty prefixes for as long as it lives."""

    def __init__(self):
        super().__init__()
        self.rows = {}

    def next_token_probs(self, context):
        if len(self.rows) == 50:
            self.rows.pop(next(iter(self.rows)))
        return self.rows.setdefault(tuple(context), engines.TARGET(context))


class OfTheSystem(engines.Right):
    """Takes random numbers from the system where no seed is given."""

    def seed(self, seed):
        self.source = random.SystemRandom() if seed is None else random.Random(seed)


class Hashes(engines.Right):
    """Every uniform is a hash of the request's seed and of the number of uniforms before it."""

    class Source:  # noqa: D106
        def __init__(self, seed):
            self.key, self.used = seed, 0

        def random(self):
            self.used += 1
            digest = hashlib.sha256(f"{self.key},{self.used}".encode()).digest()
            return int.from_bytes(digest[:6], "little") / 2**48

        def choices(self, population, weights):
            at = self.random() * sum(weights)
            ends = np.cumsum(weights)
            return [population[min(int(np.searchsorted(ends, at, side="right")), len(population) - 1)]]

    def seed(self, seed):
        self.source = self.Source(os.urandom(8).hex() if seed is None else seed)


class Slots:
    """Has slots and no class of its own; prompts and completions are tuples, the stop token a set."""

    __slots__ = ("inner", "prompts", "stop_tokens", "vocab_size")

    def __init__(self):
        self.inner, self.vocab_size, self.prompts, self.stop_tokens = engines.Right(), 3, ((0,), (1, 2)), {2}

    @property
    def drafter(self):
        return self.inner.drafter

    def next_token_probs(self, context):
        return tuple(self.inner.next_token_probs(context))

    def generate(self, prompt, max_new_tokens, seed=None):
        text = self.inner.generate(list(prompt), max_new_tokens, seed)
        return tuple(text[: text.index(2) + 1] if 2 in text else text)


class DraftsCertain(LooksUp):
    """Accepts what it looked up as if the draft had been drawn from q, and says nothing of q."""

    def draft_probs(self, context):
        return engines.DRAFT(context)


TRACED = (
    Yields,
    OfNumpy,
    OfCoroutines,
    OfTheSystem,
    AdaptsItsDrafts,
    GivesUp,
    LooksUp,
    KeepsRows,
    Slots,
)
UNTRACED = (OfThreads, SharesItsNoise)


def off(engine):
    """Return the total variation of completions of two tokens, all of whose outcomes are run."""
    code, prompt = EngineCode(engine), (1, 2)
    found = traced(completions_of(code, prompt, 2), 10_000, time.process_time() + 60).law
    stops = getattr(engine, "stop_tokens", ())
    expected = {}
    for first, mass in enumerate(engines.TARGET(prompt)):
        after = enumerate(engines.TARGET((*prompt, first)))
        expected |= {(first,): mass} if first in stops else {(first, x): mass * p for x, p in after}
    return sum(abs(found.get(text, 0) - expected.get(text, 0)) for text in {*found, *expected}) / 2


@pytest.mark.parametrize("engine", TRACED)
def test_a_right_engine_is_right(engine):
    assert off(engine()) < 1e-12


@pytest.mark.parametrize("engine", UNTRACED)
def test_noise_that_cannot_be_traced_is_sampled_and_no_law_is_made_up(engine):
    with pytest.raises(NoEvidenceError, match="sampled instead"):
        off(engine())


def test_an_engine_that_hashes_its_seeds_shows_no_decision():
    assert not traced(completions_of(EngineCode(Hashes()), (0,), 2), 10_000).is_decided


def test_dress_hides_no_defect():
    assert off(DraftsCertain()) > 0.05
