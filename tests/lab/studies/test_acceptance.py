"""Five rules at the same contexts agree with the figures of a log; runs that accept less do not."""

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

from lab.studies.acceptance import RULES, at_same_contexts, compared, joint, rule, table
from spec_oracle.acceptance import acceptance
from spec_oracle.language_models import LanguageModel
from spec_oracle.third_party.engines.hugging_face import small_model
from verifiers import Verdict

RATE = 1e-6
PROMPTS = [[0, 1], [5, 2, 3], [7]]


class RefusesHalf:
    """A rule that accepts nothing in half of the calls."""

    def __init__(self, name):
        self.rule = rule(name)

    def verify(self, drafts, decisions):
        found = self.rule.verify(drafts, decisions)
        is_kept = decisions.bernoulli(0.5 + 0 * found.num_accepted.double())
        accepted = found.num_accepted * is_kept
        return Verdict.on_paths(drafts, 0 * accepted, accepted, found.next_token)


def run(**changed):
    """Return the calls of the five rules, some of them changed; the draft is the target, flatter."""
    network = small_model(1, 1, 12)
    rules = {name: rule(name) for name in RULES} | changed
    pair = LanguageModel(network), LanguageModel(network, temperature=1.3)
    return at_same_contexts(rules, *pair, PROMPTS, copies=10, tokens=10)


def test_the_figures_of_one_log_agree_with_runs_of_five_rules():
    calls = run()
    found = compared(calls, RATE)
    assert {name: one.agrees for name, one in found.items()} == dict.fromkeys(RULES, True)
    assert {len(one.lengths) for one in calls.values()} == {300}
    for name, one in calls.items():
        assert name in acceptance(one, rule=name).fitting
    assert "| `typical` |" in table(found)
    assert "figures of all 5 rules agree" in joint(found)


def test_runs_that_refuse_half_of_the_calls_differ_from_their_figures():
    found = compared(run(block=RefusesHalf("block"), typical=RefusesHalf("typical")), RATE)
    assert [name for name, one in found.items() if not one.agrees] == ["block", "typical"]
    assert "The figures of `block` and `typical` differ from their runs" in joint(found)
    assert "| **no** |" in table(found)
