"""The exact law of what one call of a verifier emits.

Every draft tree is enumerated. For a verifier that walks down the tree, one run for each node is enough:
below a node only the number of paths that pass it matters, so states of different drafts are merged, and each
node is one call of the verifier on drafts of length 1. The serving code is what is enumerated; that it walks
(`Traits.walks`) is taken on trust.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from math import factorial, prod
from typing import Any

import numpy as np

from spec_oracle.arrays import Integers, Number, Numbers
from spec_oracle.errors import InvalidInputError
from spec_oracle.exact.arithmetic import Arithmetic
from spec_oracle.exact.call import (
    BATCH_BYTES,
    DraftTable,
    VerdictError,
    checked_emissions,
    drafting_on,
    enumerated_instance,
    no_mass,
    prepared_call,
    verified_path,
)
from spec_oracle.exact.completions import Gap
from spec_oracle.exact.drafting import Drafting, draft_paths, next_draft_law, require_few_drafts
from spec_oracle.exact.enumeration import OpenToken, ScriptedDecisions, enumerate_branches
from spec_oracle.exact.text import DecodedLaw, decoded_law
from spec_oracle.notebook import number, table
from spec_oracle.toy import Context, Instance
from verifiers import (
    ROOT,
    AnyVerifier,
    Drafts,
    Path,
    Siblings,
    StatefulVerifier,
    Verifier,
    drafting_of,
    traits_of,
)
from verifiers.rows import TableRows


@dataclass(frozen=True)
class EmissionLaw:
    """The joint law of one emission, over drafts and decisions.

    ``masses[n - 1]`` is the mass of each emission of n tokens, flat [V^n] in lexicographic order, n = 1..L+1.
    ``decode`` computes the law of the first L+1 tokens over several calls, for verifiers that carry a state.
    Numbers are float64, or `Fraction` where the law was computed in rationals.
    """

    instance: Instance
    masses: tuple[Numbers, ...]
    decode: Callable[[], DecodedLaw] | None = None

    def __repr__(self) -> str:
        """Return the figures of the law in a line; no total variation that is still to be decoded."""
        size = f"V = {self.instance.vocab_size}, L = {self.instance.draft_length}"
        found = f", total variation {number(self.total_variation)}" if self.decode is None else ""
        return f"<EmissionLaw: {number(self.block_efficiency)} tokens per call{found}; {size}>"

    def _repr_html_(self) -> str:
        """Return the distribution of the accepted length for a notebook."""
        rows = [(str(length), number(mass)) for length, mass in enumerate(self.accepted_length_pmf)]
        return table(repr(self)[1:-1], ("accepted drafts", "probability"), rows)

    @cached_property
    def probabilities(self) -> dict[Context, Number]:
        """The probability of each emission that can occur."""
        vocab = self.instance.vocab_size
        return {
            tuple(int(i) for i in np.unravel_index(index, (vocab,) * length)): mass[index]
            for length, mass in enumerate(self.masses, start=1)
            for index in np.flatnonzero(mass > 0)
        }

    @property
    def accepted_length_pmf(self) -> tuple[Number, ...]:
        """P(tau = 0), ..., P(tau = L)."""
        return tuple(mass.sum() for mass in self.masses)

    @property
    def block_efficiency(self) -> Number:
        """Expected tokens per call, E[tau + 1]."""
        return sum(length * mass for length, mass in enumerate(self.accepted_length_pmf, start=1))

    def extended(self) -> Numbers:
        """Return the law of the first L+1 tokens, shape (V,) * (L+1).

        Emissions are continued by the target; those of a verifier with state by its own next calls, since
        they are owed a modified target.
        """
        return self._text.law.reshape((self.instance.vocab_size,) * len(self.masses))

    @cached_property
    def _text(self) -> DecodedLaw:
        if self.decode is not None:
            return self.decode()
        law, target = self.masses[0], self.instance.target
        for length, mass in enumerate(self.masses[1:], start=1):
            law = (law[:, None] * target.rows(length)).reshape(-1) + mass
        return DecodedLaw(target.vocab_size, len(self.masses), law, target.joint(len(self.masses)))

    @property
    def total_variation(self) -> Number:
        """Half the summed gaps between the extended law and the target; 0 means lossless."""
        return self._text.total_variation

    @property
    def largest_gap(self) -> Gap:
        """The sequence of L+1 tokens with the largest gap between the target and the extended law."""
        return self._text.largest_gap


def emission_law(
    verifier: AnyVerifier,
    instance: Instance,
    *,
    drafting: Siblings | Drafting | None = None,
    exact: bool = False,
    array: str = "numpy",
    dtype: str = "float64",
    merged: bool = True,
    end: float = math.inf,
) -> EmissionLaw:
    """Return the law of what one call of ``verifier`` emits on ``instance``, by running every outcome.

    ``drafting``: a law of siblings, by which the K paths of L tokens of the instance are drawn (None: the one
    that the verifier declares), or trees of any shape, at most L tokens deep (`exact.drafting`). Drafts after
    which the verifier does the same, by what its `verifiers.Traits` declare (``walks``, ``any_order``), are
    run once; ``merged=False`` runs every draft tree and takes nothing on trust. ``exact=True`` computes in
    rationals, where a lossless verifier's total variation is exactly 0. Otherwise ``array`` ("numpy" or
    "torch") and ``dtype`` choose the arithmetic under test; masses are float64. ``end`` is the processor time
    up to which outcomes are run.

    Raises `InvalidInputError` for bad arguments and for traits that are seen to be untrue, `DecisionError` or
    `VerdictError` for code that is no verifier, `TooManyBranchesError` at the ``end``.

    >>> import verifiers
    >>> from spec_oracle.exact.drafting import ShapedTrees, TreeShape
    >>> toy = Instance.context_free(["1/3", "2/3"], ["2/3", "1/3"], draft_length=2)
    >>> law = emission_law(verifiers.get("block"), toy, exact=True)
    >>> law.block_efficiency, law.total_variation
    (Fraction(20, 9), Fraction(0, 1))
    >>> law.accepted_length_pmf
    (Fraction(1, 3), Fraction(1, 9), Fraction(5, 9))
    >>> trees = ShapedTrees(TreeShape.fan_out(1, 2), verifiers.Siblings.TOP)
    >>> law = emission_law(verifiers.get("nss"), toy, drafting=trees, exact=True)
    >>> law.block_efficiency, law.total_variation  # 1 + p(0) + p(0): token 0 is the likeliest of the draft
    (Fraction(5, 3), Fraction(0, 1))
    """
    bound, numbers, chosen = prepared_call(verifier, instance, exact=exact, array=array, dtype=dtype)
    traits, decode = traits_of(verifier), None
    trees = drafting_of(verifier) if drafting is None else drafting
    if isinstance(trees, Siblings):
        numbers = enumerated_instance(verifier, numbers)
    if isinstance(trees, Siblings) and merged and traits.walks and not isinstance(bound, StatefulVerifier):
        masses = walked_masses(bound, trees, numbers, chosen, any_order=traits.any_order)
    else:
        drawn, any_order = drafting_on(numbers, trees), merged and traits.any_order
        table = DraftTable(numbers, drawn, chosen, any_order=any_order, end=end)
        masses = _enumerated_masses(bound, table, numbers, chosen, end)
    if isinstance(verifier, StatefulVerifier):
        run = partial(decoded_law, exact=exact, array=array, dtype=dtype, end=end)
        decode = partial(run, verifier, numbers, numbers.draft_length + 1)
    return EmissionLaw(numbers, tuple(chosen.finish(mass) for mass in masses), decode)


def _enumerated_masses(
    bound: AnyVerifier, table: DraftTable, numbers: Instance, chosen: Arithmetic, end: float
) -> list[Numbers]:
    """Return the mass of each emission of n tokens, flat [V^n], n = 1..L+1, over all drafts of the table.

    The last decision of a rule need not be taken: its chances are read. A rule that looks at the token (to
    walk on, or for a state) is asked for it as before.
    """
    looks = traits_of(bound).walks or isinstance(bound, StatefulVerifier)
    vocab = numbers.vocab_size

    def run(rows: Integers, decisions: ScriptedDecisions) -> tuple[Path, OpenToken | Integers]:
        return verified_path(bound, table.drafts(rows), decisions, chosen)

    masses = no_mass(numbers, table.law.probability)
    how: dict[str, Any] = {"max_rows": table.batch_rows, "arithmetic": chosen, "end": end}
    for branches in enumerate_branches(run, table.law.probability, leave_open=not looks, **how):
        path, following = branches.result
        tokens, tau = chosen.to_numpy(path.tokens), chosen.to_numpy(path.lengths)
        if (tau > numbers.draft_length).any():
            raise VerdictError(f"emitted: {tau.max()} accepted tokens, at most {numbers.draft_length} exist")
        prefix = np.zeros(len(tau), dtype=np.int64)
        for position, mass in enumerate(masses):
            here = tau == position
            weight = branches.weight[here]
            if isinstance(following, OpenToken):
                chances = weight[:, None] * following.chances[here]
                np.add.at(mass.reshape(-1, vocab), prefix[here], chances)
            else:
                np.add.at(mass, prefix[here] * vocab + following[here], weight)
            if position < tokens.shape[1]:
                prefix = prefix * vocab + np.where(tau > position, tokens[:, position], 0)
    return masses


def walked_masses(
    verifier: Verifier, siblings: Siblings, instance: Instance, chosen: Arithmetic, *, any_order: bool
) -> list[Numbers]:
    """Return the mass of each emission of n tokens, flat [V^n], n = 1..L+1, for a verifier that walks.

    All nodes of a depth are run at once; the state of a walk is its node and how many paths pass there.
    ``any_order``: drafts that differ in their order only are run once. Raises `InvalidInputError` where the
    verifier is seen not to walk.
    """
    vocab, length = instance.vocab_size, instance.draft_length
    rows = [chosen.prepare(instance.target.rows(depth)) for depth in range(length + 1)]
    masses = no_mass(instance, rows[0])
    reached = {instance.num_paths: rows[0][:, 0] * 0 + 1}
    steps = partial(node_steps, verifier, siblings, chosen=chosen, any_order=any_order)
    for depth in range(length):
        below = [masses[depth] * 0 for _ in range(instance.num_paths + 1)]
        level = rows[depth], chosen.prepare(instance.draft.rows(depth))
        for paths, mass in reached.items():
            for node, token, count, weight in steps(level, mass, paths):
                child = node * vocab + token
                np.add.at(masses[depth], child[count == 0], weight[count == 0])
                for followers in range(1, paths + 1):
                    here = count == followers
                    np.add.at(below[followers], child[here], weight[here])
        reached = {paths: mass for paths, mass in enumerate(below) if (mass > 0).any()}
    for mass in reached.values():
        masses[length] += (mass[:, None] * rows[length]).reshape(-1)
    return masses


def node_steps(
    verifier: Verifier,
    siblings: Siblings,
    level: tuple[Numbers, Numbers],
    mass: Numbers,
    num_paths: int,
    *,
    chosen: Arithmetic,
    any_order: bool,
) -> Iterator[tuple[Integers, Integers, Integers, Numbers]]:
    """Run the verifier on drafts of one token at every node that ``num_paths`` paths pass.

    ``level`` holds the target's and the draft's rows [N, V] of the nodes, ``mass`` [N] is that of being
    there. Yields, for batches of R branches, [R] each: the node, the emitted token, how many paths go on with
    it, and the weight. Raises `InvalidInputError` as `walked_masses`, and for too many drafts.
    """
    target, draft = level
    node_of, tokens, weight = _drafts_at(draft, mass, num_paths, siblings, any_order=any_order)
    bonus = target[:1] * 0  # what would follow an accepted token: one outcome, so that nothing branches on it
    bonus[:, 0] += 1
    rows_of = [chosen.probabilities(rows) for rows in (draft, np.concatenate([target, bonus]))]

    def run(rows: Integers, decisions: ScriptedDecisions) -> tuple[Integers, Integers]:
        here = node_of[rows][:, None]
        below = np.full((len(rows), num_paths), len(target))
        drafted, in_target, in_draft = (
            chosen.from_numpy(ids)
            for ids in (tokens[rows], np.hstack([here, below]), np.hstack([here, 0 * below]))
        )
        draft_rows, target_rows = TableRows(rows_of[0], in_draft), TableRows(rows_of[1], in_target)
        drafts = Drafts(drafted, 0 * drafted + ROOT, draft_rows, target_rows, num_paths)
        return checked_emissions(verifier.verify(drafts, decisions), drafts, chosen)

    max_rows = max(64, BATCH_BYTES // (24 * num_paths * target.shape[1]))
    for branches in enumerate_branches(run, weight, max_rows=max_rows, arithmetic=chosen):
        tau, emitted = branches.result
        followers = (tokens[branches.rows] == emitted[:, :1]).sum(axis=1)
        if ((tau > 0) != (followers > 0)).any():
            raise InvalidInputError(
                "walks: the verifier stops at a token that a path goes on with; it must not declare walks"
            )
        yield node_of[branches.rows], emitted[:, 0], followers, branches.weight


def _drafts_at(
    rows: Numbers, mass: Numbers, count: int, siblings: Siblings, *, any_order: bool
) -> tuple[Integers, Integers, Numbers]:
    """Return all drafts at nodes of ``mass`` [N]: the node [T], ``count`` tokens [T, count], the mass [T].

    With ``any_order`` independent drafts come once in whatever order, with the mass of all orders.
    """
    sorted_only = any_order and siblings in {Siblings.INDEPENDENT, Siblings.PATHS}
    node = np.flatnonzero(mass > 0)
    tokens, weight = np.zeros((len(node), 0), dtype=np.int64), mass[node]
    for slot in range(count):
        here = np.ones((len(node), count), dtype=bool)
        law = next_draft_law(siblings, rows[node], tokens, here, slot)
        possible = law > 0
        if sorted_only and slot:
            possible = possible & (np.arange(rows.shape[1]) >= tokens[:, -1:])
        draft, token = np.nonzero(possible)
        require_few_drafts(len(draft), rows.shape[1], draft_paths(count, 1, siblings).shape)
        weight = weight[draft] * law[draft, token]
        node, tokens = node[draft], np.column_stack([tokens[draft], token])
    if sorted_only:
        orders = [factorial(count) // prod(map(factorial, np.bincount(row).tolist())) for row in tokens]
        weight = weight * np.array(orders)
    return node, tokens, weight
