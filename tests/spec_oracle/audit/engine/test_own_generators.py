"""Generators that are made with an engine are traced on copies of it, unless two of them are coupled."""

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


class Coupled(Own):
    """Its drafter has a generator of the same seed: in the first call drafts decide what is accepted."""

    def __init__(self):
        super().__init__(random.Random(7))
        self.of_drafts = random.Random(7)

    def drafter(self, context):
        return self.of_drafts.choices(range(engines.VOCAB), engines.DRAFT(context))[0]


MADE = {
    "python": lambda: random.Random(7),
    "numpy": lambda: Numpy(np.random.default_rng(7)),
    "legacy": lambda: Numpy(np.random.RandomState(7)),
}


def found(engine):
    return audit(engine, options=AuditOptions(budget=20.0, checks=("joint",))).subjects[0]


@pytest.mark.parametrize("made", MADE)
def test_a_generator_of_the_constructor_is_traced(made):
    report = found(Own(MADE[made]()))
    assert (report.verdict, report.evidence) == (SubjectVerdict.LOSSLESS, Evidence.EXACT)


def test_nothing_is_proven_of_two_generators_of_one_state():
    report = found(Coupled())
    assert report.evidence is Evidence.STATISTICAL
    assert any("two of its generators have the same state" in note for note in report.remarks.notes)
