"""The best block efficiency with one draft path, in closed form."""

import numpy as np

from spec_oracle.exact.rationals import to_fraction
from spec_oracle.optimum.certificates import Optimum, SinglePathCertificate
from spec_oracle.optimum.trees import PrefixTree
from spec_oracle.toy import Instance
from spec_oracle.validation import require_instance_of


def single_path_optimum(instance: Instance, *, exact: bool = False) -> Optimum[SinglePathCertificate]:
    """Return the largest block efficiency, in tokens, of any lossless verifier that looks at one path.

    c(v) = min(c(parent), q(v)/p(v)) with joint probabilities p, q (docs/theory.md, "Budgets and the
    optimum"; attained by block verification, Sun et al., arXiv 2403.10444). A context that the target never
    reaches keeps its parent's budget. ``exact`` makes ``value`` a `Fraction`; the certificate always is in
    rationals, the gap 0. Raises `InvalidInputError` for what is no instance, and for one beyond memory, as
    the other optima do.

    >>> toy = Instance.context_free(["1/3", "2/3"], ["2/3", "1/3"], draft_length=2)
    >>> single_path_optimum(toy, exact=True).value
    Fraction(20, 9)
    """
    numbers = require_instance_of(instance, "instance", Instance).exact
    prefixes = PrefixTree(numbers.vocab_size, numbers.draft_length)
    target, draft = prefixes.joint(numbers.target), prefixes.joint(numbers.draft)
    budgets = np.full_like(target, target[0])
    bottleneck = np.zeros_like(prefixes.parent)
    for node, above in enumerate(prefixes.parent):
        if draft[node] < budgets[above] * target[node]:
            budgets[node], bottleneck[node] = draft[node] / target[node], node
        else:
            budgets[node], bottleneck[node] = budgets[above], bottleneck[above]
    value = to_fraction(target @ budgets)
    certificate = SinglePathCertificate(
        value=value,
        bound=value,
        budgets=prefixes.table(budgets),
        bottlenecks={
            context: prefixes.contexts[node]
            for context, node in zip(prefixes.contexts, bottleneck, strict=True)
        },
    )
    return Optimum(value if exact else float(value), certificate.bound - certificate.value, certificate)
