"""Generators that are made with an engine are traced; so is what two of them share."""

import random

import numpy as np
import pytest

from spec_oracle.audit import AuditOptions, Evidence, Status, SubjectVerdict, audit
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


def joint_of(report):
    return next(check for check in report.checks if check.name == "joint")


def found(engine, budget=8.0):
    return audit(engine, options=AuditOptions(budget=budget, checks=("joint",))).subjects[0]


@pytest.mark.parametrize("made", MADE)
def test_a_generator_of_the_constructor_is_traced(made):
    report = found(Own(MADE[made]()))
    assert (report.verdict, report.evidence) == (SubjectVerdict.LOSSLESS, Evidence.EXACT)


class DrawsRows(engines.Right):
    """Draws each row anew, by a generator that it seeds with the context."""

    def next_token_probs(self, context):
        return self.row(1, context)

    def draft_probs(self, context):
        return self.row(2, context)

    def row(self, model, context):
        weights = np.random.default_rng([model, *context[-2:]]).random(engines.VOCAB) + 0.05
        return list(weights / weights.sum())


class DrawsLegacyRows(DrawsRows):
    def row(self, model, context):
        weights = np.random.RandomState([model, *context[-2:]]).uniform(size=engines.VOCAB) + 0.05
        return list(weights / weights.sum())


class ALittleLess:
    """Uniforms that are a little too small: of `random`, times 0.98."""

    def random(self):
        return 0.98 * random.random()

    def choices(self, population, weights):
        return random.choices(population, weights)

    def seed(self, seed):
        random.seed(seed)


class AcceptsALittleMore(DrawsRows):
    """Accepts with probability p / (0.98 q): a total variation of less than 0.01."""

    source = ALittleLess()


class CountsRequests(DrawsRows):
    """Seeds each request without a seed by a number that counts requests, and draws rows."""

    def row(self, model, context):
        chance = random.Random(f"{model}{context[-2:]}")
        weights = [chance.random() + 0.05 for _ in range(engines.VOCAB)]
        return [one / sum(weights) for one in weights]

    def generate(self, prompt, max_new_tokens, seed=None):
        self.number = getattr(self, "number", 0) + 1
        self.source = random.Random(1_000_003 * self.number if seed is None else seed)
        return super().generate(prompt, max_new_tokens)


def test_rows_may_be_drawn_where_they_are_needed():
    for engine in (DrawsRows(), DrawsLegacyRows()):
        report = found(engine)
        assert (report.verdict, report.evidence) == (SubjectVerdict.LOSSLESS, Evidence.EXACT)
    report = found(AcceptsALittleMore())
    assert (report.verdict, report.evidence) == (SubjectVerdict.LOSSY, Evidence.EXACT)
    assert report.total_variation < 0.01


@pytest.mark.usefixtures("less_effort")
def test_seeds_that_count_requests_are_no_proof_of_a_wrong_engine():
    """What is traced has no random number then, or is taken back by samples."""
    report = found(CountsRequests(), budget=2.0)
    assert (report.verdict, report.evidence) != (SubjectVerdict.LOSSY, Evidence.EXACT)
    assert joint_of(report).status is not Status.FAILED


@pytest.mark.nightly
def test_two_generators_of_one_seed_are_no_proof_of_a_right_engine():
    report = found(Coupled())
    assert (report.verdict, report.evidence) == (SubjectVerdict.LOSSY, Evidence.STATISTICAL)
    assert any("another generator of equal seed" in note for note in report.remarks.notes)
