"""Traversal verification: judge the draft tree from the leaves up to the root."""

from verifiers.arrays import Array, arange_like, in_working_precision, kept, namespace, normalised, pick_each
from verifiers.interface import DecisionSource, Drafts, Verdict
from verifiers.parts.climb import climb, places_of
from verifiers.parts.walk import SAMPLED


class TraversalVerifier:
    """Traversal verification (Weng et al., arXiv 2505.12398): `parts.climb`, siblings in their order.

    Each sibling has the law q without the tokens before it: of distinct ones, and of independent ones that
    are reduced to distinct tokens. On a chain it is block verification, up to rounding.
    """

    accepts = SAMPLED

    def verify(self, drafts: Drafts, decisions: DecisionSource) -> Verdict:
        """Verify the draft tree of every request."""
        xp = namespace(drafts.tokens)
        places, request = places_of(drafts), arange_like(drafts.tokens, drafts.batch)
        tokens = kept(places.present, drafts.tokens)
        equal = tokens[:, :, None] == tokens[:, None, :]

        def remaining(place: Array, above: Array) -> Array:
            """Return q without the tokens of earlier siblings."""
            gone = xp.any(equal & places.earlier[request, place][:, None, :], axis=-1)
            row = in_working_precision(drafts.draft.row(above))
            row[request[:, None], tokens] = kept(~gone, pick_each(row, tokens))
            return normalised(row)

        order = arange_like(tokens, drafts.places)[None, :] + 0 * tokens
        return climb(drafts, places, remaining, order, decisions)
