"""Long completions of servers: planted defects are found with the draft model's probabilities, rates hold."""

import math

import numpy as np
import pytest

from spec_oracle.audit import AuditOptions, Status
from spec_oracle.audit.context import Context
from spec_oracle.errors import InvalidInputError
from spec_oracle.servers.checks.distributions import Distributions
from spec_oracle.servers.checks.long_texts import JudgedCompletions, Longest
from spec_oracle.servers.checks.subject import Completions, ServerPlan, ServerSubject
from spec_oracle.servers.checks.suite import audit_server
from spec_oracle.servers.client.server import same_prompts
from tests.spec_oracle.servers.checks.results import result_of
from tests.spec_oracle.servers.client.stand_in import StandIn, server_of
from tests.strategies import at_night
from tests.subjects import checks_of


def served(**options):
    return server_of(StandIn(**options))


def judged(run=0, *, draft=True, plan=None, **planted):
    server = served(entropy=run, **planted)
    drafter = same_prompts(served(serves="draft", draft=False), server) if draft else None
    subject = ServerSubject("here", server, plan or ServerPlan(detect=0.05), draft=drafter)
    return result_of("long-texts", subject, Context(seed=run))


@pytest.mark.usefixtures("few_tokens")
@pytest.mark.parametrize("shape", ["llama.cpp", *at_night("openai")])
def test_a_right_server_passes_and_says_what_each_order_detects(shape):
    found = judged(shape=shape)
    assert found.status is Status.PASSED, found.detail
    assert all(f" by {order}" in found.detail for order in ("p", "p/q", "n-gram"))


@pytest.mark.parametrize(
    ("planted", "where"),
    [
        ({"defect": "always-accept"}, "by p/q"),
        ({"defect": "always-accept-late", "size": 3}, "by p/q"),
        ({"defect": "corrects-from-p"}, "by p/q"),
        ({"defect": "accepts-after-rejection"}, "by "),
        ({"defect": "biased-late", "size": 0.5}, "by "),
    ],
    ids=lambda value: value["defect"] if isinstance(value, dict) else None,
)
def test_planted_defects_are_found(planted, where):
    found = judged(**planted)
    assert found.status is Status.FAILED, found.detail
    assert f" in the order of {where.removeprefix('by ')}" in found.detail


@pytest.mark.usefixtures("few_tokens")
@pytest.mark.parametrize(("defect", "status"), [("", Status.PASSED), ("always-accept", Status.FAILED)])
def test_noise_counts_by_its_mean(defect, status):
    """Not by the largest difference that was seen: that one would hide a total variation of 0.1 a token."""

    class Noisy(StandIn):
        def shown(self, context, body):
            logs = {
                token: log + self.faults.gauss(0, 0.02) for token, log in super().shown(context, body).items()
            }
            total = math.log(sum(map(math.exp, logs.values())))
            return {token: log - total for token, log in logs.items()}

    server = server_of(Noisy(defect))
    drafter = same_prompts(served(serves="draft", draft=False), server)
    subject = ServerSubject("here", server, ServerPlan(detect=0.05), draft=drafter)
    found = result_of("long-texts", subject, Context())
    assert found.status is status, found.detail
    known = subject.distributions
    assert 0.02 < known.relative_error < math.expm1(2 * known.error) / 2


@pytest.mark.nightly
def test_corrections_from_p_need_the_draft():
    """With a third of the evidence or less by p: the same completions pass."""
    assert judged(draft=False, defect="corrects-from-p").status is Status.PASSED


def test_a_token_that_filters_rule_out_is_a_proof():
    server = server_of(StandIn("always-accept"), top_k=3)
    found = result_of("long-texts", ServerSubject("here", server, ServerPlan(detect=0.1)), Context())
    assert found.status is Status.FAILED
    assert "where it has probability 0" in found.detail


