"""What wrong log-probabilities do to a trainer: importance ratios and the KL divergence a token.

A trainer weighs each token of a rollout by exp(logprob_train - logprob_rollout). Where both are of the same
model the ratio is 1. Its mean over sampled tokens is 1 as well where `logprob_rollout` is of the distribution
that was sampled, whatever the other one is: so a mean that is not 1 is a bias of the gradient. The KL
divergence is estimated by ratio - 1 - log(ratio), which is never negative.

>>> ratios = Ratios()
>>> ratios.add(-1.0, -1.0)
>>> ratios.add(-1.1, -1.0)
>>> ratios.in_words().rpartition(": ")[2]
'mean 0.952 +- 0.157, 0.905 to 1; KL 0.00242 +- 0.00798 nats a token'
"""

import math
from dataclasses import dataclass, field

import numpy as np

from spec_oracle.arrays import Floats

DEVIATIONS = 3.3
"""Standard errors either way: an interval of 99.9 % for many tokens."""


@dataclass
class Ratios:
    """Log-ratios of tokens, nats: of a trainer's log-probability to that of the rollout."""

    logs: list[float] = field(default_factory=list)

    def add(self, train: float | None, rollout: float | None) -> None:
        """Add a token; one that either does not know is left out."""
        if train is not None and rollout is not None and math.isfinite(train - rollout):
            self.logs.append(train - rollout)

    def in_words(self) -> str:
        """Return a line for the report, "" without tokens."""
        if not self.logs:
            return ""
        logs = np.array(self.logs)
        ratio = np.exp(logs)
        bias, kl = (f"{one.mean():.3g} +- {_half(one):.3g}" for one in (ratio, np.expm1(logs) - logs))
        return (
            "reported numbers, not samples: importance ratio exp(logprob_train - logprob_rollout) over "
            f"{len(logs):,} tokens: mean {bias}, {ratio.min():.3g} to {ratio.max():.3g}; KL {kl} nats a token"
        )


def _half(values: Floats) -> float:
    """Return half the width of the interval of a mean."""
    spread = values.std(ddof=1) if len(values) > 1 else math.inf
    return float(DEVIATIONS * spread / math.sqrt(len(values)))
