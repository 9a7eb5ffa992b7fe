"""Generators that are made with an engine are traced; so is what two of them share."""

import random

import numpy as np
import pytest

from spec_oracle.audit import AuditOptions, Evidence, SubjectVerdict, audit
from tests.spec_oracle.audit.engine import engines


class Numpy:
    """A generator of numpy by the names of Python's."""

    def __init__(self, generator):
        self.generator = generator

    def random(self):
        return self.generator.random()

    def choices(self, population, weights):
        return [population[int(self.generator.choice(len(weights), p=np.array(weights) / sum(weights)))]]

    def seed(self, seed):
        raise NotImplementedError


class Own(engines.Right):
    """Draws from a generator that is made in its constructor; it takes no seeds."""

    def __init__(self, source):
        self.source = source
        super().__init__()

    def generate(self, prompt, max_new_tokens):
        return super().generate(prompt, max_new_tokens)


class Coupled(engines.Right):
    """Its drafter has a generator of the request's seed, too: drafts decide what is accepted."""

    def generate(self, prompt, max_new_tokens, seed=None):
        seed = random.getrandbits(64) if seed is None else seed
        self.of_drafts = random.Random(seed)
        return super().generate(prompt, max_new_tokens, seed)

    def drafter(self, context):
        return self.of_drafts.choices(range(engines.VOCAB), engines.DRAFT(context))[0]


MADE = {
    "python": lambda: random.Random(7),
    "numpy": lambda: Numpy(np.random.default_rng(7)),
    "legacy": lambda: Numpy(np.random.RandomState(7)),
}


def found(engine):
    return audit(engine, options=AuditOptions(budget=8.0, checks=("joint",))).subjects[0]


@pytest.mark.parametrize("made", MADE)
def test_a_generator_of_the_constructor_is_traced(made):
    report = found(Own(MADE[made]()))
    assert (report.verdict, report.evidence) == (SubjectVerdict.LOSSLESS, Evidence.EXACT)


@pytest.mark.nightly
def test_two_generators_of_one_seed_are_no_proof_of_a_right_engine():
    report = found(Coupled())
    assert (report.verdict, report.evidence) == (SubjectVerdict.LOSSY, Evidence.STATISTICAL)
    assert any("another generator of equal seed" in note for note in report.remarks.notes)
