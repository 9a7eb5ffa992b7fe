"""Exact laws: whole batches, beside one branch at a time of the same verifier.

The recursion runs the serving code on one draft tuple and one script of outcomes at a time, depth first; the
engine is Pyro's own enumeration of a program (`pyro.infer.enum.iter_discrete_traces`), which is here the
serving code with `pyro.sample` for its decisions. Both are timed on some draft tuples, drawn at random, and
the time is scaled to all of them.
"""

from functools import partial
from itertools import product

import numpy as np
import pyro
import torch
from pyro.infer.enum import iter_discrete_traces

import verifiers
from lab.benchmarks.measure import in_turns, median, spent, table
from spec_oracle.exact import emission_law
from spec_oracle.exact.arithmetic import arithmetic
from spec_oracle.exact.call import DraftTable, drafting_on, enumerated_instance
from spec_oracle.toy import Instance
from verifiers import drafting_of

RULES = (
    "block",
    "recursive_rejection",
    "k_seq",
    "traversal",
    "greedy_multipath_block",
    "global_resolution",
    "balanced_multipath_block",
)
SAMPLES = {"recursion": 24, "pyro": 4}
"""Draft tuples that are timed one branch at a time."""

ROUNDS, LARGE = 3, ((4, 3, 3), (4, 4, 2), (8, 5, 1))


class _Ask(Exception):  # noqa: N818  # a signal, not an error
    """A decision beyond the script; ``chances`` of its outcomes, [decisions, outcomes]."""

    def __init__(self, chances):
        self.chances = chances


class OneBranch:
    """Decisions of one request by a script of outcomes, one entry a call."""

    def __init__(self, script):
        self.script = iter(script)

    def bernoulli(self, probability):
        chance = np.clip(probability, 0, 1)
        return self._next(np.stack([1 - chance, chance], axis=-1)).astype(bool)

    def categorical(self, weights):
        return self._next(weights / weights.sum(axis=-1, keepdims=True))

    def _next(self, chances):
        answer = next(self.script, None)
        if answer is None:
            raise _Ask(chances.reshape(-1, chances.shape[-1]))
        return np.reshape(answer, chances.shape[:-1])


def by_recursion(rule, drafts, script=(), weight=1.0):
    """Yield (verdict, probability) of every branch of one request."""
    try:
        yield rule.verify(drafts, OneBranch(script)), weight
    except _Ask as ask:
        for outcomes in product(*(np.flatnonzero(row) for row in ask.chances)):
            chance = np.prod(ask.chances[range(len(outcomes)), outcomes])
            yield from by_recursion(rule, drafts, (*script, outcomes), weight * chance)


class PyroDecisions:
    """Decisions of one request as `pyro.sample` statements."""

    def __init__(self):
        self.asked = 0

    def bernoulli(self, probability):
        chance = np.clip(probability, 0, 1)
        return self.categorical(np.stack([1 - chance, chance], axis=-1)).astype(bool)

    def categorical(self, weights):
        rows = weights.reshape(-1, weights.shape[-1])
        return np.reshape([self._sample(row) for row in rows], weights.shape[:-1])

    def _sample(self, row):
        possible = np.flatnonzero(row)
        self.asked += 1
        law = pyro.distributions.Categorical(torch.from_numpy(row[possible]))
        return possible[int(pyro.sample(f"decision {self.asked}", law, infer={"enumerate": "sequential"}))]


def by_pyro(rule, drafts):
    """Yield (verdict, probability) of every trace of one request."""
    for trace in iter_discrete_traces("flat", lambda: rule.verify(drafts, PyroDecisions())):
        yield trace.nodes["_RETURN"]["value"], float(trace.log_prob_sum().exp())


def tuples(rule, instance):
    """Return the draft tuples of an instance: a call that gives one of them as a batch, and their law."""
    chosen = arithmetic(exact=False, array="numpy", dtype="float64")
    instance = enumerated_instance(rule, instance)
    drawn = DraftTable(instance, drafting_on(instance, drafting_of(rule)), chosen)
    return lambda number: drawn.drafts(np.array([number])), drawn.law.probability


def law_by(branches, rule, instance):
    """Return the law of the emission, by text, one branch at a time."""
    drafts, chances = tuples(rule, instance)
    law = {}
    for number, chance in enumerate(chances):
        for verdict, weight in branches(rule, drafts(number)):
            text = tuple(int(token) for token in verdict.emitted[0] if token >= 0)
            law[text] = law.get(text, 0.0) + chance * weight
    return law


def milliseconds(branches, rule, instance, sample):
    """Return the time of all draft tuples, from that of ``sample`` drawn ones."""
    drafts, chances = tuples(rule, instance)
    some = [drafts(number) for number in np.random.default_rng(0).choice(len(chances), sample, replace=False)]
    return spent(lambda: [sum(1 for _ in branches(rule, one)) for one in some])[0] * len(chances) / sample


def row(name):
    """Compare the ways to the law at V = 4, L = 3, K = 2, after a check on a smaller toy that they agree."""
    rule, small = verifiers.get(name), Instance.random(2, 2, seed=0, num_paths=2)
    expected = emission_law(rule, small).probabilities
    for branches in (by_recursion, by_pyro):
        found = law_by(branches, rule, small)
        assert max(abs(found.get(text, 0) - mass) for text, mass in expected.items()) < 1e-6, name
    instance = Instance.random(4, 3, seed=0, num_paths=2)
    ways = {"batches": partial(emission_law, merged=False), "merged": emission_law}
    times = in_turns({way: partial(law, rule, instance) for way, law in ways.items()}, ROUNDS)
    batches, merged = (median(times[way]) for way in ways)
    recursion = milliseconds(by_recursion, rule, instance, SAMPLES["recursion"])
    engine = milliseconds(by_pyro, rule, instance, SAMPLES["pyro"])
    ratios = (recursion / batches, recursion / merged, engine / batches)
    return f"`{name}`", batches, merged, recursion, engine, *ratios


def lines():
    yield "## Exact laws, beside one branch at a time"
    yield ""
    yield f"""\
V = 4, L = 3, K = 2, the same verifier code on all 4,096 draft tuples (`block`: 64 paths, it looks at one):
whole batches as audits enumerate them; merged, where a rule declares what allows it, as `efficiency` does;
plain recursion, one branch at a time; Pyro's own enumeration. The last two are scaled from
{SAMPLES["recursion"]} and {SAMPLES["pyro"]} draft tuples.
"""
    heads = ["rule", "batches", "merged", "recursion", "Pyro"]
    ratios = ["recursion / batches", "recursion / merged", "Pyro / batches"]
    yield from table([*heads, *ratios], (row(name) for name in RULES))
    yield ""
    yield "Larger ones, merged where declared, seconds, once:"
    yield ""
    sizes = [f"V = {v}, L = {length}, K = {paths}" for v, length, paths in LARGE]
    yield from table(["rule", *sizes], (large(name) for name in (*RULES, "lookahead_multipath_block")))


def large(name):
    found = []
    for vocab, length, paths in LARGE:
        instance = Instance.random(vocab, length, seed=0, num_paths=paths)
        milliseconds_, law = spent(lambda i=instance: emission_law(verifiers.get(name), i))
        assert law.total_variation < 1e-9, name
        found.append(milliseconds_ / 1e3)
    return f"`{name}`", *found
