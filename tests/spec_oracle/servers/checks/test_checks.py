"""Audits of servers: each planted defect is found, a right server passes, what is unclear is no pass.

The stand-in answers in this process, but for the tests of failing connections. Chances are those of the
audit: a false alarm 1e-6, a miss 1e-3 for a defect of the size that is stated.
"""

import json
import shlex
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from lab.benchmarks.loopback import serving
from spec_oracle.audit import AuditOptions, Status, SubjectVerdict
from spec_oracle.audit.checks import CHECKS
from spec_oracle.audit.context import Context
from spec_oracle.contracts.completion import Sampling
from spec_oracle.report import AUDIT_FORMATS
from spec_oracle.servers.checks.bins import grow_tree
from spec_oracle.servers.checks.conclusion import never_happened
from spec_oracle.servers.checks.reference import prefix_counts
from spec_oracle.servers.checks.subject import ServerPlan, ServerSubject
from spec_oracle.servers.checks.suite import SERVER, audit_server
from spec_oracle.servers.client.client import Client, Limits
from spec_oracle.servers.client.server import connect
from spec_oracle.servers.contract import DraftCounts, OutOfTimeError, RefusedError, ServerError
from tests.efforts import set_effort
from tests.spec_oracle.servers.checks.results import result_of
from tests.spec_oracle.servers.client.stand_in import END, InProcess, StandIn, server_of
from tests.strategies import at_night

PROMPTS = ["bc", "def"]

RUNS = {*SERVER} - {"model"}
"""Those that need no reference."""


def subject(*, plan=None, sampling=None, reference=None, client=None, **stand_in):
    server, other = (
        options and server_of(StandIn(**options), sampling, top_k=3)
        for options in (stand_in or {"defect": ""}, reference)
    )
    if client is not None:
        server = connect(client, sampling or Sampling(top_k=3), prompts=PROMPTS)
    return ServerSubject("here", server, plan or ServerPlan(detect=0.1), other)


def report(**options):
    return audit_server(subject(**options), AuditOptions(budget=600.0))


def checks_of(found):
    return {check.name: check for check in found.subjects[0].checks}


def statuses(found, status):
    return {name for name, check in checks_of(found).items() if check.status is status}


@pytest.mark.usefixtures("few_requests")
@pytest.mark.parametrize(
    ("shape", "detect"), [("llama.cpp", 0.2), *at_night(("openai", 0.2), ("uncounted", 0.2))]
)
def test_a_right_server_passes_every_check(shape, detect):
    found = report(shape=shape, plan=ServerPlan(detect=detect, assume_speculating=shape == "uncounted"))
    (server,) = found.subjects
    assert statuses(found, Status.PASSED) == RUNS
    assert server.verdict is SubjectVerdict.LOSSLESS
    assert server.smallest_detectable_tv <= detect
    assert server.kind == "server"
    assert found.exit_code == 0
    assert "are distinguished up to" in " ".join(server.remarks.scope)


@pytest.mark.parametrize(
    ("check", "planted"),
    [
        ("joint", {"defect": "always-accept"}),
        ("joint", {"defect": "biased-second", "size": 0.4}),
        ("joint", {"defect": "late-stop-token"}),
        ("plain-law", {"defect": "same-seed"}),
        ("plain-law", {"defect": "wrong-rows", "size": 4.0}),
        ("plain-law", {"defect": "wrong-rows", "size": 4.0, "shape": "openai"}),
        ("plain-law", {"defect": "stops-late"}),
        ("long-texts", {"defect": "biased-late", "size": 0.5}),
        ("long-texts", {"defect": "repeats-numbers", "draft": False}),
        ("joint", {"defect": "always-accept-late", "size": 2}),
        ("joint", {"defect": "always-accept-crowded"}),
        ("length", {"defect": "impossible-counts"}),
        ("length", {"defect": "misses-stops"}),
        ("length", {"defect": "stops-text-only"}),
        ("streams", {"defect": "always-accept-seeded"}),
        ("batch", {"defect": "caches-answers"}),
        ("streams", {"defect": "coarse-seeds"}),
        ("streams", {"defect": "ignores-seeds"}),
        ("batch", {"defect": "same-seed"}),
        ("batch", {"defect": "shared-clock", "size": 2e-3}),
        ("shapes", {"defect": "always-accept-long"}),
        ("shapes", {"defect": "always-accept-greedy"}),
        ("long-texts", {"defect": "accepts-after-rejection"}),
        ("logprobs", {"defect": "logprobs-residual"}),
        ("logprobs", {"defect": "logprobs-rounded"}),
    ],
    ids=lambda value: "-".join(map(str, value.values())) if isinstance(value, dict) else value,
)
@pytest.mark.parametrize("runs", [1, pytest.param(20, marks=pytest.mark.nightly)])
def test_a_planted_defect_is_found(check, planted, runs):
    """With the stated power: a miss has chance 1e-3; two of 20 have chance 2e-4.

    Requests of one moment ("shared-clock") are the four that a volley sends at once, and some more.
    """
    plan = ServerPlan(detect=0.03 if planted["defect"] == "wrong-rows" else 0.1)
    found = [
        result_of(check, subject(**planted, entropy=run, plan=plan), Context(seed=run)).status
        for run in range(runs)
    ]
    assert found.count(Status.FAILED) >= max(1, runs - 1)


