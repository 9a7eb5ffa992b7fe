"""Experiment: balanced multi-path block verification with the counts averaged out, and with a look ahead."""

from dataclasses import dataclass

import numpy as np

from spec_oracle.toy import Instance
from studies.count_law import Floats, Ints, counted_selection, posterior_after
from verifiers import DecisionSource, Drafts, Verdict
from verifiers.arrays import normalised, pick
from verifiers.parts.balanced_selection import select
from verifiers.parts.block_path import verify_path


@dataclass(frozen=True)
class AveragedBlockVerifier:
    """Select as `balanced_multipath_block` does; verify with the rows of the path's own law, sbar.

    Never below `balanced_multipath_block` under the same selection: with h a path with counts, block
    verification reaches a node with probability sum_h p(h) min_u s(u)/p(u) <= p(v) min_u sbar(u)/p(u) over
    its prefixes u, since a minimum is concave and the mean of s(u)/p(u) over counts is sbar(u)/p(u).

    ``values``, where given, hold for every context of d < L tokens a weight of each next token,
    ``values[d]`` [V^d, V]; the selection is then balanced against p times weight. Lossless for any weights.
    """

    values: tuple[Floats, ...] | None = None

    def verify(self, drafts: Drafts, decisions: DecisionSource) -> Verdict:
        """Select one path of every request, node by node, and verify it."""
        request = np.arange(drafts.batch)
        present = np.ones(drafts.tokens.shape[:2], dtype=bool)
        path, context = request * 0, request * 0
        posterior = np.eye(drafts.num_paths)[request * 0 + drafts.num_paths - 1]
        rows = []
        for depth in range(drafts.draft_length):
            draft = drafts.draft_probs[request, path, depth]
            wanted = self._wanted(drafts.target_probs[request, path, depth], depth, context)
            selection = counted_selection(wanted, normalised(draft), drafts.num_paths)
            joint = selection.given(posterior)
            tokens = drafts.tokens[:, :, depth]
            path = select(selection.plan_for(present.sum(axis=1)), tokens, present, decisions)
            token = pick(tokens, path)
            present = present & (tokens == token[:, None])
            posterior = posterior_after(joint, token)
            context = context * drafts.vocab_size + token
            rows.append(joint.sum(axis=1))
        law = np.stack(rows, axis=1)
        tau, next_token = verify_path(
            pick(drafts.tokens, path), pick(drafts.target_probs, path), law, decisions
        )
        return Verdict(tau, path, next_token, drafts.tokens)

    def _wanted(self, target: Floats, depth: int, context: Ints) -> Floats:
        """Return the weights [B, V] to balance against at contexts of ``depth`` tokens, int [B]."""
        return target if self.values is None else target * self.values[depth][context]


def continuation_values(instance: Instance, strength: float) -> tuple[Floats, ...]:
    """Return the weights g(vx)^strength of the tokens that have a token to follow.

    g(u) = 1 + sum_y min(p(y|u), q(y|u)) is what the token rule with one draft emits at u: the depth-2 law.
    After L tokens there is no draft, g = 1.
    """
    numbers, length, vocab = instance.floats, instance.draft_length, instance.vocab_size
    values = [
        (1 + np.minimum(numbers.target.rows(d), numbers.draft.rows(d)).sum(axis=1)) ** strength
        for d in range(1, length)
    ]
    return tuple(value.reshape(-1, vocab) for value in [*values, np.ones(vocab**length)])
