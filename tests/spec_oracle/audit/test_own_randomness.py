"""A rule that draws random numbers by itself is broken, with the line; right rules in unusual dress pass."""
# ruff: noqa: NPY002  (rules use the legacy functions)

import inspect
import random
import secrets
from dataclasses import replace
from functools import lru_cache
from itertools import product
from random import random as uniform_by_name

import numpy as np
import pytest
from numpy.random import default_rng as generator_by_name

import verifiers
from spec_oracle.audit import AuditOptions, Evidence, Status, SubjectVerdict, audit
from spec_oracle.cli import main
from spec_oracle.toy import Instance
from tests.strategies import by_day
from tests.subjects import checks_of
from verifiers import EMPTY, ROOT, Verdict

ONLY_JOINT = AuditOptions(vocab_size=2, draft_length=2, checks=(), shrink=False)
DO = "take every random decision from `decisions`"


def inverted(row, uniform):
    return int(min(np.searchsorted(np.cumsum(row), uniform * row.sum(), side="right"), len(row) - 1))


def matched(drafts, token_of):
    """Verify one path by sampling each token from its row: kept as long as the draft is that token."""
    paths = drafts.paths
    count, following = np.zeros(paths.batch, dtype=int), np.zeros(paths.batch, dtype=int)
    for b in range(paths.batch):
        for place in range(paths.draft_length + 1):
            following[b] = token_of(np.asarray(paths.target_probs[b, 0, place]))
            if place == paths.draft_length or following[b] != paths.tokens[b, 0, place]:
                break
            count[b] += 1
    return Verdict.on_paths(drafts, np.zeros(paths.batch, dtype=int), count, following)


class InAnAttribute:
    def __init__(self):
        self.rng = np.random.default_rng()

    def verify(self, drafts, decisions):
        return matched(drafts, lambda row: inverted(row, self.rng.random()))  # draws


class OfNumpy:
    def verify(self, drafts, decisions):
        return matched(drafts, lambda row: np.random.choice(len(row), p=row / row.sum()))  # draws


class OfPython:
    def verify(self, drafts, decisions):
        return matched(drafts, lambda row: random.choices(range(len(row)), row.tolist())[0])  # draws


class OfPythonByName:
    def verify(self, drafts, decisions):
        return matched(drafts, lambda row: inverted(row, uniform_by_name()))  # draws


class OfPythonInAnAttribute:
    def __init__(self):
        self.rng = random.Random()

    def verify(self, drafts, decisions):
        return matched(drafts, lambda row: inverted(row, self.rng.random()))  # draws


class OfTorch:
    def verify(self, drafts, decisions):
        import torch

        return matched(drafts, lambda row: int(torch.multinomial(torch.as_tensor(row), 1)))  # draws


class OfTorchInAnAttribute:
    def __init__(self):
        import torch

        self.rng = torch.Generator().manual_seed(5)

    def verify(self, drafts, decisions):
        import torch

        return matched(drafts, lambda row: inverted(row, float(torch.rand(1, generator=self.rng))))  # draws


class SeededInEachCall:
    def verify(self, drafts, decisions):
        rng = np.random.default_rng(0)
        return matched(drafts, lambda row: inverted(row, rng.random()))  # draws


class SeededByName:
    def verify(self, drafts, decisions):
        return matched(drafts, lambda row: inverted(row, generator_by_name(0).random()))  # draws


class GlobalSeedInEachCall:
    def verify(self, drafts, decisions):
        np.random.seed(3)
        return matched(drafts, lambda row: inverted(row, np.random.rand()))  # draws


def in_a_closure():
    rng = np.random.RandomState(7)

    class InAClosure:
        def verify(self, drafts, decisions):
            return matched(drafts, lambda row: inverted(row, rng.random_sample()))  # draws

    return InAClosure()


class OfTheSystem:
    def verify(self, drafts, decisions):
        return matched(drafts, lambda row: inverted(row, secrets.randbelow(2**30) / 2**30))  # draws


class KeptMethod:
    """No function can stand before a method that it keeps."""

    def __init__(self):
        self.draw = np.random.default_rng().random

    def verify(self, drafts, decisions):
        return matched(drafts, lambda row: inverted(row, self.draw()))