@pytest.mark.parametrize(
    ("planted", "reading"),
    [
        ({}, "after sampling filters"),
        ({"shape": "openai"}, "before sampling filters"),
        ({"shape": "openai", "defect": "ignores-top-k"}, "before sampling filters, which the server ignores"),
    ],
)
def test_draws_tell_how_probabilities_are_to_be_read(planted, reading):
    """At temperature 1 a raw row that no filter touches is as sampled."""
    assert subject(sampling=Sampling(0.7, 3), **planted).distributions.reading == reading


@pytest.mark.parametrize(("defect", "status"), [("", Status.PASSED), ("always-accept", Status.FAILED)])
@pytest.mark.parametrize(("check", "detect"), [("joint", 0.05), ("long-texts", 0.1)])
def test_only_what_contradicts_every_reading_left_is_wrong(check, detect, defect, status):
    """The nearer the temperature is to 1, the more often few samples after the prompts prefer a wrong one."""
    server = server_of(StandIn(defect, shape="openai"), Sampling(0.7))
    judged = ServerSubject("here", server, ServerPlan(detect=detect))
    known = judged.distributions
    known.reading, known.rivals = "after sampling filters", ["before sampling filters"]
    found = result_of(check, judged, Context())
    assert found.status is status, found.detail
    assert known.reading == "before sampling filters"


@pytest.mark.parametrize("defect", ["biased-late", "repeats-numbers"])
def test_late_defects_do_not_show_in_short_texts(defect):
    """Without `long-texts` these defects would pass."""
    assert result_of("joint", subject(defect=defect, size=0.5), Context()).status is Status.PASSED


@pytest.mark.usefixtures("few_requests")
@pytest.mark.parametrize(
    ("planted", "verdict", "code"),
    [
        ({"defect": "always-accept"}, "lossy", 1),
        ({"defect": "same-seed"}, "lossy", 1),
        ({"defect": "stops-late"}, "inconclusive", 2),
        ({"defect": "ignores-seeds"}, "lossless", 2),
    ],
    ids=lambda value: value["defect"] if isinstance(value, dict) else None,
)
def test_verdicts_and_exit_codes(planted, verdict, code):
    options = AuditOptions(checks=("plain-law", "joint", "streams", "batch"))
    found = audit_server(subject(**planted, plan=ServerPlan(detect=0.2)), options)
    assert found.subjects[0].verdict.value == verdict
    assert found.exit_code == code


@pytest.mark.nightly
def test_slightly_wrong_rows_are_not_held_against_texts():
    """A temperature that is a little off shows in texts first; one-token draws tell what is wrong."""
    plan = ServerPlan(detect=0.06)
    found = audit_server(
        subject(defect="wrong-rows", size=0.5, plan=plan),
        AuditOptions(budget=600.0, checks=("joint", "long-texts")),
    )
    assert found.subjects[0].verdict is SubjectVerdict.INCONCLUSIVE
    assert checks_of(found)["joint"].detail.startswith("the probabilities that the server reports are wrong")
    assert "could not check" in checks_of(found)["long-texts"].detail


