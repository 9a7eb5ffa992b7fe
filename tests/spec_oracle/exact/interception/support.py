"""Toy models for the tests of interception: rows depend on the whole prefix, some have zeros."""

import itertools
import math
from collections import defaultdict

import numpy as np

from spec_oracle.audit.sampler.tracer import law_after
from spec_oracle.contracts import SamplerCode
from spec_oracle.exact.interception import enumerate_calls
from verifiers import Paths


def call_law(function, label, **limits):
    """Return the exact law of ``label(function())``: probability by label."""
    weights = defaultdict(list)
    for branch in enumerate_calls(function, **limits):
        weights[label(branch.result)].append(branch.weight)
    return {outcome: math.fsum(parts) for outcome, parts in weights.items()}


def random_rows(rng, vocab_size, depth):
    """Conditional laws by context up to the given depth."""
    rows = {}
    for length in range(depth):
        for context in itertools.product(range(vocab_size), repeat=length):
            row = rng.dirichlet(np.ones(vocab_size))
            if rng.random() < 0.2:
                row[rng.integers(vocab_size)] = 0
            rows[context] = row / row.sum()
    return rows


def random_models(seed, vocab_size, draft_length):
    rng = np.random.default_rng(seed)
    target = random_rows(rng, vocab_size, draft_length + 1)
    draft = random_rows(rng, vocab_size, draft_length)
    return target, draft


def drafts(draft, vocab_size, draft_length):
    """Yield every path of positive probability with that probability."""
    for path in itertools.product(range(vocab_size), repeat=draft_length):
        probability = math.prod(draft[path[:i]][path[i]] for i in range(draft_length))
        if probability > 0:
            yield path, probability


def along(rows, path, stop):
    return np.array([rows[path[:i]] for i in range(stop)])


def sequence_law(target, vocab_size, length):
    """Return the target's law on sequences."""
    return {
        s: math.prod(target[s[:i]][s[i]] for i in range(length))
        for s in itertools.product(range(vocab_size), repeat=length)
    }


def extended(emissions, target, vocab_size, length):
    """Continue each emission by the target up to ``length`` tokens."""
    law = defaultdict(float)
    for emission, mass in emissions.items():
        for tail in itertools.product(range(vocab_size), repeat=length - len(emission)):
            s = emission + tail
            law[s] += mass * math.prod(target[s[:i]][s[i]] for i in range(len(emission), length))
    return law


def total_variation(left, right):
    return sum(abs(left.get(key, 0.0) - right.get(key, 0.0)) for key in {*left, *right}) / 2


def emission_law(verify, target, draft, vocab_size, draft_length, *, array="numpy"):
    """Return the exact law of the emission of one call, drafts drawn from the draft model."""
    law = defaultdict(float)
    for path, probability in drafts(draft, vocab_size, draft_length):
        inputs = (path, along(draft, path, draft_length), along(target, path, draft_length + 1))
        one = Paths(*(np.asarray(array)[None, None] for array in inputs))
        for prefix, masses in law_after(SamplerCode(verify, array), one).leaves.items():
            for token in np.flatnonzero(masses):
                law[(*prefix, int(token))] += probability * masses[token]
    return law


def distance(verify, seed, vocab_size=3, draft_length=2, array="numpy"):
    """Total variation between the extended law of the verifier and the target's law."""
    target, draft = random_models(seed, vocab_size, draft_length)
    law = emission_law(verify, target, draft, vocab_size, draft_length, array=array)
    length = draft_length + 1
    return total_variation(
        extended(law, target, vocab_size, length), sequence_law(target, vocab_size, length)
    )
