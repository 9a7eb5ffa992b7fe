"""Servers under combinations of sampling fields: planted defects are found, untried fields are named."""

from itertools import combinations

import pytest

from spec_oracle.audit import Status
from spec_oracle.audit.context import Context
from spec_oracle.audit.results import Cover
from spec_oracle.servers.checks.fields import combinations_of
from spec_oracle.servers.checks.subject import ServerPlan, ServerSubject
from tests.spec_oracle.servers.checks.results import result_of
from tests.spec_oracle.servers.client.stand_in import StandIn, server_of


def outcome(*, top_k=0, reference=None, **stand_in):
    server, other = (
        one and server_of(one, top_k=top_k, prompts=["bc"]) for one in (StandIn(**stand_in), reference)
    )
    return result_of("shapes", ServerSubject("here", server, ServerPlan(detect=0.1), other), Context())


@pytest.mark.usefixtures("few_requests")
def test_a_right_server_passes_and_unknown_fields_are_named():
    found = outcome(refuses=("repetition_penalty", "repeat_penalty"))
    assert found.status is Status.PASSED, found.detail
    assert " sampling fields (not tried: typical, repetition penalty" in found.detail
    assert "sampling field not tried: repetition penalty: refused" in found.remarks.scope
    assert found.remarks.coverage["grammar"] == {"on": Cover.SAMPLED}
    assert found.remarks.coverage["tokens"] == {"2": Cover.SAMPLED, "7": Cover.SAMPLED}
    assert "typical" not in found.remarks.coverage


@pytest.mark.usefixtures("few_requests")
@pytest.mark.parametrize("defect", ["", "skips:grammar"])
def test_fields_without_effect_on_one_token_requests_are_compared_with_a_reference(defect):
    """Probabilities before filters do not show a grammar, but completions do: it forbids a quarter."""
    found = outcome(
        defect=defect,
        shape="openai",
        vocab=4,
        reference=StandIn(shape="openai", vocab=4, draft=False, entropy=9),
    )
    assert found.status is (Status.FAILED if defect else Status.PASSED), found.detail
    if defect:
        assert "grammar on: " in found.detail
        assert "completions beside as many of the reference are distributed differently" in found.detail
    else:
        assert found.remarks.coverage["grammar"] == {"on": Cover.SAMPLED}
        assert "grammar" not in found.detail


class BiasesByToken(StandIn):
    """Refuses the list that llama.cpp takes, as vLLM does."""

    def respond(self, path, body, name=""):
        if body and isinstance(body.get("logit_bias"), list):
            return 400, {"error": "Input should be a valid dictionary"}
        return super().respond(path, body, name)


@pytest.mark.parametrize("defect", ["", "skips:logit_bias"])
def test_a_bias_that_is_refused_in_another_spelling_is_compared_with_a_reference(defect, request):
    """The bias is one of a likely token: of a token that never comes nothing would show."""
    if not defect:
        request.getfixturevalue("few_requests")
    server, other = (
        server_of(BiasesByToken(planted, shape="openai", vocab=4, entropy=entropy), prompts=["bc"])
        for planted, entropy in ((defect, 0), ("", 9))
    )
    subject = ServerSubject("here", server, ServerPlan(detect=0.1), other)
    found = result_of("shapes", subject, Context())
    assert found.status is (Status.FAILED if defect else Status.PASSED), found.detail
    assert ("logit bias on: " in found.detail) == bool(defect)
    assert found.remarks.coverage["logit bias"] == {"on": Cover.WRONG if defect else Cover.SAMPLED}


@pytest.mark.usefixtures("few_requests")
def test_probabilities_before_filters_leave_most_fields_untried():
    found = outcome(shape="openai", top_k=3)
    assert found.status is Status.PASSED, found.detail
    assert " sampling fields (not tried: min-p, " in found.detail
    assert found.remarks.coverage["seed"] == {"sent": Cover.SAMPLED}


@pytest.mark.parametrize(
    ("planted", "words"),
    [
        ({"defect": "always-accept-greedy"}, "temperature 0: token "),
        ({"defect": "always-accept-long"}, "prompt long"),
        ({"defect": "always-accept-seeded"}, "seed sent"),
        ({"defect": "skips:min_p"}, "min-p on"),
        ({"defect": "skips:repetition_penalty"}, "repetition penalty on"),
        ({"defect": "skips:logit_bias"}, "logit bias on"),
        ({"defect": "skips:grammar"}, "grammar on"),
    ],
    ids=lambda value: value["defect"] if isinstance(value, dict) else None,
)
def test_planted_defects_are_found(planted, words):
    found = outcome(**planted)
    assert found.status is Status.FAILED, found.detail
    assert words in found.detail


class FlatRows(StandIn):
    """Of its tokens the least likely one has a quarter of the probability of the likeliest one."""

    def weights(self, context, model):
        return [1.0 + (weight * 997 % 3) for weight in super().weights(context, model)]


@pytest.mark.usefixtures("few_requests")
@pytest.mark.parametrize("defect", ["", "skips:min_p"])
def test_min_p_is_tried_where_rows_are_flat(defect):
    server = server_of(FlatRows(defect), prompts=["bc"])
    found = result_of("shapes", ServerSubject("here", server, ServerPlan(detect=0.1)), Context())
    assert found.status is (Status.FAILED if defect else Status.PASSED), found.detail
    assert found.remarks.coverage["min-p"] == {"on": Cover.WRONG if defect else Cover.SAMPLED}


def test_a_defect_of_the_stated_size_is_found():
    """Each combination detects a total variation of 0.4 a token: two misses of 4 have chance 6e-6."""
    found = [outcome(defect="biased-second", size=0.9, entropy=run) for run in range(4)]
    assert sum(result.status is Status.FAILED for result in found) >= 3


def test_wrong_probabilities_are_not_held_against_completions(monkeypatch):
    monkeypatch.setattr("spec_oracle.audit.effort.SERVER_SHAPES_TV", 0.6)
    found = outcome(defect="wrong-rows", size=4.0, shape="openai", top_k=3)
    assert found.status is not Status.FAILED


def test_combinations_have_all_pairs_of_values():
    axes = {
        **{axis: [("off", {}), ("on", {axis: 1})] for axis in "abcdef"},
        "tokens": [("16", {}), ("2", {}), ("7", {})],
        **{axis: [("none", {}), ("sent", {})] for axis in ("seed", "prompt")},
    }
    rows = list(combinations_of(axes))
    assert len(rows) <= 16
    for one, other in combinations(axes, 2):
        found = {(row.words.get(one, ""), row.words.get(other, "")) for row in rows} | {("", "")}
        assert len(found) == len(axes[one]) * len(axes[other])