@pytest.mark.nightly
def test_the_stated_power_is_had():
    """A defect as large as a run says it finds is found: two misses of 40 have chance 8e-4."""
    runs = 40
    plan, planted = ServerPlan(detect=0.1), {"defect": "biased-second", "size": 0.15}
    good, bad = subject(plan=plan), subject(**planted)
    tree = grow_tree(good.distributions, 4, 1e-3, frozenset([END]))
    law = np.zeros(len(tree.law))
    for number, prompt in enumerate(bad.server.prompts):
        for text, mass in bad.server.client.stand_in.texts(prompt, 4, {"top_k": 3}):
            law[tree.bin(number, text)] += mass / len(PROMPTS)
    detect = abs(law - tree.law).sum() / 2
    assert detect < 0.2
    found = [
        result_of(
            "joint",
            subject(**planted, entropy=run, plan=ServerPlan(detect=detect)),
            Context(rate=1e-3, seed=run),
        )
        for run in range(runs)
    ]
    assert sum(result.status is Status.FAILED for result in found) >= runs - 1


def null_runs(monkeypatch, runs):
    """Failures by check of right servers, at a false-alarm rate of 0.2 for each run."""
    for name, value in {
        "PAIRS": 100,
        "PAIRS_TV": 1.0,
        "ALIKE_WANTED": 0.5,
        "ALIKE_TV": 1.0,
        "REPEATED_SEEDS": 2,
        "DISTANCES_TV": 0.5,
        "SHAPES_TV": 0.9,
    }.items():
        set_effort(monkeypatch, **{f"SERVER_{name}": value})
    failures = dict.fromkeys(RUNS, 0)
    for run in range(runs):
        server = subject(entropy=run, plan=ServerPlan(requests=400, detect=0.5), vocab=5, draft=False)
        bench = Context(rate=0.2, seed=run)
        for name in RUNS:
            failures[name] += result_of(name, server, bench).status is Status.FAILED
    return failures


def assert_within_their_rates(failures, runs):
    for name, count in failures.items():
        rate = 0.2 * float(CHECKS[name].share)
        assert count <= stats.binom.isf(1e-7, runs, rate), name


@pytest.mark.nightly
def test_2000_right_servers_fail_within_the_error_rate(monkeypatch):
    assert_within_their_rates(null_runs(monkeypatch, 2000), 2000)


@pytest.mark.nightly
def test_varying_rows_widen_the_slack_and_are_reported(monkeypatch):
    """Noise of 0.004 nats a token: a right server passes, and it takes more completions."""
    set_effort(monkeypatch, SAMPLES_LOOKS=())  # as many as are planned
    plan, found = ServerPlan(detect=0.06), []
    for noise in (0.004, 0.0):
        server = subject(defect="noisy-rows", size=noise, plan=plan)
        joint = result_of("joint", server, Context())
        assert joint.status is Status.PASSED
        assert server.distributions.noise == pytest.approx(2 * noise, rel=0.3)
        found.append(joint.measured.draws)
    assert found[0] > 1.2 * found[1]


def test_rows_that_are_too_uncertain_leave_the_texts_open():
    found = result_of(
        "joint", subject(defect="noisy-rows", size=0.05, plan=ServerPlan(detect=0.1)), Context()
    )
    assert found.status is Status.INCONCLUSIVE
    assert "nats between equal requests, which counts as its own noise: up to 0.0" in found.detail
    assert "try one slot" in found.detail


@pytest.mark.parametrize(
    ("digits", "detect", "requests"), [(2, 0.2, 4000), *at_night((2, 0.1, 12_000), (3, 0.1, 12_000))]
)
def test_rounded_log_probabilities_do_not_make_a_right_server_lossy(digits, detect, requests):
    server = subject(shape="openai", digits=digits, plan=ServerPlan(detect=detect, requests=requests))
    for check in ("plain-law", "joint", "long-texts"):
        assert result_of(check, server, Context()).status is Status.PASSED


@pytest.mark.parametrize(
    ("planted", "assume", "words"),
    [
        ({"draft": False}, False, "nothing was drafted"),
        ({"draft": False}, True, "nothing was drafted"),
        ({"shape": "uncounted"}, False, "--assume-speculating"),
        ({"shape": "uncounted"}, True, ""),
    ],
)
def test_texts_without_drafts_do_not_pass(planted, assume, words):
    plan = ServerPlan(detect=0.15, assume_speculating=assume)
    found = result_of("joint", subject(plan=plan, **planted), Context())
    assert found.status is (Status.INCONCLUSIVE if words else Status.PASSED)
    assert words in found.detail


