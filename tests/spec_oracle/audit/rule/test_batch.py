"""Batches of verifiers: requests are decided alike alone and in any order, or the check fails."""

from dataclasses import replace

import pytest

import verifiers
from spec_oracle.audit.context import Context
from spec_oracle.audit.results import Status
from spec_oracle.audit.rule.subject import RuleSubject
from spec_oracle.audit.suite import result_of
from tests.strategies import at_night


class FromPlaceOn:
    """The token rule; requests from a place on take over the next token of another request."""

    single_path = True

    def __init__(self, place, source):
        self.place, self.source = place, source

    def verify(self, drafts, decisions):
        verdict = verifiers.get("token").verify(drafts, decisions)
        tokens = verdict.next_token.copy()
        tokens[self.place :] = tokens[self.source]
        return replace(verdict, next_token=tokens)


@pytest.mark.parametrize(("place", "source"), [(129, 0), (1024, 0), (1, -1)])
def test_a_verifier_that_looks_at_other_requests_is_found_by_replay(place, source):
    result = result_of("batch", RuleSubject("mine", FromPlaceOn(place, source)), Context())
    assert result.status is Status.FAILED


@pytest.mark.parametrize("name", ["token", "greedy_block", *at_night("block", "traversal")])
def test_built_in_rules_decide_alike_alone_and_in_any_order(name):
    paths = 1 if verifiers.traits_of(verifiers.get(name)).single_path else 2
    result = result_of("batch", RuleSubject(name, verifiers.get(name), num_paths=paths), Context())
    assert result.status is Status.PASSED, result.detail
