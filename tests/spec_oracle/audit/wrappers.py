"""Wrappers of a right rule: with mistakes of those who write them, and odd ones that keep the contract."""

import functools
from typing import NamedTuple

import numpy as np

import verifiers
from spec_oracle.contracts import as_sampler

TOKEN = as_sampler(verifiers.get("token"))


def returns_nothing(tokens, draft_probs, target_probs, generator):
    TOKEN(tokens, draft_probs, target_probs, generator)


def swapped(tokens, draft_probs, target_probs, generator):
    return TOKEN(tokens, draft_probs, target_probs, generator)[::-1]


def without_the_last_token(tokens, draft_probs, target_probs, generator):
    emitted, accepted = TOKEN(tokens, draft_probs, target_probs, generator)
    return emitted[:, :-1], accepted


def only_the_tokens(tokens, draft_probs, target_probs, generator):
    return TOKEN(tokens, draft_probs, target_probs, generator)[0]


def three_results(tokens, draft_probs, target_probs, generator):
    return (*TOKEN(tokens, draft_probs, target_probs, generator), target_probs)


def a_dictionary(tokens, draft_probs, target_probs, generator):
    emitted, accepted = TOKEN(tokens, draft_probs, target_probs, generator)
    return {"tokens": emitted, "num_accepted": accepted}


async def a_coroutine(tokens, draft_probs, target_probs, generator):
    return TOKEN(tokens, draft_probs, target_probs, generator)


def a_generator(tokens, draft_probs, target_probs, generator):
    yield from TOKEN(tokens, draft_probs, target_probs, generator)


def lists_without_padding(tokens, draft_probs, target_probs, generator):
    emitted, accepted = TOKEN(tokens, draft_probs, target_probs, generator)
    return [row[: n + 1].tolist() for row, n in zip(emitted, accepted, strict=True)], accepted.tolist()


def a_scalar_count(tokens, draft_probs, target_probs, generator):
    emitted, accepted = TOKEN(tokens, draft_probs, target_probs, generator)
    return emitted, accepted.squeeze()[()]


def squeezed(tokens, draft_probs, target_probs, generator):
    return tuple(part.squeeze() for part in TOKEN(tokens, draft_probs, target_probs, generator))


def one_request_of_a_batch(tokens, draft_probs, target_probs, generator):
    return TOKEN(tokens[:1], draft_probs[:1], target_probs[:1], generator)


def counts_the_bonus(tokens, draft_probs, target_probs, generator):
    emitted, accepted = TOKEN(tokens, draft_probs, target_probs, generator)
    return emitted, accepted + 1


def ids_from_one(tokens, draft_probs, target_probs, generator):
    emitted, accepted = TOKEN(tokens, draft_probs, target_probs, generator)
    return np.where(emitted >= 0, emitted + 1, -1), accepted


def padded_with_zeros(tokens, draft_probs, target_probs, generator):
    emitted, accepted = TOKEN(tokens, draft_probs, target_probs, generator)
    return np.maximum(emitted, 0), accepted


def a_mask_of_what_is_accepted(tokens, draft_probs, target_probs, generator):
    emitted, accepted = TOKEN(tokens, draft_probs, target_probs, generator)
    return emitted, np.arange(tokens.shape[1]) < accepted[:, None]


def the_probabilities(tokens, draft_probs, target_probs, generator):
    _, accepted = TOKEN(tokens, draft_probs, target_probs, generator)
    return target_probs[:, :, 0], accepted


def words(tokens, draft_probs, target_probs, generator):
    emitted, accepted = TOKEN(tokens, draft_probs, target_probs, generator)
    return emitted.astype(str).astype(object) + "!", accepted


def three_parameters(tokens, draft_probs, target_probs):
    return TOKEN(tokens, draft_probs, target_probs, np.random.default_rng())


def wants_tensors(tokens, draft_probs, target_probs, generator):
    draft_probs.gather(-1, tokens.unsqueeze(-1))
    return TOKEN(tokens, draft_probs, target_probs, generator)


class NoVerdict:
    def verify(self, drafts, decisions):
        return None


class OneRequest:
    def verify(self, drafts, decisions):
        return verifiers.get("token").verify(drafts.take(np.array([0])), decisions)


class PlainPair:
    def verify(self, drafts, decisions):
        verdict = verifiers.get("token").verify(drafts, decisions)
        return verdict.emitted, verdict.num_accepted


class NoList:
    """An engine."""

    vocab_size = 2

    def next_token_probs(self, context):
        return [0.5, 0.5]

    def generate(self, prompt, max_new_tokens, seed=None):
        return None


class Coroutine(NoList):
    """An engine whose method is `async def`."""

    async def generate(self, prompt, max_new_tokens, seed=None):
        return [0] * max_new_tokens


