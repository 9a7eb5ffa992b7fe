"""The decoding loop as an engine: texts of every rule have the target's law, caches and all, enumerated."""

import pytest

import verifiers
from spec_oracle.audit import AuditOptions, Evidence, SubjectVerdict, audit

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from spec_oracle.language_models import LanguageModel  # noqa: E402
from spec_oracle.language_models.decoding import decode  # noqa: E402
from spec_oracle.third_party.engines.hugging_face import small_model  # noqa: E402

VOCAB = 2


class Loop:
    vocab_size = VOCAB
    prompts = ((0, 1),)

    def __init__(self, rule, num_paths):
        self.verifier, self.num_paths = verifiers.get(rule), num_paths
        self.target, self.draft = (LanguageModel(small_model(seed, 1, VOCAB)) for seed in (1, 2))

    def next_token_probs(self, context):
        return self.target.network(torch.tensor([context])).logits[0, -1].softmax(-1)

    def generate(self, prompt, max_new_tokens, seed=None):
        if seed is not None:
            torch.manual_seed(seed)
        sizes = {"draft_length": 1, "num_paths": self.num_paths, "max_new_tokens": max_new_tokens}
        found = decode(self.verifier, self.target, self.draft, [prompt], **sizes)
        self.drafted = len(found.calls)
        self.accepted = int(found.accepted_lengths.sum())
        return list(found.texts[0])


RULES = [name for name in verifiers.names() if name != "block_transport"]  # which needs a whole toy model
DAILY = {"greedy_block"}
"""It walks several paths, and carries over what it owes."""


@pytest.mark.usefixtures("less_effort")
@pytest.mark.parametrize(
    "rule", [pytest.param(rule, marks=() if rule in DAILY else pytest.mark.nightly) for rule in RULES]
)
def test_the_law_of_its_texts_is_the_target_s(rule):
    (found,) = audit(Loop(rule, 2), options=AuditOptions(tokens=2, checks=[], budget=10.0)).subjects
    assert found.evidence is Evidence.EXACT
    assert found.verdict is not SubjectVerdict.LOSSY
    assert found.total_variation < 1e-12
