"""Tree samplers: functions that verify draft trees and sample by themselves."""

import re
from dataclasses import replace

import numpy as np
import pytest

from lab.specimens.registry import specimens
from lab.specimens.tree_samplers import RIGHT, OfAnyTree, TreeWalk
from spec_oracle.audit import AuditOptions, SubjectVerdict, audit
from spec_oracle.audit.context import Context, Inputs
from spec_oracle.audit.experiment import FoundBy
from spec_oracle.audit.instances import panel
from spec_oracle.audit.results import Cause, How, Status
from spec_oracle.audit.sampler.inputs_kept import inputs_kept
from spec_oracle.audit.sampler.joint import OneCall
from spec_oracle.audit.sampler.shapes import after_larger_trees
from spec_oracle.audit.subjects import of_object
from spec_oracle.errors import InvalidInputError
from tests.strategies import by_day

TOYS = {"flat": panel(3, 2, 1, 0)["flat"]}
SMALL = Context(rate=1e-7, budget=20.0, inputs=Inputs(draft_length=2, instances=TOYS))
"""One instance is traced in a second, whatever the machine; the budget is never spent."""
SAMPLERS = {one.name: one for one in specimens().values() if one.kind == "tree_sampler"}


def subject(thing):
    return of_object("mine", thing)


def one_call(thing, context=SMALL, ways=FoundBy.BOTH):
    return OneCall(subject(thing), context).found(ways)


RIGHT_ONES = [name for name, one in SAMPLERS.items() if one.is_control]
WRONG_ONES = [name for name, one in SAMPLERS.items() if not one.is_control]


@pytest.mark.usefixtures("less_effort")
@pytest.mark.parametrize("name", by_day(RIGHT_ONES, ["tree-sampler-without-replacement"]))
def test_right_tree_samplers_are_proven(name):
    found = one_call(SAMPLERS[name].tree_sampler)
    assert (found.status, found.how) == (Status.PASSED, How.PROVEN)
    assert "kinds of drafts" in found.detail


@pytest.mark.usefixtures("less_effort")
@pytest.mark.parametrize("name", by_day(WRONG_ONES, ["tree-sampler-refused-sibling-stays-in-the-target"]))
def test_wrong_tree_samplers_are_found_with_the_kind_of_trees(name):
    found = one_call(SAMPLERS[name].tree_sampler)
    assert (found.status, found.how) == (Status.FAILED, How.PROVEN)
    assert "distinct siblings" in found.detail
    assert {law.instance.draft_length for law in found.findings.laws.values()} == {2}


class OwnRandomness:
    """A right tree sampler that is not traced: its generator is not the one that it is handed."""

    accepts = RIGHT.accepts

    def __init__(self):
        self.generator = np.random.default_rng(0)

    def verify_tree(self, tokens, parents, draft_probs, target_probs, generator):
        return RIGHT.verify_tree(tokens, parents, draft_probs, target_probs, self.generator)


@pytest.mark.usefixtures("less_effort")
def test_samples_decide_where_a_tree_sampler_cannot_be_traced():
    """A false alarm has the chance 1e-7; the defect, of total variation 0.38, is found in 3,000 samples."""

    class Wrong(OwnRandomness):
        def verify_tree(self, *arguments):
            return TreeWalk(row=lambda node, depth: depth).verify_tree(*arguments[:-1], self.generator)

    few = replace(SMALL, budget=2.0)
    assert one_call(OwnRandomness(), few, FoundBy.SAMPLED).status is not Status.FAILED
    found = one_call(Wrong(), few, FoundBy.SAMPLED)
    assert (found.status, found.how) == (Status.FAILED, How.SAMPLED)


def verify_tree(tokens, parents, draft_probs, target_probs, generator):
    return RIGHT.verify_tree(tokens, parents, draft_probs, target_probs, generator)


def test_a_tree_sampler_must_declare_its_laws_of_siblings():
    with pytest.raises(InvalidInputError, match=r'verify_tree.accepts = \{"independent"\} \(known are indep'):
        subject(verify_tree)


def test_a_function_a_class_and_an_object_are_tree_samplers():
    function = OfAnyTree(verify_tree).verify_tree
    function.accepts = {"distinct"}
    for thing in (function, OwnRandomness, RIGHT):
        found = subject(thing)
        assert (found.kind, found.on_trees) == ("sampler", RIGHT.accepts)
        assert "verify_tree(tokens [B, N], parents" in found.call_form
    del function.accepts