class OnlyTheBonus:
    """The token after a whole draft is drawn by itself, all others by decisions."""

    def __init__(self):
        self.rng = np.random.default_rng()

    def verify(self, drafts, decisions):
        found = verifiers.get("token").verify(drafts, decisions)
        last = drafts.paths.target_probs[:, 0, -1]
        own = np.array([inverted(row, self.rng.random()) for row in last])  # draws
        whole = found.num_accepted == drafts.paths.draft_length
        return replace(found, next_token=np.where(whole, own, found.next_token))


class Remembered:
    """What it has drawn for a row is kept, so that the same call emits the same."""

    def __init__(self):
        self.drawn = lru_cache(None)(lambda row: inverted(np.array(row), np.random.random()))  # draws

    def verify(self, drafts, decisions):
        return matched(drafts, lambda row: self.drawn(tuple(row.tolist())))


class ThroughAnotherPackage:
    """A package draws, from a seed."""

    def verify(self, drafts, decisions):
        from scipy.stats import rv_discrete

        def token_of(row):
            law = rv_discrete(values=(np.arange(len(row)), row / row.sum()))
            return int(law.rvs(random_state=0))  # draws

        return matched(drafts, token_of)


class OwnTree:
    """Samples the row of each node, and goes on while a child is that token."""

    accepts = frozenset({"top", "distinct"})

    def __init__(self):
        self.rng = np.random.default_rng()

    def verify(self, drafts, decisions):
        rows, nodes, tokens = drafts.target.dense(), [], []
        for b in range(drafts.batch):
            place = ROOT
            while True:
                token = inverted(rows[b, place + 1], self.rng.random())  # draws
                below = [
                    child
                    for child in range(drafts.places)
                    if drafts.parents[b, child] == place and drafts.parents[b, child] != EMPTY
                    if drafts.tokens[b, child] == token
                ]
                if not below:
                    break
                place = below[0]
            nodes.append(place)
            tokens.append(token)
        return Verdict(np.array(nodes), np.array(tokens), drafts)


class GlobalTree:
    accepts = frozenset({"top"})

    def verify(self, drafts, decisions):
        found = verifiers.get("nss").verify(drafts, decisions)
        return replace(found, next_token=np.random.randint(0, drafts.vocab_size, drafts.batch))  # draws


DRAW = [
    InAnAttribute,
    OfNumpy,
    OfPython,
    OfPythonByName,
    OfPythonInAnAttribute,
    OfTorch,
    OfTorchInAnAttribute,
    SeededInEachCall,
    SeededByName,
    GlobalSeedInEachCall,
    OfTheSystem,
    in_a_closure,
    OnlyTheBonus,
    Remembered,
    ThroughAnotherPackage,
    OwnTree,
    GlobalTree,
]
"""Each draws in the line that says so."""

OF_NIGHT = (
    *(InAnAttribute, OfPython, OfPythonInAnAttribute, OfTorchInAnAttribute, SeededByName),
    *(GlobalSeedInEachCall, Remembered, ThroughAnotherPackage, GlobalTree),
)
"""Variants of what the others do."""


def line_that_draws(thing):
    lines, first = inspect.getsourcelines(thing)
    (number,) = [number for number, line in enumerate(lines, start=first) if line.endswith("# draws\n")]
    return f"test_own_randomness.py:{number}"


def joint_of(report):
    (found,) = report.subjects
    return found, checks_of(found)["joint"]


@pytest.mark.parametrize("rule", by_day(DRAW, {*DRAW} - {*OF_NIGHT}), ids=lambda rule: rule.__name__)
def test_random_numbers_of_its_own_break_the_contract(rule):
    if "Torch" in rule.__name__:
        pytest.importorskip("torch")
    report = audit(rule, options=replace(ONLY_JOINT, checks=("batch", "inputs-kept")))
    found, joint = joint_of(report)
    assert (found.verdict, report.exit_code) == (SubjectVerdict.BROKEN, 3)
    assert (found.evidence, found.total_variation, found.counterexample) == (Evidence.NONE, None, None)
    assert f"(at tests/spec_oracle/audit/{line_that_draws(rule)})" in joint.detail
    assert DO in joint.detail
    others = {check.status for check in found.checks if check.name != "joint"}
    assert others <= {Status.SKIPPED, Status.NOT_APPLICABLE}


class ChangesEachTime:
    """Nothing is drawn: what it emits depends on how often it was called."""

    calls = 0

    def verify(self, drafts, decisions):
        self.calls += 1
        found = verifiers.get("token").verify(drafts, decisions)
        return replace(found, next_token=(found.next_token + self.calls) % drafts.vocab_size)


