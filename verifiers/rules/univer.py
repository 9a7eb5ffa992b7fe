"""UniVer among top siblings and a sampled one: one-step plans composed along the tree. A reconstruction.

Of UniVer (Weng, Hu & Yairi, arXiv 2605.04543) we had the abstract: the acceptance chance of a prefix scales
the target at its node, siblings share a plan that is optimal for the scaled target, mass is laid out from the
root down, decisions are taken from the leaves up. For top siblings T and one sampled from q' (Hu et al.,
2502.18779) and a scale a such a plan is known: the sampled token is served min(a p, q'); every draft tree has
all of T, and what they have left, Σ (q' − a p)+ >= a p(T), serves T in full. That is `parts.climb` with
the sampled sibling tested first and each top sibling as a certain draft. With one sibling at each node it is
block verification. For independent siblings balanced selection is an optimal plan at every scale, and the
construction is `balanced_multipath_block`.
"""

from verifiers.arrays import Array, arange_like, kept, namespace, ones, working_rows
from verifiers.interface import DecisionSource, Drafts, Siblings, Verdict
from verifiers.parts.climb import climb, places_of
from verifiers.rules.top_draft import sampled_law


class UniVerVerifier:
    """Conditional optimal transport, siblings `Siblings.TOP_AND_SAMPLED`; see the module."""

    accepts = frozenset({Siblings.TOP_AND_SAMPLED})

    def verify(self, drafts: Drafts, decisions: DecisionSource) -> Verdict:
        """Verify the draft tree of every request."""
        xp = namespace(drafts.tokens)
        places = places_of(drafts)
        number = arange_like(drafts.tokens, drafts.places)
        siblings, count = places.siblings, places.count
        # The last sibling is sampled; where no token was left but the top ones, it repeats one of these.
        last = siblings & (places.rank + 1 == count)[:, None, :]
        equal = drafts.tokens[:, :, None] == drafts.tokens[:, None, :]
        sampled = xp.any(last & equal, axis=-1) & ~places.repeated
        first = xp.argmax(xp.astype(siblings, xp.int64), axis=-1)
        order = xp.argsort(xp.where(sampled, 2 * first - 1, 2 * number[None, :]), axis=1, stable=True)
        request = arange_like(drafts.tokens, drafts.batch)

        def law_of(place: Array, above: Array) -> Array:
            law = sampled_law(working_rows(drafts.draft.row(above)), count[request, place])
            token = drafts.tokens[request, place]
            certain = arange_like(law, drafts.vocab_size)[None, :] == token[:, None]
            return xp.where(sampled[request, place][:, None], law, kept(certain, ones(law)))

        return climb(drafts, places, law_of, order, decisions)
