"""Samplers are audited where their code runs: tensors and generator are on the device."""

import pytest
import torch

from spec_oracle.audit import AuditOptions, audit
from spec_oracle.audit.reports import SubjectVerdict
from spec_oracle.errors import InvalidInputError

SEEN = set()


def sampled(rows, generator):
    return torch.multinomial(rows, 1, generator=generator)[:, 0]


def token(draft_tokens, draft_probs, target_probs, generator, *, is_residual=True):
    """Verify drafts [B, L] by the token rule, or with a correction from p."""
    SEEN.update(one.device.type for one in (draft_tokens, draft_probs, target_probs, generator))
    count, length = draft_tokens.shape
    every = torch.arange(count, device=draft_tokens.device)
    p, q = (
        rows[:, :length].gather(2, draft_tokens[:, :, None])[:, :, 0] for rows in (target_probs, draft_probs)
    )
    uniforms = torch.rand((count, length), generator=generator, device=p.device, dtype=p.dtype)
    accepted = (uniforms * q < p).int().cumprod(dim=1).sum(dim=1)
    q_or_none = torch.nn.functional.pad(draft_probs, (0, 0, 0, 1))[every, accepted]
    rows = target_probs[every, accepted]
    if is_residual:
        rows = (rows - q_or_none).clamp(min=0)
    tokens = torch.nn.functional.pad(draft_tokens, (0, 1))
    tokens[every, accepted] = sampled(rows, generator)
    steps = torch.arange(length + 1, device=p.device)
    return torch.where(steps <= accepted[:, None], tokens, -1), accepted


def correction_from_p(*arguments):
    return token(*arguments, is_residual=False)


@pytest.mark.parametrize(
    ("function", "verdict"), [(token, SubjectVerdict.LOSSLESS), (correction_from_p, SubjectVerdict.LOSSY)]
)
def test_a_sampler_is_sampled_on_the_device(function, verdict, device):
    """False alarms: 1e-6 an audit; the defect moves the distributions of `joint` by more than 0.02."""
    SEEN.clear()
    options = AuditOptions(array="torch", device=f"{device}:0", budget=60, checks=("inputs-kept",))
    (report,) = audit(function, options=options).subjects
    assert report.verdict is verdict
    assert report.evidence == "statistical"
    assert torch.device(device).type in SEEN


def test_a_device_that_is_not_there_is_named(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(InvalidInputError, match="'cuda:99'"):
        audit(token, options=AuditOptions(array="torch", device="cuda:99"))
    with pytest.raises(InvalidInputError, match="needs array='torch'"):
        AuditOptions(device="cuda")