@pytest.mark.parametrize("rule", [KeptMethod, ChangesEachTime])
def test_a_call_that_emits_something_else_when_repeated_is_broken(rule):
    report = audit(rule, options=ONLY_JOINT)
    found, joint = joint_of(report)
    assert (found.verdict, report.exit_code) == (SubjectVerdict.BROKEN, 3)
    assert "the same call with the same decisions emits other tokens" in joint.detail
    assert DO in joint.detail


def test_the_first_check_that_is_run_says_so():
    report = audit(InAnAttribute, options=replace(ONLY_JOINT, checks=None, skip={"joint": "slow"}))
    found, joint = joint_of(report)
    assert (found.verdict, report.exit_code, joint.status) == (SubjectVerdict.BROKEN, 3, Status.SKIPPED)
    (failed,) = [check for check in found.checks if check.status is Status.FAILED]
    assert DO in failed.detail


def test_efficiency_is_not_computed_of_it(tmp_path, capsys):
    Instance.context_free(["1/3", "2/3"], ["2/3", "1/3"], draft_length=2).save(tmp_path / "toy.json")
    assert main(["efficiency", str(tmp_path / "toy.json"), "--verifier", f"{__name__}:OfNumpy"]) == 3
    said = capsys.readouterr()
    assert (said.out, DO in said.err) == ("", True)


class WithATable:
    """A table that the constructor draws decides nothing."""

    def __init__(self):
        self.table = np.random.default_rng().permutation(64)

    def verify(self, drafts, decisions):
        hidden = self.table[drafts.tokens]
        found = verifiers.get("token").verify(drafts, decisions)
        shown = replace(drafts, tokens=np.argsort(self.table)[hidden])
        return replace(found, drafts=shown)


class WithALateTable(WithATable):
    """The table is made from a seed when it is first needed."""

    def __init__(self):
        pass

    @property
    def table(self):
        if "kept" not in vars(self):
            self.kept = np.random.default_rng(1).permutation(64)
        return self.kept


class CountsItsCalls:
    def __init__(self):
        self.calls, self.buffer = 0, np.zeros(1)

    def verify(self, drafts, decisions):
        self.calls += 1
        self.buffer = np.resize(self.buffer, drafts.batch)
        return verifiers.get("block").verify(drafts, decisions)


class StartsASolver:
    """A solver begins with a random vector; what it ends with is the same."""

    def verify(self, drafts, decisions):
        from scipy.sparse.linalg import eigsh

        (largest,) = eigsh(np.diag(np.arange(1.0, 6.0)), k=1, return_eigenvectors=False)
        found = verifiers.get("token").verify(drafts, decisions)
        return replace(found, next_token=found.next_token + (round(float(largest)) != 5))


class ChangesItsInput:
    def verify(self, drafts, decisions):
        found = verifiers.get("token").verify(drafts, decisions)
        drafts.paths.draft_probs[:] = 0
        return found


class CarriesOver:
    """A right rule with a state: it counts, and what it owes is that of the built-in one."""

    def initial_state(self, batch):
        return verifiers.get("greedy_block").initial_state(batch)

    def verify(self, drafts, decisions, state):
        return verifiers.get("greedy_block").verify(drafts, decisions, state)


RIGHT = [WithATable, WithALateTable, CountsItsCalls, StartsASolver, ChangesItsInput, CarriesOver]


@pytest.mark.parametrize("rule", RIGHT)
def test_rules_that_take_every_decision_from_their_source_are_lossless(rule):
    found, joint = joint_of(audit(rule, options=ONLY_JOINT))
    assert (found.verdict, joint.status) == (SubjectVerdict.LOSSLESS, Status.PASSED)


@pytest.mark.parametrize(
    ("array", "name"),
    by_day(
        [*product(["numpy", "torch"], ["token", "block_transport", "univer", "traversal"])],
        [("numpy", "traversal"), ("torch", "block_transport")],
    ),
)
def test_built_in_rules_draw_nothing(name, array):
    pytest.importorskip("torch")
    found, joint = joint_of(audit(name, options=replace(ONLY_JOINT, array=array)))
    assert (found.verdict, joint.status) == (SubjectVerdict.LOSSLESS, Status.PASSED)
