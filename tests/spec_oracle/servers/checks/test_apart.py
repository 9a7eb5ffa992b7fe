"""Local weights in another process: what they say, what they raise, and the end of the time."""

import math
import os
import time

import pytest

from spec_oracle.audit import Status
from spec_oracle.audit.context import Context
from spec_oracle.audit.table import CHECKS
from spec_oracle.contracts.completion import Sampling
from spec_oracle.errors import InvalidInputError
from spec_oracle.servers.checks.apart import Apart, rows_of
from spec_oracle.servers.checks.subject import Plan, ServerSubject
from spec_oracle.servers.checks.weights import Weights
from spec_oracle.servers.client.server import connect
from spec_oracle.servers.contract import OutOfTimeError
from tests.spec_oracle.servers.client.stand_in import InProcess, StandIn


def quick():
    drafter = StandIn(draft=False, serves="draft")

    def rows(prompt, tokens):
        laws = (drafter.law((*prompt, *tokens[:end]), {}) for end in range(len(tokens)))
        return [{token: math.log(p) for token, p in enumerate(law)} for law in laws]

    return rows


def stuck():
    time.sleep(1000)


def stuck_in_a_pass():
    return lambda prompt, tokens: time.sleep(1000)


def gone():
    os._exit(7)


def wrong():
    return rows_of("no/such/folder.gguf")


def test_rows_are_those_of_the_other_process():
    with Apart(quick) as apart:
        assert apart((1, 2), (3, 4)) == quick()((1, 2), (3, 4))
        assert apart.is_ready(0.0)


@pytest.mark.parametrize("load", [stuck, stuck_in_a_pass])
def test_nobody_waits_longer_than_there_is_time(load):
    with Apart(load) as apart:
        apart.end = time.monotonic() + 0.2
        with pytest.raises(OutOfTimeError, match="raise --budget"):
            apart((1,), (2,))


@pytest.mark.parametrize(("load", "words"), [(gone, "ended with code 7"), (wrong, "no/such/folder.gguf")])
def test_weights_that_cannot_be_loaded_are_an_error(load, words):
    with Apart(load) as apart, pytest.raises(InvalidInputError, match=words):
        apart.is_ready(60.0)


def test_without_weights_in_time_completions_are_judged_by_p():
    server = connect(InProcess(StandIn()), Sampling(), prompts=["bc", "def"])
    with Apart(stuck) as apart:
        subject = ServerSubject("here", server, Plan(detect=0.1), draft=Weights(apart, server.prompts))
        found = CHECKS["long-texts"].outcome(subject, Context(budget=1.0))
    assert found.status is not Status.FAILED
    assert "weights were not loaded in time; raise --budget" in found.detail
    assert found.draws
