"""List coupling: drafts and emitted tokens are the winners of races that read the same uniforms.

Path k has a uniform U^(k)_i for every position and token i. With the exponential noise E^(k)_i = −log U^(k)_i

    draft of path k:   argmin_i E^(k)_i / q^(k)_i                                                         (1)
    emitted token:     argmin_i min_k E^(k)_i / p_i       over the paths that race                        (2)

The paths whose drafts agree with everything emitted so far are *active*. A call emits (2) at one position
after another; paths that drafted another token leave; it ends after a token that no active path drafted, or
after the bonus token.

The smallest of several exponentials is exponential, so (2) has the distribution p whichever paths race, as
long as that is settled by other positions: the rule is lossless, and needs neither a residual nor q. With one
path it is Gumbel coupling (Daliri, Musco & Suresh, arXiv 2408.07978), with several, of which the active ones
race, list coupling (Rowan, Phan & Khisti, arXiv 2506.05632). The exact distributions of drafts and emitted
tokens are in `lab.coupling.coupling`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Protocol, TypeAlias

from verifiers.arrays import Array, all_true, as_float64, kept, namespace, pick, zeros
from verifiers.errors import InvalidInputError
from verifiers.interface import Drafts, Verdict
from verifiers.parts.walk import first_true

NextRows: TypeAlias = Callable[[Array], Array]
"""(tokens int [B, K, d], the paths so far) -> the rows [B, K, V] of what follows."""


class CoupledVerifier(Protocol):
    """A rule that reads the uniforms by which its drafts were sampled, in place of a `DecisionSource`."""

    def verify(self, drafts: Drafts, uniforms: Array) -> Verdict:
        """Verify a batch of drafts; ``uniforms`` [B, K, L+1, V] in (0, 1), of paths, positions and tokens."""
        ...


class Invariance(Enum):
    """What a coupled rule promises of its output, besides the target's distribution."""

    NONE = "none"
    WEAK = "weak"
    """Given the drafts and the uniforms, the draft probabilities count for nothing."""

    STRONG = "strong"
    """The text is a function of the uniforms and the target, whoever drafts."""


class CoupledRule(CoupledVerifier, Protocol):
    """A coupled verifier that says what it promises."""

    @property
    def invariance(self) -> Invariance:
        """What does not depend on the drafter."""
        ...


def race(weights: Array, uniforms: Array) -> Array:
    """Return the index that wins a race, argmin −log(U) / weight over the last axis: int [...].

    ``weights`` and ``uniforms`` in (0, 1), both [..., V], are computed in float64. An index of weight 0 never
    wins beside one of positive weight; a uniform of 0 counts as the smallest positive number.

    >>> import numpy as np
    >>> race(np.array([0.5, 0.25, 0.25]), np.array([0.3, 0.9, 0.4])).tolist()
    1
    """
    weights, uniforms = as_float64(weights), as_float64(uniforms)
    xp = namespace(weights)
    smallest = xp.finfo(xp.float64).smallest_normal
    noise = -xp.log(xp.where(uniforms > 0, uniforms, smallest))
    possible = weights > 0
    return xp.argmin(xp.where(possible, noise / xp.where(possible, weights, 1.0), xp.inf), axis=-1)


def coupled_drafts(draft: NextRows, target: NextRows, uniforms: Array) -> Drafts:
    """Sample K paths of L tokens by (1), and read both models along them.

    ``uniforms`` [B, K, L+1, V] in (0, 1), the same that the rule reads later; those of the last position are
    for the bonus token. ``draft`` and ``target`` return the rows after the paths so far.
    """
    xp = namespace(uniforms)
    tokens = xp.zeros_like(uniforms[:, :, :0, 0], dtype=xp.int64)
    draft_rows, target_rows = [], [target(tokens)]
    for depth in range(uniforms.shape[2] - 1):
        draft_rows.append(draft(tokens))
        token = race(draft_rows[-1], uniforms[:, :, depth])
        tokens = xp.concat([tokens, token[:, :, None]], axis=2)
        target_rows.append(target(tokens))
    return Drafts.of_paths(tokens, xp.stack(draft_rows, axis=2), xp.stack(target_rows, axis=2))


@dataclass(frozen=True)
class ListCoupling:
    """Emit the winners of (2).

    ``all_race``: all K paths race at every position, not the active ones alone. Then the text is a function
    of the uniforms and of the target (*strong* drafter invariance), and fewer drafts are accepted. Without
    it the drafter decides which paths race; given the drafts, its probabilities count for nothing (*weak*
    drafter invariance).
    """

    all_race: bool = False

    @property
    def invariance(self) -> Invariance:
        """Strong where all paths race, else weak."""
        return Invariance.STRONG if self.all_race else Invariance.WEAK

    def verify(self, drafts: Drafts, uniforms: Array) -> Verdict:
        """Verify a batch of drafts that (1) sampled by the same ``uniforms`` [B, K, L+1, V].

        Raises `InvalidInputError` for uniforms of another shape.
        """
        paths = drafts.paths
        expected = (paths.batch, paths.num_paths, paths.draft_length + 1, paths.vocab_size)
        if tuple(uniforms.shape) != expected:
            raise InvalidInputError(
                f"uniforms: expected shape [B, K, L+1, V] = {expected}, got {tuple(uniforms.shape)}"
            )
        xp = namespace(paths.tokens)
        everyone = all_true(paths.tokens[:, :, 0])
        active, going = everyone, everyone[:, 0]
        tau = next_token = zeros(paths.tokens[:, 0, 0])
        for depth in range(paths.draft_length + 1):
            racing = everyone if self.all_race else active
            # The smallest −log U of several paths belongs to the largest U.
            largest = xp.max(kept(racing[:, :, None], uniforms[:, :, depth]), axis=1)
            token = race(pick(paths.target_probs[:, :, depth], first_true(active)), largest)
            next_token = xp.where(going, token, next_token)
            if depth == paths.draft_length:
                break
            matching = active & (paths.tokens[:, :, depth] == token[:, None])
            going = going & xp.any(matching, axis=-1)
            tau = tau + xp.astype(going, tau.dtype)
            active = xp.where(going[:, None], matching, active)
        return Verdict.on_paths(drafts, first_true(active), tau, next_token)


LIST_COUPLING = ListCoupling()
"""List coupling; with one path Gumbel coupling."""

STRONG_LIST_COUPLING = ListCoupling(all_race=True)
"""List coupling whose text does not depend on the drafter."""
