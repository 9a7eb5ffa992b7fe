"""The best block efficiency over K draft paths, without and with carry-over."""

import numpy as np

from spec_oracle.exact.rationals import to_fraction
from spec_oracle.optimum.certificates import Optimum, TransportCertificate
from spec_oracle.optimum.cutting_planes import best_budgets
from spec_oracle.optimum.trees import PrefixTree, checked_problem, draft_trees
from spec_oracle.toy import Instance
from verifiers import Drafting


def multi_path_optimum(
    instance: Instance, *, drafting: Drafting = Drafting.INDEPENDENT, exact: bool = False
) -> Optimum[TransportCertificate]:
    """Return the largest block efficiency, in tokens, of any lossless verifier of ``instance``.

    Budgets fall along every path, c(vx) <= c(v) (Thomas & Pal, arXiv 2602.16961, theorem 3.3), and the stop
    masses must be carried by the draft trees of ``drafting``. The linear program is solved in rationals, so
    the gap is 0; ``exact`` only says whether ``value`` is a float or a `Fraction`. Raises
    `InvalidInputError` for instances with too many draft tuples.

    >>> toy = Instance.context_free(["1/3", "2/3"], ["2/3", "1/3"], draft_length=1, num_paths=2)
    >>> multi_path_optimum(toy, exact=True).value
    Fraction(17, 9)
    """
    return _transport_optimum(instance, drafting, carry_over=False, exact=exact)


def block_transport_optimum(
    instance: Instance, *, drafting: Drafting = Drafting.INDEPENDENT, exact: bool = False
) -> Optimum[TransportCertificate]:
    """Return the largest block efficiency, in tokens, of a verifier that may carry over a modified target.

    A verifier that may modify the target of the rest of the block has budgets c(v) <= 1 that need not fall
    along a path (docs/theory.md, "Budgets and the optimum"); stop masses, trees, gap and errors as in
    `multi_path_optimum`.
    """
    return _transport_optimum(instance, drafting, carry_over=True, exact=exact)


def _transport_optimum(
    instance: Instance, drafting: Drafting, *, carry_over: bool, exact: bool
) -> Optimum[TransportCertificate]:
    numbers = checked_problem(instance, drafting).exact
    prefixes = PrefixTree(numbers.vocab_size, numbers.draft_length)
    trees = draft_trees(numbers, drafting)
    target = prefixes.joint(numbers.target)
    ceiling = np.zeros_like(prefixes.parent) if carry_over else prefixes.parent
    best = best_budgets(target, prefixes.parent, ceiling, trees)
    # By strong duality the potentials prove just this value; the checker finds out for itself.
    value = to_fraction(target @ best.budgets)
    certificate = TransportCertificate(
        drafting=drafting,
        carry_over=carry_over,
        value=value,
        bound=value,
        budgets=prefixes.table(best.budgets),
        stops={
            paths: {prefixes.contexts[node]: mass for node, mass in zip(nodes, masses, strict=True) if mass}
            for paths, nodes, masses in zip(trees.paths, trees.nodes, best.stops, strict=True)
        },
        potentials=prefixes.table(best.potentials),
    )
    return Optimum(value if exact else float(value), certificate.bound - certificate.value, certificate)