MISTAKES = {
    "returns_nothing": "verify returned None; it must return (tokens [B, L+1], num_accepted [B])",
    "swapped": "verify returned (num_accepted, tokens), in the wrong order",
    "without_the_last_token": "tokens: shape (8, 3), expected [B, L+1] = (8, 4)",
    "only_the_tokens": "it must return (tokens [B, L+1], num_accepted [B])",
    "three_results": "it must return (tokens [B, L+1], num_accepted [B])",
    "a_dictionary": "it must return (tokens [B, L+1], num_accepted [B])",
    "a_coroutine": "verify returned a coroutine",
    "a_generator": "verify returned a generator, it has a `yield`; it must return",
    "lists_without_padding": "pad every row with -1",
    "a_scalar_count": "num_accepted: shape (), expected [B] = (1,)",
    "squeezed": "tokens: shape (4,), expected [B, L+1] = (1, 4)",
    "one_request_of_a_batch": "verify decided for 1 request, the batch has 8",
    "counts_the_bonus": "num_accepted must be from 0 to 3, without the last token; found 4 at [0]",
    "ids_from_one": "tokens must be ids from 0 to 2; found 3 at",
    "padded_with_zeros": "pad with -1 after the last emitted token; found 0 at",
    "a_mask_of_what_is_accepted": "num_accepted: shape (8, 3), expected [B] = (8,)",
    "the_probabilities": "tokens: expected whole numbers",
    "words": "tokens: expected an array of integers",
    "three_parameters": "three_parameters() takes 3 positional arguments but 4 were given",
    "wants_tensors": "has no attribute 'gather'",
    "NoVerdict": "verify returned None; it must return a Verdict",
    "OneRequest": "verify decided for 1 request, the batch has 8",
    "PlainPair": "it must return a Verdict",
    "NoList": "generate must return a list of token ids; it returned None",
    "Coroutine": "it returned a coroutine: run it to its end in generate, by asyncio.run",
}
"""Each mistake, and the sentence that names it."""


def lists(tokens, draft_probs, target_probs, generator):
    return [part.tolist() for part in TOKEN(tokens, draft_probs, target_probs, generator)]


def small_integers(tokens, draft_probs, target_probs, generator):
    emitted, accepted = TOKEN(tokens, draft_probs, target_probs, generator)
    return emitted.astype(np.int16), accepted.astype(np.uint8)


def whole_floats(tokens, draft_probs, target_probs, generator):
    emitted, accepted = TOKEN(tokens, draft_probs, target_probs, generator)
    return emitted.astype(np.float32), accepted.astype(np.float64)


class Verified(NamedTuple):
    tokens: np.ndarray
    num_accepted: np.ndarray


def named(tokens, draft_probs, target_probs, generator=None, *, verbose=False):
    return Verified(*TOKEN(tokens, draft_probs, target_probs, generator))


def in_two_halves(tokens, draft_probs, target_probs, generator):
    half = len(tokens) // 2
    parts = [
        TOKEN(tokens[some], draft_probs[some], target_probs[some], generator)
        for some in (slice(half), slice(half, None))
        if len(tokens[some])
    ]
    return [row for part in parts for row in part[0]], [count for part in parts for count in part[1]]


def _configured(tokens, draft_probs, target_probs, generator, verbose):
    return TOKEN(tokens, draft_probs, target_probs, generator)


bound = functools.partial(_configured, verbose=False)


class AsEnginesWriteThem:
    def verify(self, draft_tokens, draft_probs, target_probs, generator):
        return TOKEN(draft_tokens, draft_probs, target_probs, generator)


made = AsEnginesWriteThem()


class WithUniforms:
    """Token by token: a draft is accepted below p/q, else the residual is inverted."""

    @staticmethod
    def verify(tokens, draft_probs, target_probs, uniforms):
        emitted, accepted = np.full((len(tokens), tokens.shape[1] + 1), -1), np.zeros(len(tokens), int)
        for b, row in enumerate(tokens):
            n, left = 0, uniforms[b, -1]
            for n, token in enumerate((*row, None)):
                p = target_probs[b, n]
                if token is None:
                    break
                q = draft_probs[b, n]
                if uniforms[b, n] * q[token] >= p[token]:
                    p = np.maximum(p - q, 0)
                    break
            emitted[b, :n], accepted[b] = row[:n], n
            emitted[b, n] = np.searchsorted(np.cumsum(p) / p.sum(), left, side="right")
        return emitted, accepted


class Callable:
    def __call__(self, tokens, draft_probs, target_probs, generator):
        return TOKEN(tokens, draft_probs, target_probs, generator)


RIGHT = [
    "lists",
    "small_integers",
    "whole_floats",
    "named",
    "in_two_halves",
    "bound",
    "AsEnginesWriteThem",
    "made",
    "WithUniforms",
    "Callable",
]


def ids_beyond_now_and_then(tokens, draft_probs, target_probs, generator):
    emitted, accepted = TOKEN(tokens, draft_probs, target_probs, generator)
    beyond = (generator.random(len(tokens)) < 0.02)[:, None] & (
        np.arange(emitted.shape[1]) == accepted[:, None]
    )
    return np.where(beyond, target_probs.shape[-1], emitted), accepted


def no_output_of_large_vocabularies(tokens, draft_probs, target_probs, generator):
    if target_probs.shape[-1] > 100:
        return None
    return TOKEN(tokens, draft_probs, target_probs, generator)


def always_accepts(tokens, draft_probs, target_probs, generator):
    bonus = np.array([generator.choice(len(rows[-1]), p=rows[-1]) for rows in target_probs])
    return np.concatenate([tokens, bonus[:, None]], axis=1), np.full(*tokens.shape)
