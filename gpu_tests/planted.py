"""Six planted defects of speculative decoding, each in the token rule or in the loop around it.

Every one is a defect of a public report (docs/evidence/catalogue.md): the suite must find it in the
same run, at the same size, in which it finds right rules right.
"""

from dataclasses import dataclass, replace
from typing import Any

import torch

import verifiers
from gpu_tests.observed import ObservedBatch
from verifiers import Verdict

RULE = verifiers.get("token")


class AlwaysAccepted:
    """Accept every drafted token, and sample the bonus token."""

    traits, accepts = RULE.traits, RULE.accepts

    def verify(self, drafts, decisions):
        verdict = RULE.verify(drafts, decisions)
        length = torch.full_like(verdict.num_accepted, drafts.depth)
        return Verdict.on_paths(drafts, 0 * length, length, _sampled(drafts, length, decisions))


class CorrectedFromTarget:
    """Sample the correction from p, not from the residual (p - q)+."""

    traits, accepts = RULE.traits, RULE.accepts

    def verify(self, drafts, decisions):
        verdict = RULE.verify(drafts, decisions)
        return replace(verdict, next_token=_sampled(drafts, verdict.num_accepted, decisions))


class BonusFromWrongRow:
    """Sample the bonus token from the row before its own."""

    traits, accepts = RULE.traits, RULE.accepts

    def verify(self, drafts, decisions):
        verdict = RULE.verify(drafts, decisions)
        is_bonus = verdict.num_accepted == drafts.depth
        other = _sampled(drafts, verdict.num_accepted * 0 + drafts.depth - 1, decisions)
        return replace(verdict, next_token=torch.where(is_bonus, other, verdict.next_token))


def _sampled(drafts: Any, place: Any, decisions: Any) -> Any:
    """Return tokens [B] sampled from the target's row at ``place`` [B] of the first path."""
    rows = drafts.paths.target_probs[:, 0]
    return decisions.categorical(rows[torch.arange(len(rows), device=rows.device), place])


@dataclass
class RowsLateAfterRejection(ObservedBatch):
    """After a rejection, rows of the target come one place late in the next call."""

    def __post_init__(self):
        super().__post_init__()
        self.is_late = torch.zeros(
            len(self.target.unread), dtype=torch.bool, device=self.target.unread.device
        )

    def keep(self, requests):
        super().keep(requests)
        self.is_late = self.is_late[torch.tensor(requests, dtype=torch.int64, device=self.is_late.device)]

    def draft_paths(self, batch):
        drafts = super().draft_paths(batch)
        rows = drafts.target_probs
        late = torch.cat([rows[:, :, :1], rows[:, :, :-1]], dim=2)
        return replace(drafts, target_probs=torch.where(self.is_late[:, None, None, None], late, rows))

    def advance(self, kept, verdict):
        super().advance(kept, verdict)
        self.is_late = verdict.num_accepted < self.draft_length


@dataclass
class RejectedLeftInCache(ObservedBatch):
    """Rejected tokens stay in the target's cache, and take up positions."""

    def __post_init__(self):
        super().__post_init__()
        go_on = self.target.go_on
        self.target.go_on = lambda rejected, *following: go_on(torch.zeros_like(rejected), *following)


@dataclass
class DraftsOfAnotherTemperature(ObservedBatch):
    """Drafts are sampled at temperature 2, and reported at temperature 1.

    On SmolLM2 with its first 27 layers a token is off by 0.25 in total variation; at temperature 0.7 by 0.05,
    less than a run detects.
    """

    def sample_children(self, rows, tokens):
        flatter = rows.sqrt()
        return super().sample_children(flatter / flatter.sum(-1, keepdim=True), tokens)


PLANTED: dict[str, dict[str, Any]] = {
    "always accepted": {"verifier": AlwaysAccepted()},
    "correction from p instead of the residual": {"verifier": CorrectedFromTarget()},
    "bonus token from the wrong row": {"verifier": BonusFromWrongRow(), "draft_length": 1},
    "rows one place late after a rejection": {"loop": RowsLateAfterRejection},
    "rejected tokens left in the cache": {"loop": RejectedLeftInCache},
    "drafts sampled at another temperature than reported": {"loop": DraftsOfAnotherTemperature},
}
"""By name, what it replaces in `observed.observed`; bonus tokens of weak drafts come after one token only."""
