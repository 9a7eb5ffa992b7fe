"""What an engine reports of a completion is right and ends with it, or it is said what is wrong."""

import math

import pytest

from lab.specimens.registry import specimens
from lab.specimens.reported import ReportingEngine, by_rows
from spec_oracle.audit.context import Context
from spec_oracle.audit.results import Status
from spec_oracle.audit.subjects import of_engines
from spec_oracle.audit.suite import result_of
from tests.spec_oracle.audit.engine.engines import Stepwise
from tests.subjects import of_engine


def outcome(engine):
    return result_of("logprobs", of_engine(engine), Context())


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("reports-a-constant", "they are constant"),
        ("reports-first-of-calls", "they are missing"),
        ("reports-the-residual", "they are those of a residual"),
        (
            "reports-another-mode",
            "are those before temperature and filters, one-token requests report those ",
        ),
        ("reports-the-previous-place", "they are those of the previous token's place"),
        ("reports-behind-the-stop", "the last are of tokens after its end"),
    ],
)
def test_wrong_ones_are_found_and_named(name, words):
    found = outcome(specimens()[name].engine()[""])
    assert found.status is Status.FAILED
    assert words in found.detail
    assert found.measured.draws <= 6


@pytest.mark.parametrize("stop_tokens", [(), (2,)], ids=str)
def test_right_ones_pass_and_their_mode_is_named(stop_tokens):
    found = outcome(ReportingEngine(stop_tokens=stop_tokens))
    assert found.status is Status.PASSED, found.detail
    assert found.detail.startswith("those after temperature and filters; ")
    assert found.detail.endswith(" completions, which end where it is said")


@pytest.mark.parametrize(("budget", "status"), [(2.0, Status.FAILED), (0.01, Status.PASSED)])
def test_all_engines_are_looked_at_or_it_is_said_which_are_not(budget, status):
    """Those of the first one take all of the time of the check, a tenth of the budget, if that is short."""
    (wrong,) = specimens()["reports-a-constant"].engine().values()
    subject = of_engines("two", {"first": ReportingEngine(), "second": wrong})
    found = result_of("logprobs", subject, Context(budget=budget))
    assert found.status is status
    unseen = "; not looked at in this time: " in found.detail and "engine 'second'" in found.detail
    assert unseen == (status is Status.PASSED)


def test_raw_ones_pass_where_requests_of_one_token_are_raw():
    raw = ReportingEngine(logs=lambda calls: by_rows(calls, ReportingEngine().raw_probs))
    assert outcome(raw).detail.startswith("those before temperature and filters; ")


def doubled_after_a_rejection(calls):
    """Return right log-probabilities, but those of corrections as if of twice the probability."""
    logs, ends = by_rows(calls), 0
    for call in calls:
        ends += len(call.emitted)
        logs[ends - 1] += math.log(2) * (len(call.emitted) <= call.drafted)
    return logs


class HidesItsDrafts(ReportingEngine):
    """An engine without `draft_probs`."""

    draft_probs = None


@pytest.mark.parametrize("engine", [ReportingEngine, HidesItsDrafts])
def test_one_number_a_token_is_a_residual_only_where_the_drafts_say_so(engine):
    found = outcome(engine(logs=doubled_after_a_rejection))
    assert found.status is Status.FAILED
    assert "they are none of the distributions compared: before and after temperature" in found.detail
    assert ("the residual by its draft_probs" in found.detail) == (engine is ReportingEngine)


class AlwaysLength(ReportingEngine):
    """Names the limit as the reason, always."""

    def reported(self, prompt, max_new_tokens):
        return *super().reported(prompt, max_new_tokens)[:2], "length"


class AlwaysStop(ReportingEngine):
    """Names a stop as the reason, always."""

    def reported(self, prompt, max_new_tokens):
        return *super().reported(prompt, max_new_tokens)[:2], "stop"


class Silent(ReportingEngine):
    """Reports nothing of its tokens."""

    def reported(self, prompt, max_new_tokens):
        return super().reported(prompt, max_new_tokens)[0], None, None


def test_reasons_are_those_for_which_completions_end():
    stops = outcome(AlwaysLength(stop_tokens=(2,)))
    assert stops.status is Status.FAILED
    assert "the reason is 'length', but a completion of" in stops.detail
    assert "it is the limit" in outcome(AlwaysStop()).detail


def test_missing_log_probabilities_are_named():
    assert outcome(Silent()).detail.startswith("none are reported; ")
    assert outcome(Stepwise()).status is Status.NOT_APPLICABLE


def test_a_result_of_another_form_is_a_mistake_of_the_wrapper():
    engine = ReportingEngine()
    engine.reported = engine.generate
    found = outcome(engine)
    assert found.status is Status.FAILED
    assert found.detail.startswith(
        "reported must return (token ids, log-probabilities, reason); it returned "
    )
