"""The exact law of what one call of a tree verifier emits, over a law of draft trees."""

from dataclasses import fields
from typing import Any

import numpy as np

from spec_oracle.arrays import Integers
from spec_oracle.errors import InvalidInputError
from spec_oracle.exact.arithmetic import Arithmetic, arithmetic
from spec_oracle.exact.call import BATCH_BYTES, VerdictError, within
from spec_oracle.exact.conditional import MOST_NUMBERS, ConditionalLaw, Emitted, laws_after
from spec_oracle.exact.emission import EmissionLaw, masses_of
from spec_oracle.exact.enumeration import OpenToken, ScriptedDecisions
from spec_oracle.exact.tree_drafting import TreeDrafting, TreeLaw, in_rationals
from spec_oracle.toy import Instance
from spec_oracle.toy.size import FLOAT_BYTES, RATIONAL_BYTES
from spec_oracle.validation import require_instance_of
from verifiers.trees import ROOT, TreeDrafts, TreeVerdict, TreeVerifier, way_to


class TreeTable:
    """Every draft tree of an instance, and the model rows at its nodes, in batches that a verifier takes."""

    def __init__(self, instance: Instance, drafting: TreeDrafting, chosen: Arithmetic) -> None:
        self.law: TreeLaw = drafting.law(instance)
        depths = range(instance.draft_length + 1)
        target = [instance.target.rows(depth) for depth in depths]
        draft = [*(instance.draft.rows(depth) for depth in depths[:-1]), target[-1] * 0]
        self._rows, self._chosen = (np.concatenate(draft), np.concatenate(target)), chosen
        number_bytes = RATIONAL_BYTES if target[0].dtype == object else FLOAT_BYTES
        self.batch_rows = max(
            64, BATCH_BYTES // (2 * self.law.nodes.shape[1] * instance.vocab_size * number_bytes)
        )

    def drafts(self, trees: Integers) -> TreeDrafts:
        """Return the trees numbered ``trees`` [R] as one batch."""
        draft, target = (
            self._chosen.probabilities(np.take(rows, self.law.nodes[trees], axis=0)) for rows in self._rows
        )
        tokens, parents = (self._chosen.from_numpy(of[trees]) for of in (self.law.tokens, self.law.parents))
        return TreeDrafts(tokens, parents, draft, target)


def checked_tree_verdict(verdict: Any, drafts: TreeDrafts, chosen: Arithmetic) -> tuple[Integers, Any]:
    """Return the last accepted place and the next token, int [B]; raise `VerdictError` for no verdict.

    A token that is not taken yet is returned as it is.
    """
    if not isinstance(verdict, TreeVerdict):
        must = "it must return a TreeVerdict (node [B], next_token [B], drafts)"
        raise VerdictError(f"verify_tree returned {type(verdict).__name__}; {must}")
    node = _of_requests("node", verdict.node, drafts, chosen)
    within("node", node - ROOT, drafts.places + 1)
    if isinstance(verdict.next_token, OpenToken):
        return node, verdict.next_token
    token = _of_requests("next_token", verdict.next_token, drafts, chosen)
    return node, within("next_token", token, drafts.vocab_size)


def _of_requests(name: str, values: Any, drafts: TreeDrafts, chosen: Arithmetic) -> Integers:
    numbers = chosen.to_numpy(values)
    if numbers.shape != (drafts.batch,):
        raise VerdictError(f"{name}: expected shape ({drafts.batch},), got {numbers.shape}")
    return numbers.astype(np.int64)


def tree_conditional_laws(
    verifier: TreeVerifier, drafts: TreeDrafts, *, array: str = "numpy", dtype: str = "float64"
) -> list[ConditionalLaw]:
    """Return the law of the emission after each of the numpy draft trees, run together as one batch.

    As `spec_oracle.exact.conditional.conditional_laws`, whose errors it raises.
    """
    chosen = arithmetic(array=array, dtype=dtype)

    def run(rows: Integers, decisions: ScriptedDecisions) -> Emitted:
        tokens, parents, draft, target = (getattr(drafts, field.name)[rows] for field in fields(drafts))
        places, models = map(chosen.from_numpy, (tokens, parents)), map(chosen.probabilities, (draft, target))
        handed = TreeDrafts(*places, *models)
        node, next_token = checked_tree_verdict(verifier.verify_tree(handed, decisions), handed, chosen)
        ways, lengths = way_to(parents, node)
        accepted = zip(np.take_along_axis(tokens, ways, axis=1).tolist(), lengths.tolist(), strict=True)
        return Emitted([tuple(drafted[:length]) for drafted, length in accepted], next_token)

    numbers = 2 * (drafts.places + 1) * drafts.vocab_size
    return laws_after(run, drafts.tokens, drafts.vocab_size, MOST_NUMBERS // numbers, chosen)


def tree_emission_law(
    verifier: TreeVerifier,
    instance: Instance,
    drafting: TreeDrafting,
    *,
    exact: bool = False,
    array: str = "numpy",
    dtype: str = "float64",
) -> EmissionLaw:
    """Return the law of what one call of ``verifier`` emits on trees of ``drafting``, every outcome run.

    Trees are at most ``instance.draft_length`` tokens deep; emissions are extended to one token more. Nothing
    is taken on trust: every tree is run. Arithmetics and errors as `spec_oracle.exact.emission_law`.

    >>> from spec_oracle.exact.tree_drafting import ShapedTrees, TreeShape
    >>> from verifiers.trees import Siblings
    >>> import verifiers
    >>> toy = Instance.context_free(["1/3", "2/3"], ["2/3", "1/3"], draft_length=2)
    >>> trees = ShapedTrees(TreeShape.fan_out(1, 2), Siblings.TOP)
    >>> law = tree_emission_law(verifiers.tree_rule("nss"), toy, trees, exact=True)
    >>> law.block_efficiency, law.total_variation  # 1 + p(0) + p(0): token 0 is the likeliest of the draft
    (Fraction(5, 3), Fraction(0, 1))
    """
    if isinstance(verifier, str | type) or not callable(getattr(verifier, "verify_tree", None)):
        raise InvalidInputError(
            f"verifier: expected an object with a method verify_tree, got {verifier!r:.80}"
        )
    require_instance_of(instance, "instance", Instance)
    chosen = arithmetic(exact=exact, array=array, dtype=dtype)
    numbers = instance.exact if exact else instance.floats
    table = TreeTable(in_rationals(numbers) if exact else numbers, drafting, chosen)

    def run(rows: Integers, decisions: ScriptedDecisions) -> tuple[Integers, Integers]:
        drafts = table.drafts(rows)
        verdict = verifier.verify_tree(drafts, decisions)
        checked_tree_verdict(verdict, drafts, chosen)
        emitted = chosen.to_numpy(verdict.emitted)
        tau = (emitted >= 0).sum(axis=1) - 1
        emitted = np.pad(emitted, ((0, 0), (0, numbers.draft_length)))
        if (tau > numbers.draft_length).any():
            raise VerdictError(
                f"emitted: {tau.max()} accepted tokens, the trees are {numbers.draft_length} deep"
            )
        return tau, emitted

    masses = masses_of(run, table.law.probability, table.batch_rows, numbers, chosen)
    return EmissionLaw(numbers, tuple(chosen.finish(mass) for mass in masses))