def test_indistinguishable_texts_do_not_pass():
    server = subject(sampling=Sampling(), vocab=100, plan=ServerPlan(requests=200, detect=0.5))
    found = result_of("joint", server, Context())
    assert found.status is Status.INCONCLUSIVE
    assert "differ in more than one token" in found.detail


def test_too_few_draws_are_no_pass():
    found = result_of("joint", subject(plan=ServerPlan(requests=300, detect=0.02)), Context())
    assert found.status is Status.INCONCLUSIVE
    assert "not 0.02" in found.detail


def test_an_end_that_is_seen_late_is_no_defect():
    """The token that ends texts is rarer than one in a thousand: it is learnt while texts are drawn."""

    class Rare(StandIn):
        def weights(self, context, model):
            row = super().weights(context, model)
            row[0] = 4e-4 * sum(row[1:])
            return row

    server = server_of(Rare(vocab=4))
    found = result_of("joint", ServerSubject("here", server, ServerPlan(detect=0.06)), Context())
    assert server.ends == {0}
    assert found.status is Status.PASSED


@pytest.mark.usefixtures("few_requests")
@pytest.mark.parametrize("defect", ["", "always-accept"])
def test_a_server_without_probabilities_is_compared_with_a_reference(defect):
    found = report(
        defect=defect,
        shape="silent",
        reference={"shape": "openai", "draft": False, "entropy": 5},
        plan=ServerPlan(detect=0.25, requests=3000, assume_speculating=True),
    )
    (server,) = found.subjects
    assert server.verdict is (SubjectVerdict.LOSSY if defect else SubjectVerdict.LOSSLESS)
    assert checks_of(found)["plain-law"].status is Status.NOT_APPLICABLE
    assert found.exit_code == (1 if defect else 0)
    if defect:
        shown = server.counterexample
        assert not shown.lower <= shown.expected <= shown.upper


def test_without_probabilities_and_reference_nothing_is_known():
    silent = subject(shape="silent", plan=ServerPlan(detect=0.3))
    found = audit_server(silent, AuditOptions(checks=("joint", "long-texts")))
    assert "no --reference server" in checks_of(found)["joint"].detail
    assert found.exit_code == 2


@pytest.mark.usefixtures("few_requests")
@pytest.mark.parametrize(("name", "defect"), [("streams", ""), ("batch", ""), ("batch", "same-seed")])
def test_a_server_that_refuses_seeds_is_judged_without(name, defect):
    """Nothing that its user could do would make it take them."""
    found = result_of(name, subject(defect=defect, refuses=("seed",)), Context(budget=600.0))
    assert found.status is (Status.FAILED if defect else Status.PASSED), found.detail
    assert ("refuses seeds" in found.detail) == (name == "streams")


def test_texts_are_counted_by_prefixes_that_are_common():
    first = [(0, (1, 2, 3))] * 60 + [(0, (1, 2, 4))] * 60 + [(0, (1, 5, 6))] * 30 + [(1, (7,))] * 200
    counts, cells = prefix_counts(first, first)
    assert counts[0].tolist() == counts[1].tolist()
    assert dict(zip(cells, counts[0].tolist(), strict=True)) == {
        ((0, 1, 2, 3), False): 60,
        ((0, 1, 2, 4), False): 60,
        ((0, 1), True): 30,
        ((1, 7), False): 200,
    }


@pytest.mark.usefixtures("few_requests")
def test_the_counterexample_is_the_model_s_and_can_be_asked_for():
    stand_in = {"defect": "biased-second", "size": 0.4}
    found = report(**stand_in)
    shown = found.subjects[0].counterexample
    model, body = StandIn(), {"top_k": 3}
    mass, context = 1.0, shown.prompt
    for token in shown.tokens:
        if token is None:
            break
        mass *= model.law(context, body)[token]
        context = (*context, token)
    if None not in shown.tokens:
        assert shown.expected == pytest.approx(mass, rel=1e-3)
    assert not shown.lower <= shown.expected <= shown.upper
    assert shown.lower <= shown.seen <= shown.upper
    words = shlex.split(shown.reproduce)
    assert words[:3] == ["curl", "-s", "http://here/completion"]
    assert json.loads(words[-1])["n_predict"] == 4
    text = AUDIT_FORMATS["text"](found)
    assert "reproduce: curl" in text
    assert json.loads(AUDIT_FORMATS["json"](found))["subjects"][0]["counterexample"]["draws"] == shown.draws


