"""A server that does not show the token that ends a text: one-token requests may show none."""

import pytest

from spec_oracle.audit import AuditOptions, Status
from spec_oracle.contracts.completion import Sampling
from spec_oracle.servers.checks.subject import ServerPlan, ServerSubject
from spec_oracle.servers.checks.suite import audit_server
from tests.spec_oracle.servers.client.stand_in import END, StandIn, server_of


class Hides(StandIn):
    """It knows ``ignore_eos``, with which no text ends."""

    def logits(self, context, body, model):
        found = super().logits(context, body, model)
        return [-99.0, *found[1:]] if body.get("ignore_eos") else found

    def answer(self, prompt, tokens, drafted, accepted, body):
        data = super().answer(prompt, tokens, drafted, accepted, body)
        if tokens[-1] == END:
            data |= {"tokens": tokens[:-1], "tokens_predicted": len(tokens) - 1}
            data["completion_probabilities"] = data.get("completion_probabilities", [])[:-1]
        return data


def audited(top_k, reference=None, names=("plain-law", "joint", "model"), **fields):
    sampling = Sampling(top_k=top_k, fields=fields)
    server, other = (made and server_of(made(), sampling) for made in (Hides, reference))
    subject = ServerSubject("here", server, ServerPlan(detect=0.1), other)
    options = AuditOptions(budget=600.0, checks=names)
    return {check.name: check for check in audit_server(subject, options).subjects[0].checks}


@pytest.mark.parametrize("reference", [None, Hides, StandIn])
@pytest.mark.parametrize(("top_k", "undecided"), [(8, {"plain-law", "joint"}), (3, {"joint"})])
def test_it_is_not_judged_and_the_report_says_what_to_do(top_k, undecided, reference):
    """Of the three likeliest tokens after the prompts none ends a text; after longer ones some do."""
    found = audited(top_k, reference)
    undecided = undecided | ({"model"} if reference else set())
    assert {one.name for one in found.values() if one.status is Status.INCONCLUSIVE} == undecided
    assert not [one for one in found.values() if one.status is Status.FAILED]
    for name in undecided:
        assert found[name].detail == "the server does not show the token that ends a text"
        assert "--field ignore_eos=true" in found[name].remarks.do


@pytest.mark.parametrize("name", ["long-texts", "shapes"])
def test_a_check_alone_does_not_call_it_broken(name):
    found = audited(8, names=(name,))[name]
    assert found.status is Status.INCONCLUSIVE
    assert found.detail == "the server does not show the token that ends a text"


def test_texts_that_do_not_end_are_judged():
    found = audited(3, ignore_eos=True)
    assert found["plain-law"].status is found["joint"].status is Status.PASSED
