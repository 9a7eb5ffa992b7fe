"""A function of tree masks as a tree sampler."""

from tree_engine import verify as under_test

from spec_oracle.contracts.adapting import drawing_from, from_lengths
from spec_oracle.contracts.trees import ancestors, with_root


def verify_tree(tokens, parents, draft_probs, target_probs, generator):
    """Keep the contract of tree samplers; see docs/guide/from-your-signature.md of spec-oracle."""
    del draft_probs  # it reads the target only
    with drawing_from(generator):
        output = under_test(
            candidates=with_root(tokens),
            tree_mask=ancestors(parents),
            target_probs=target_probs,
        )
    return from_lengths(output[0], output[1])


verify_tree.accepts = {"top", "distinct"}  # how the drafter draws the children of a node