def test_a_server_that_dies_leaves_a_report():
    class Mortal(StandIn):
        def respond(self, path, body, name=""):
            if sum(self.calls.values()) > 6000:
                return 500, {}
            return super().respond(path, body, name)

    server = server_of(Mortal(), top_k=3)
    found = audit_server(ServerSubject("here", server, ServerPlan(detect=0.05)), AuditOptions(budget=600.0))
    joint = checks_of(found)["joint"]
    assert joint.status is Status.INCONCLUSIVE
    assert "ended early: HTTP 500" in joint.detail
    assert joint.measured.draws > 100
    assert found.exit_code == 2
    assert not statuses(found, Status.FAILED)


class Again(InProcess):
    """Sends failed requests again, as `Client` does."""

    def _answer(self, request):
        for attempt in range(self.limits.attempts):
            try:
                return replace(super()._answer(request), is_doubtful=attempt > 0)
            except RefusedError:
                raise
            except ServerError:
                continue
        raise RefusedError("HTTP 500 again and again")


def by(client, plan):
    skipped = dict.fromkeys(["shapes", "long-texts", "streams", "batch", "plain-law"], "")
    return audit_server(subject(client=client, plan=plan), AuditOptions(budget=600.0, skip=skipped))


def over_http(stand_in, plan, timeout=30.0):
    with serving(stand_in) as url, Client(url, Limits(timeout=timeout, pause=0.005)) as client:
        return by(client, plan)


def with_retries(stand_in, plan):
    return by(Again(stand_in), plan)


@pytest.mark.parametrize(
    ("defect", "sent"), [("errors", with_retries), *at_night(("errors", over_http), ("closes", over_http))]
)
def test_failed_requests_count_as_doubt_unless_seeds_make_them_the_same(defect, sent):
    plan = ServerPlan(detect=0.2, requests=1200)
    found = sent(StandIn(defect, size=0.1), plan)
    assert "of it for retried completions" in checks_of(found)["joint"].detail
    assert found.subjects[0].smallest_detectable_tv > plan.detect
    seeded = sent(StandIn(defect, size=0.1), replace(plan, seeded=True))
    assert seeded.subjects[0].verdict is SubjectVerdict.LOSSLESS
    assert "of them retried" in " ".join(seeded.subjects[0].remarks.scope)


def test_failures_that_depend_on_the_text_are_not_taken_for_a_lossy_law():
    """A server that fails whenever the second token is 2 leaves other texts only: no fault of speculation."""
    found = with_retries(StandIn("errors-by-text"), ServerPlan(detect=0.2, requests=1200))
    assert found.subjects[0].verdict is SubjectVerdict.INCONCLUSIVE
    assert "were retried" in checks_of(found)["joint"].detail


def test_a_slow_server_is_asked_again():
    found = over_http(StandIn("slow", size=0.005), ServerPlan(detect=0.5, requests=300), timeout=0.5)
    assert statuses(found, Status.FAILED) == set()


def test_shares_of_the_error_rate():
    assert CHECKS["plain-law"].share == Fraction(5, 100)
    assert next(iter(CHECKS)) == "plain-law"


@pytest.mark.parametrize(
    ("drafts", "words"),
    [
        (DraftCounts(), "does not report"),
        (DraftCounts(0, 0), "nothing was drafted"),
        (DraftCounts(5, 0), "no draft was accepted"),
        (DraftCounts(5, 5), "no draft was rejected"),
        (DraftCounts(5, 3), ""),
        (DraftCounts(None, 1.2), ""),
    ],
)
def test_events_that_never_happened_are_named(drafts, words):
    assert words in never_happened(drafts)
    assert bool(never_happened(drafts)) is bool(words)


def test_few_equal_completions_of_a_likely_token_are_no_defect():
    """One set of four may be equal by chance: here with probability 0.2."""

    class Sure(StandIn):
        def weights(self, context, model):
            row = [0.1] * self.vocab
            row[1 + len(context) % 2] = 9.0
            return row

        def respond(self, path, body, name=""):
            if body and body.get("n_predict") == 2:
                self.volleys = getattr(self, "volleys", 0) + 1
                if self.volleys > 4:
                    raise OutOfTimeError("out of time")
            return super().respond(path, body, name)

    server = server_of(Sure(), top_k=3)
    found = result_of("batch", ServerSubject("here", server, ServerPlan(tokens=2)), Context())
    assert found.status is Status.INCONCLUSIVE, found.detail
