"""The correct toy engine keeps the engine contract: alone and in batches, after prompts, at any length."""

import pickle
from dataclasses import replace

import numpy as np
import pytest

from lab.specimens.toy_engine import DEPTH, ToyEngine, on_toys, race, token_rule
from spec_oracle.audit.context import Context
from spec_oracle.audit.engine.joint import first_tokens, joint
from spec_oracle.audit.engine.requests import Requests
from spec_oracle.audit.experiment import Ledger, sampled
from spec_oracle.audit.results import Status
from spec_oracle.contracts.engine import EngineCode
from spec_oracle.errors import ContractError
from tests.subjects import of_engine

SEEDS = [7, None, 11, 3]


@pytest.fixture(scope="module")
def engine():
    return on_toys(ToyEngine)()["flat"]


def test_a_seeded_request_of_a_batch_is_what_it_is_alone(engine):
    code = EngineCode(engine)
    batch = code.completions((0, 2), 5, SEEDS)
    assert [len(completion) for completion in batch] == [5] * 4
    for seed, completion in zip(SEEDS, batch, strict=True):
        if seed is not None:
            assert engine.generate([0, 2], 5, seed) == list(completion)
    assert 0 < engine.accepted < engine.drafted


def test_an_engine_whose_completions_were_placed_can_be_sent_to_another_process(engine):
    code, places = EngineCode(engine), np.full(3, 0.5)
    found = code.bins((0,), (1, 2, 0), places, 4)
    sent = pickle.loads(pickle.dumps(code))
    assert np.array_equal(sent.bins((0,), (1, 2, 0), places, 4), found)


def test_the_first_token_of_a_prompt_is_the_start_of_the_text(engine):
    target = engine.instance.target
    assert np.array_equal(engine.next_token_probs([0]), target.conditional(()))
    assert np.array_equal(engine.next_token_probs([0, 2, 1]), target.conditional((2, 1)))


def test_of_a_long_context_the_last_tokens_count(engine):
    long = np.random.default_rng(0).integers(3, size=3 * DEPTH).tolist()
    assert np.array_equal(engine.next_token_probs([0, *long]), engine.next_token_probs([0, *long[-DEPTH:]]))
    assert len(engine.generate([0], 20, 1)) == 20


def test_steps_of_ended_requests_are_padding():
    session = ToyEngine(on_toys(ToyEngine)()["flat"].instance, stop_token=0).start_many(
        [[0]] * 50, 4, [None] * 50
    )
    steps = [session.step() for _ in range(5)]
    assert (steps[-1].num_accepted == -1).all()
    assert (steps[-1].tokens == -1).all()


def test_batches_are_sampled_by_the_thousand(engine):
    subject, context = of_engine(engine), Context(rate=1e-6)
    requests, cases = Requests(subject, context, "test"), subject.cases(context)
    result = sampled([*first_tokens(requests, cases, Ledger(0.0))], context, requests.effort(cases))
    assert (result.status, result.measured.draws > 40_000) == (Status.PASSED, True)


def test_a_batch_that_exceeds_its_limit_breaks_the_contract(engine):
    class Longer(ToyEngine):
        def start_many(self, prompts, max_new_tokens, seeds):
            return super().start_many(prompts, max_new_tokens + 2, seeds)

    with pytest.raises(ContractError, match="start_many returned [34] tokens for max_new_tokens 2"):
        EngineCode(Longer(engine.instance)).completions((0,), 2, SEEDS)


def bonus_of_the_draft(call):
    """Draw the token behind drafts that were all accepted as if one of them had been rejected."""
    emitted, accepted = token_rule(call)
    full = accepted == call.tokens.shape[1]
    emitted[full, -1] = race(call.draft[full, -1], call.correct[full, -1])
    return emitted, accepted


def test_a_whole_call_is_judged_where_it_is_sampled(engine):
    """Two tokens are right. The third is off by far more than the 0.1 that samples must detect."""
    subject, context = of_engine(replace(engine, verify=bonus_of_the_draft)), Context(rate=1e-6)
    result = joint(subject, context)
    assert (result.status, result.measured.tokens) == (Status.FAILED, 3)