@pytest.mark.usefixtures("few_tokens")
@pytest.mark.parametrize(
    ("planted", "verdict"),
    [
        ({}, "lossless"),
        *at_night(({"shape": "openai", "draft": False}, "inconclusive")),
        ({"defect": "always-accept"}, "lossy"),
    ],
)
def test_the_verdict_rests_on_long_texts_where_joint_is_left_out(planted, verdict):
    """It needs what `joint` needs: drafts that were accepted and rejected."""
    server = served(**planted)
    drafter = same_prompts(served(serves="draft", draft=False), server)
    skip = dict.fromkeys(("joint", "plain-law", "length", "logprobs", "streams", "batch"), "")
    subject = ServerSubject("here", server, ServerPlan(detect=0.2), draft=drafter)
    (found,) = audit_server(subject, AuditOptions(skip=skip)).subjects
    assert found.verdict.value == verdict
    assert (found.smallest_detectable_tv or 1) <= 0.5 or verdict == "lossy"
    long = checks_of(found)["long-texts"]
    assert ("nothing was drafted" in long.detail) == (verdict == "inconclusive")


def test_a_draft_server_must_take_the_same_tokens():
    with pytest.raises(InvalidInputError, match="draft"):
        same_prompts(served(shape="silent"), served())


@pytest.mark.parametrize(("knows", "positions"), [(True, [4, 5]), (False, None)])
def test_places_count_the_prompt_where_it_is_known(knows, positions):
    """Recorded prompts may be cut: places are counted from their end on only, at the full stake."""
    server = served()
    read = JudgedCompletions(Distributions(server), None, np.random.default_rng(0), knows_positions=knows)
    scored = read.scored(1, (1, 2, 3))
    assert scored.places.tolist() == [1, 2]
    assert positions == (None if scored.positions is None else scored.positions.tolist())
    assert any(one.is_absolute for one in read.evidence.by_place) is knows


class DraftsForLong(StandIn):
    """Drafts for requests of more than 256 tokens only."""

    def text(self, prompt, count, body):
        self.draft = count > 256
        return super().text(prompt, count, body)


OTHERS = dict.fromkeys(["plain-law", "shapes", "length", "logprobs", "streams", "batch"], "")


def audited(stand_in, **plan):
    server = server_of(stand_in)
    subject = ServerSubject("here", server, ServerPlan(detect=0.2, **plan))
    (found,) = audit_server(subject, AuditOptions(skip=OTHERS)).subjects
    return found, checks_of(found)


@pytest.mark.parametrize(("defect", "verdict"), [("", "lossless"), ("always-accept", "lossy")])
def test_a_server_that_drafts_for_long_requests_only_is_judged_by_these(defect, verdict, few_tokens):
    found, checks = audited(DraftsForLong(defect))
    assert found.verdict.value == verdict
    assert checks["joint"].detail == (
        "completions of 4 tokens draft nothing, those of 512 do: long-texts judges these"
    )


@pytest.mark.parametrize(("defect", "verdict"), [*at_night(("", "inconclusive")), ("always-accept", "lossy")])
def test_where_nobody_counts_drafts_long_requests_are_judged_and_nothing_is_assumed(
    defect, verdict, few_tokens
):
    found, checks = audited(DraftsForLong(defect, shape="uncounted"))
    assert found.verdict.value == verdict
    assert "--assume-speculating" in checks["joint"].detail


def test_a_server_without_speculation_is_no_pass(few_tokens):
    found, checks = audited(StandIn(draft=False))
    assert found.verdict.value == "inconclusive"
    assert "nothing was drafted" in checks["joint"].detail


def test_the_longest_completions_that_a_server_allows_are_found_by_bisection():
    class Narrow(StandIn):
        def respond(self, path, body, name=""):
            if body and body.get("n_predict", 0) > 48:
                return 400, {"error": "more than the context holds"}
            return super().respond(path, body, name)

    server = server_of(Narrow(), prompts=["bc"])
    long, longest = Completions(server, 80, (0, "long")), Longest()
    lengths = [longest.of(long, 80, 1) and long.length for _ in range(8)]
    assert lengths[0] == 40
    assert lengths[-1] == 48 == max(lengths)
    assert longest.window(server.prompts) == 50
