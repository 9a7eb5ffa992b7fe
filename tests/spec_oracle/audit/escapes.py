"""Code under test that tries to get away: what an audit must survive, and tell."""

import ctypes
import os
import sys
import threading
import time

import numpy as np

import verifiers
from spec_oracle.contracts import as_sampler

TOKEN = as_sampler(verifiers.get("token"))


def right(tokens, draft_probs, target_probs, generator):
    return TOKEN(tokens, draft_probs, target_probs, generator)


def always_accepts(tokens, draft_probs, target_probs, generator):
    bonus = np.array([generator.choice(len(rows[-1]), p=rows[-1]) for rows in target_probs])
    return np.concatenate([tokens, bonus[:, None]], axis=1), np.full(*tokens.shape)


def exits(*_):
    sys.exit(0)


def exits_where_the_vocabulary_is_large(tokens, draft_probs, target_probs, generator):
    if target_probs.shape[-1] > 100:
        os._exit(0)
    return TOKEN(tokens, draft_probs, target_probs, generator)


def ends_its_process(*_):
    os._exit(0)


class EndingEngine:
    """An engine whose process ends with the first completion of several tokens."""

    prompts = ((0,),)
    vocab_size = 2

    def next_token_probs(self, context):
        return [0.5, 0.5]

    def generate(self, prompt, max_new_tokens, seed=None):
        os._exit(0)


def crashes(*_):
    ctypes.string_at(0)


def hangs(*_):
    time.sleep(3600)


def accepts_and_then_hangs(tokens, draft_probs, target_probs, generator):
    if draft_probs[0].max() == 1 and target_probs.shape[-1] == 1003:
        time.sleep(3600)
    return always_accepts(tokens, draft_probs, target_probs, generator)


def decides_without_end(tokens, draft_probs, target_probs, generator):
    while generator.random() < 1.5:
        pass


def fills_memory(*_):
    filled = []
    while True:
        filled.append(np.ones(1 << 24))


def prints(tokens, draft_probs, target_probs, generator):
    print("secret number 42")
    os.write(1, b"and past Python\n")
    return TOKEN(tokens, draft_probs, target_probs, generator)


def starts_threads(tokens, draft_probs, target_probs, generator):
    found = []
    thread = threading.Thread(
        target=lambda: found.append(TOKEN(tokens, draft_probs, target_probs, np.random.default_rng()))
    )
    thread.start()
    thread.join()
    return found[0]


def ragged(tokens, draft_probs, target_probs, generator):
    return [[0], [0, 1]], np.zeros(len(tokens), int)


class WantsArguments:
    def __init__(self, model):
        self.model = model

    def verify(self, drafts, decisions):
        raise AssertionError(self.model)


class NoRule:
    def verify(self):
        return "fine"
