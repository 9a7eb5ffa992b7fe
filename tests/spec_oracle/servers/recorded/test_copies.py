"""Copies of completions: found at a stated rate, and each token counts once.

Right completions are 40 files of 60; copies are said of one of these with a probability of 4e-8 at most.
"""

from itertools import product

import numpy as np
import pytest

from spec_oracle.servers.recorded.transcripts import COPY_RATE, Copies
from tests.strategies import by_day

PROMPTS = {"one prompt": 1, "many prompts": 30}
TOKENS = {"1 token": (1, 1), "up to 6 tokens": (1, 6), "20 tokens": (20, 20)}
VOCAB = 4


def completions(rng, count, prompts, tokens):
    """Sample completions of a model whose next token depends on the last one."""
    rows = np.random.default_rng(7).dirichlet([0.7] * VOCAB, VOCAB)
    found = []
    for _ in range(count):
        text, logs = [int(rng.integers(prompts)) % VOCAB], []
        for _ in range(int(rng.integers(tokens[0], tokens[1] + 1))):
            row = rows[text[-1]]
            text.append(int(rng.choice(VOCAB, p=row)))
            logs.append(np.log(row[text[-1]]))
        found.append((tuple(text[:1]), tuple(text[1:]), np.array(logs)))
    return found


def cut(completion, first, last):
    """Return some tokens of a completion: those before them are part of the prompt then."""
    prompt, tokens, logs = completion
    return (*prompt, *tokens[:first]), tokens[first:last], logs[first:last]


def added(listed):
    """Return what was seen of completions, and how many of their tokens are new."""
    copies = Copies()
    return copies, sum(int(copies.add(*one).sum()) for one in listed)


@pytest.mark.parametrize(
    ("prompts", "tokens"),
    by_day([*product(PROMPTS, TOKENS)], [("one prompt", "up to 6 tokens"), ("many prompts", "1 token")]),
)
def test_repeats_by_chance_are_no_copies(prompts, tokens):
    prompts, tokens = PROMPTS[prompts], TOKENS[tokens]
    rng = np.random.default_rng(0)
    files = [added(completions(rng, 60, prompts, tokens))[0] for _ in range(40)]
    assert not any(copies.found for copies in files)
    # The e-value is 20 or more in a twentieth of right files at most: 2 of 40, and 7 with a rate of 1e-3.
    assert sum(copies.largest[0] >= np.log(20) for copies in files) < 7
    equal, expected = sum(copies.equal for copies in files), sum(copies.expected for copies in files)
    assert equal <= expected + 5 * np.sqrt(expected + 1)


LONG = completions(np.random.default_rng(1), 12, 1, (60, 60))
SHORT = completions(np.random.default_rng(2), 60, 1, (5, 5))
WAYS = {
    "the whole file": LONG * 3,
    "one after the other": [one for one in LONG for _ in range(3)],
    "one line": [*LONG, LONG[3]],
    "as numpy numbers": [*LONG, *((np.array(one[0]), np.array(one[1]), one[2]) for one in LONG)],
    "short ones": SHORT * 8,
    "the beginning first": [some for one in LONG for some in (cut(one, 0, 40), one)],
    "the beginning last": [some for one in LONG for some in (one, cut(one, 0, 40))],
    "from a later token on": [some for one in LONG for some in (one, cut(one, 4, 60))],
    "a later token first": [some for one in LONG for some in (cut(one, 4, 60), one)],
    "behind another prompt": [*LONG, *(((9, *one[0]), *one[1:]) for one in LONG)],
}


@pytest.mark.parametrize("listed", WAYS.values(), ids=WAYS)
def test_copies_are_found_and_count_once(listed):
    copies, new = added(listed)
    assert copies.found.endswith(("by chance)", "than by chance"))
    assert copies.completions == len(listed)
    texts = {(*prompt, *tokens[:end]) for prompt, tokens, _ in listed for end in range(len(tokens))}
    assert new <= len(texts)


def test_the_number_of_copies_is_printed():
    assert (
        added([LONG[0]] * 3)[0].found == "2 of 3 completions are equal to one before (at most 0.0 by chance)"
    )
    parts = [some for one in LONG for some in (one, cut(one, 0, 40))]
    assert "12 have a longer part of one than by chance" in added(parts)[0].found


def test_new_tokens_are_chosen_before_they_come():
    """A token is new by the text before it: right new tokens are as probable as all others.

    The mean of 1 / p over new tokens is the number of tokens with p > 0; by chance within 5 deviations.
    """
    rng, copies, ratios = np.random.default_rng(3), Copies(), []
    for prompt, tokens, logs in completions(rng, 600, 1, (1, 6)):
        is_new = copies.add(prompt, tokens, logs)
        ratios += (np.exp(-logs)[is_new] / VOCAB).tolist()
    assert 100 < len(ratios) < 1500
    assert abs(np.mean(ratios) - 1) < 5 * np.std(ratios) / np.sqrt(len(ratios))


def test_completions_of_unknown_probability_are_no_copies():
    """Without distributions any beginning may be certain: of no token is it known that it is improbable."""
    same = ((1, 2), tuple(range(50)), np.zeros(50))
    assert not added([same] * 20)[0].found
    assert COPY_RATE < 1e-6


def test_a_completion_without_tokens_is_none():
    assert added([((1,), (), np.zeros(0))] * 5)[1] == 0
