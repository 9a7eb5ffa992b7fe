"""What the page of adapters says of a flat function: each of its options, proven lossless or found lossy."""

import runpy
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from spec_oracle.audit import AuditOptions, audit  # noqa: E402
from spec_oracle.contracts.adapting import drawing_from, logits_of  # noqa: E402  # after torch
from spec_oracle.contracts.flat import flat  # noqa: E402
from tests.strategies import by_day  # noqa: E402

ENGINE = Path(__file__).parents[2] / "docs/examples/flat_engine.py"


def own(batch, generator):
    return {"generators": batch.generators(generator)}


def some(batch, generator):
    return {"generators": {0: batch.generators(generator)[0]}}


def uncertain(batch, generator):
    return {"draft_probs": None}


def in_float32(batch, generator):
    return {"target_logits": logits_of(batch.target_probs.to(torch.float32))}


def greedy(batch, generator):
    return {"is_greedy": torch.ones_like(batch.is_greedy)}


def of_the_first(batch, generator):
    return {"bonus_token_ids": batch.bonus_probs.argmax(dim=1, keepdim=True)}


OPTIONS = {own: 0, some: 0, uncertain: 0, in_float32: 0, greedy: 1, of_the_first: 1}


@pytest.mark.usefixtures("less_effort")
@pytest.mark.parametrize(
    "option", by_day(OPTIONS, {uncertain, greedy, of_the_first}), ids=lambda option: option.__name__
)
def test_an_option_of_the_flat_adapter(option):
    function = runpy.run_path(str(ENGINE))["rejection_sample"]

    def verify(draft_tokens, draft_probs, target_probs, generator):
        batch = flat(draft_tokens, draft_probs, target_probs)
        changed = option(batch, generator)
        with drawing_from(generator):
            given = {
                "draft_token_ids": batch.tokens,
                "cu_num_draft_tokens": batch.ends,
                "draft_probs": batch.draft_probs,
                "target_logits": logits_of(batch.target_probs),
                "bonus_token_ids": batch.sample_bonus(),
                "is_greedy": batch.is_greedy,
                "generators": {},
            }
            return batch.from_padded(function(**given | changed))

    options = AuditOptions(array="torch", checks=(), draft_length=1, shrink=False)
    report = audit(verify, options=options)
    assert report.exit_code == OPTIONS[option]
    (subject,) = report.subjects
    assert subject.evidence == "exact"
