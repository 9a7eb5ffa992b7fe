"""The check `inputs-kept` of rules: every array of the caller is compared, rows of all paths included."""

import pytest

import verifiers
from spec_oracle.audit import Status
from spec_oracle.audit.context import Context
from spec_oracle.audit.rule.subject import RuleSubject
from spec_oracle.audit.suite import result_of


class Overwriting:
    """The right rule for K paths, which leaves zeros in the first target row of one of them."""

    def __init__(self, path):
        self.path = path

    def verify(self, drafts, decisions):
        verdict = verifiers.get("recursive_rejection").verify(drafts, decisions)
        drafts.paths.target_probs[:, self.path, 0] = 0
        return verdict


@pytest.mark.parametrize("path", [0, 1])
def test_rows_of_every_path_are_compared(path):
    subject = RuleSubject("overwriting", Overwriting(path), num_paths=2)
    found = result_of("inputs-kept", subject, Context())
    assert found.status is Status.FAILED
    assert f"target_probs changed during the call: it was 0.328125 at [0, {path}, 0, 0]" in found.detail


def test_a_right_rule_keeps_its_inputs():
    subject = RuleSubject("right", verifiers.get("recursive_rejection"), num_paths=2)
    found = result_of("inputs-kept", subject, Context())
    assert found.status is Status.PASSED
    assert found.measured.draws > 0
