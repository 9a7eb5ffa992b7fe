"""The page of weak drafts counts the cuts on which a rule was tried, and no others."""

from lab.studies.measure import BALANCED, OURS, Record
from lab.studies.toys import Toy
from lab.studies.weak_drafts import lost, table
from spec_oracle.toy import Instance


def test_means_and_losses_are_of_the_cuts_that_a_rule_was_tried_on():
    toys = [Toy(Instance.random(2, 2, num_paths=2, seed=seed), "weak", "prompt", 0) for seed in (1, 2)]
    records = [
        Record(toys[0], 2.0, {OURS: 0.2, BALANCED: 0.1, "block": 0.3}, {}),
        Record(toys[1], 2.0, {OURS: 0.1, "block": 0.3}, {}),
    ]
    assert "| `weak` | 2 | 2.0000 | 15.00 % (20.00 %) | 10.00 % (10.00 %) | - |" in table(records)
    assert f"| `{BALANCED}` | 1 of 1 | 10.0000 % | K = 2, `weak`, 'prompt' |" in lost(records)
    assert lost(records[1:]) == "Nowhere."