def test_tokens_may_have_as_many_columns_as_the_trees_of_a_batch_are_deep():
    """Trees that end early are shallower than those of other calls; further columns of padding are none."""

    def fewest(*arguments):
        tokens, accepted = RIGHT.verify_tree(*arguments)
        return tokens[:, : accepted.max() + 1], accepted

    def more(*arguments):
        tokens, accepted = RIGHT.verify_tree(*arguments)
        return np.pad(tokens, ((0, 0), (0, 3)), constant_values=-1), accepted

    for columns in (fewest, more):
        subject(_declared(OfAnyTree(columns))).plain_call(0)  # raises for what breaks the contract


def _declared(thing):
    class Sampler:
        accepts = RIGHT.accepts

        def verify_tree(self, tokens, parents, draft_probs, target_probs, generator):
            return thing.verify_tree(tokens, parents, draft_probs, target_probs, generator)

    return Sampler()


def test_a_breach_of_the_contract_on_trees_is_broken_not_lossy():
    def unpadded(*arguments):
        tokens, accepted = RIGHT.verify_tree(*arguments)
        return np.maximum(tokens, 0), accepted

    found = one_call(_declared(OfAnyTree(unpadded)))
    assert (found.status, found.cause) == (Status.FAILED, Cause.BROKEN_CONTRACT)
    assert "pad with -1" in found.detail


def test_more_tokens_than_a_path_has_are_an_impossible_output():
    """A walk that leaves the tree emits them: its distribution is wrong, its padding is right."""

    def more_than_there_are(*arguments):
        tokens, accepted = RIGHT.verify_tree(*arguments)
        wide = np.full((len(tokens), 9), -1)
        wide[:, : tokens.shape[1]] = tokens
        wide[0] = 0
        return wide, np.where(np.arange(len(tokens)), accepted, 8)

    found = one_call(_declared(OfAnyTree(more_than_there_are)))
    assert (found.status, found.cause) == (Status.FAILED, None)
    assert re.search(
        r"num_accepted must be from 0 to \d, without the last token; found 8 at \[0\]", found.detail
    )


def test_tokens_behind_the_deepest_path_are_named_by_their_column():
    def unpadded(*arguments):
        tokens, accepted = RIGHT.verify_tree(*arguments)
        return np.pad(tokens, ((0, 0), (0, 1)), constant_values=2), accepted

    found = one_call(_declared(OfAnyTree(unpadded)))
    assert (found.status, found.cause) == (Status.FAILED, Cause.BROKEN_CONTRACT)
    assert re.search(r"pad with -1 .*; found 2 at \[0, [3-9]\]", found.detail)


def test_parents_that_a_call_changes_are_named():
    def writes(tokens, parents, *others):
        found = RIGHT.verify_tree(tokens, parents, *others)
        parents[:] = np.where(tokens == 1, -2, parents)
        return found

    found = inputs_kept(subject(_declared(OfAnyTree(writes))), SMALL)
    assert found.status is Status.FAILED
    assert found.detail.startswith("parents changed during the call")


def test_larger_trees_find_defects_that_small_ones_miss():
    """The row after the third of several siblings is that of the first: small trees have two at most."""

    def third_child(tokens, parents, draft_probs, target_probs, generator):
        target_probs = target_probs.copy()
        for request, above in enumerate(parents):
            for node in {*above.tolist()} - {-2}:
                children = np.flatnonzero(above == node)
                target_probs[request, children[2:3] + 1] = target_probs[request, children[:1] + 1]
        return RIGHT.verify_tree(tokens, parents, draft_probs, target_probs, generator)

    wrong, right = _declared(OfAnyTree(third_child)), RIGHT
    assert one_call(wrong).status is Status.PASSED
    few, enough = (Context(rate=1e-7, budget=seconds) for seconds in (0.25, 10.0))
    found = after_larger_trees(subject(wrong), enough)  # which ends where a defect is found
    assert (found.status, found.how) == (Status.FAILED, How.PROVEN)
    assert after_larger_trees(subject(right), few).status is Status.PASSED


@pytest.mark.usefixtures("less_effort")
def test_the_checks_of_samplers_are_asked_of_tree_samplers():
    """Where the machine is slow, some are not run; none fails."""
    checks = ("joint", "streams", "bad-input", "inputs-kept")
    options = AuditOptions(instances=TOYS, shrink=False, budget=10.0, checks=checks)
    report = audit(RIGHT, options=options).subjects[0]
    assert report.verdict is SubjectVerdict.LOSSLESS
    assert {*checks} <= {one.name for one in report.checks}
    assert not [one.name for one in report.checks if one.status is Status.FAILED]
