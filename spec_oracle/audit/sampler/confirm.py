"""A defect that was traced of a sampler is confirmed by plain samples at its own size."""

from functools import partial

import numpy as np

from spec_oracle.audit import effort
from spec_oracle.audit.confirm import borne_out, require_repeated, told
from spec_oracle.audit.context import Context
from spec_oracle.audit.draws import Sampler
from spec_oracle.audit.results import NoEvidenceError
from spec_oracle.audit.sampler.subject import SamplerSubject
from spec_oracle.exact import EmissionLaw
from spec_oracle.exact.conditional import ConditionalLaw

_SAME = 1e-9
_CERTAIN = 1 - 1e-9


def confirmed_claim(
    subject: SamplerSubject, law: EmissionLaw, context: Context, rate: float, again: partial[EmissionLaw]
) -> str:
    """Sample between the law that was traced and the target's; return a line on how the claim stands.

    ``again`` traces once more. Raises `NoEvidenceError` where samples contradict what was traced.
    """
    sample = Sampler(subject.code, context.seed, "sampler/joint/claimed").on(law.instance)
    is_confirmed = borne_out(
        sample,
        law.extended().reshape(-1),
        rate=effort.CLAIM_PART * rate,
        seconds=effort.CLAIM_SHARE * context.budget,
        pilot=effort.SAMPLER_PILOT,
        most=10 * effort.SAMPLER_BATCH,
    )
    is_same = lambda other: np.allclose(other.extended(), law.extended(), rtol=0, atol=_SAME)  # noqa: E731
    repeats = 0 if is_confirmed else require_repeated(again, is_same)
    return told("what was traced", sample.draws, repeats)


def require_decisions(known: list[ConditionalLaw], laws: list[EmissionLaw]) -> None:
    """Raise `NoEvidenceError` where no decision was seen of what the targets do not leave certain."""
    is_certain = all(
        mass.max() >= _CERTAIN for law in known for mass in [np.concatenate([*law.leaves.values()])]
    )
    targets = (law.instance.floats.target.joint(law.instance.draft_length + 1) for law in laws)
    if is_certain and any(target.max() < _CERTAIN for target in targets):
        raise NoEvidenceError(
            "could not trace the random numbers: no random decision was seen, and the target leaves a "
            "choice; sampled instead"
        )
