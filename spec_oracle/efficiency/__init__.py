"""Exact block efficiency of verifiers, beside what any verifier could reach."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from numbers import Rational

from spec_oracle.arrays import Number
from spec_oracle.audit.subjects import named_verifier
from spec_oracle.efficiency.trees import DraftTrees
from spec_oracle.errors import InvalidInputError
from spec_oracle.exact import emission_law
from spec_oracle.notebook import number, table
from spec_oracle.optimum import block_transport_optimum, multi_path_optimum, single_path_optimum
from spec_oracle.threads import raising
from spec_oracle.toy import Instance
from verifiers import Siblings, StatefulVerifier, drafting_of

ROUNDING = 1e-9
"""Total variation that rounding may leave of a lossless verifier; rationals leave none."""


def is_lossless(total_variation: Number) -> bool:
    """Whether a verifier of this total variation is lossless; rationals must be zero."""
    return bool(total_variation <= (0 if isinstance(total_variation, Rational) else ROUNDING))


def marked(name: str, total_variation: Number) -> str:
    """Return the name of a verifier, with a mark behind a lossy one; None is no known total variation.

    >>> marked("token", 1e-17), marked("mine", 0.01)
    ('token', 'mine (lossy)')
    """
    return name if total_variation is None or is_lossless(total_variation) else f"{name} (lossy)"


@dataclass(frozen=True)
class Optima:
    """The most tokens per call on one instance; None where the instance is too large for the program.

    ``multi_path`` and ``block_transport`` (with carry-over) hold for the drafting law of the verifier at
    hand; ``single_path`` for one path drawn from q.
    """

    single_path: Number = None
    multi_path: Number = None
    block_transport: Number = None


@dataclass(frozen=True)
class Efficiency:
    """One verifier on one instance; numbers are floats, or `Fraction` with ``exact``.

    ``block_efficiency`` in tokens per call; ``accepted_length`` P(tau = 0..L); ``optimum`` is the entry of
    ``optima`` that bounds this verifier: with carry-over for those that carry a state. On draft trees it is
    that of any rule on such a ``tree``, and ``optima`` are None. Of a rule that ``carries_state`` they are
    those of its first call.
    """

    file: str
    verifier: str
    block_efficiency: Number
    total_variation: Number
    accepted_length: tuple[Number, ...]
    optima: Optima
    optimum: Number
    tree: DraftTrees | None = None
    carries_state: bool = False

    def __repr__(self) -> str:
        """Return the figures in a line."""
        figures = f"{number(self.block_efficiency)} tokens per call, optimum {number(self.optimum)}"
        return f"<Efficiency: {self.label}, {figures}>"

    def _repr_html_(self) -> str:
        """Return the distribution of the accepted length for a notebook."""
        rows = [(str(length), number(mass)) for length, mass in enumerate(self.accepted_length)]
        return table(repr(self)[1:-1], ("accepted drafts", "probability"), rows)

    @property
    def label(self) -> str:
        """The name of the verifier, with a mark behind a lossy one."""
        return marked(self.verifier, self.total_variation)

    @property
    def share(self) -> Number:
        """Block efficiency as a share of the optimum."""
        return None if self.optimum is None else self.block_efficiency / self.optimum


def efficiencies(
    file: str,
    instance: Instance,
    names: Sequence[str],
    *,
    exact: bool = False,
    array: str = "numpy",
    tree: DraftTrees | None = None,
    note: Callable[[Efficiency], None] = lambda _: None,
) -> list[Efficiency]:
    """Return the exact figures of the named verifiers on one instance; calls ``note(figures)`` after each.

    Names are those of built-in rules, or ``package.module:object``. Drafts are the K paths of the instance,
    or draft trees of the shape ``tree``, whose siblings a rule must accept.

    >>> toy = Instance.context_free(["1/3", "2/3"], ["2/3", "1/3"], draft_length=2)
    >>> for row in efficiencies("toy", toy, ["token", "block"], exact=True):
    ...     print(row.verifier, row.block_efficiency, row.optimum, row.share)
    token 19/9 20/9 19/20
    block 20/9 20/9 1
    """
    optima_of = cache(partial(_optima, instance, exact=exact))
    on_trees = None if tree is None else tree.optimum(instance, exact=exact)
    results = []
    for name in names:
        verifier = named_verifier(name)
        if tree is None:
            with raising():
                law = emission_law(verifier, instance, exact=exact, array=array)
            optima = optima_of(drafting_of(verifier))
            best = optima.block_transport if isinstance(verifier, StatefulVerifier) else optima.multi_path
        else:
            law = tree.law(name, verifier, instance, exact=exact, array=array)
            optima, best = Optima(), on_trees
        figures = law.block_efficiency, law.total_variation, law.accepted_length_pmf
        carries_state = isinstance(verifier, StatefulVerifier)
        results.append(Efficiency(file, name, *figures, optima, best, tree, carries_state))
        note(results[-1])
    return results


def _optima(instance: Instance, drafting: Siblings, *, exact: bool) -> Optima:
    single = single_path_optimum(instance, exact=exact).value
    try:
        multi = multi_path_optimum(instance, drafting=drafting, exact=exact)
        transport = block_transport_optimum(instance, drafting=drafting, exact=exact)
    except InvalidInputError:  # too many draft tuples for an exact program
        return Optima(single)
    return Optima(single, multi.value, transport.value)


@dataclass(frozen=True)
class Sweep:
    """The figures of one verifier while K or L grows: ``at[i]`` paths or tokens give ``points[i]``."""

    verifier: str
    at: tuple[int, ...]
    points: tuple[Efficiency, ...]

    @property
    def label(self) -> str:
        """The name of the verifier, with a mark where it is lossy at any point."""
        return marked(self.verifier, max(point.total_variation for point in self.points))

    @property
    def is_lossless(self) -> bool:
        """Whether the verifier is lossless at every point."""
        return self.label == self.verifier

    @property
    def block_efficiency(self) -> list[float]:
        """Tokens per call."""
        return [float(point.block_efficiency) for point in self.points]

    @property
    def optimum(self) -> list[float]:
        """The most tokens per call; NaN where the instance is too large to know."""
        return [float("nan") if point.optimum is None else float(point.optimum) for point in self.points]


def sweeps(
    instance: Instance, names: Sequence[str], tree: DraftTrees | None = None
) -> dict[str, list[Sweep]]:
    """Sweep the named verifiers over K and L, or over the levels of a ``tree``; by the label of the axis.

    K = 1 .. that of the instance, with its L, and L likewise; a size of 1 is not swept. Raises
    `InvalidInputError` for an instance with one path of one token, and for a tree of one level.
    """
    axes: dict[str, tuple[int, Callable[[int], list[Efficiency]]]]
    if tree is None:
        axes = {
            f"draft paths K  (L = {instance.draft_length})": (
                instance.num_paths,
                lambda paths: efficiencies("", instance.with_paths(paths), names),
            ),
            f"draft length L  (K = {instance.num_paths})": (
                instance.draft_length,
                lambda length: efficiencies("", replace(instance, draft_length=length), names),
            ),
        }
    else:
        axes = {
            f"levels of the tree  ({tree.shape})": (
                tree.shape.levels,
                lambda levels: efficiencies("", instance, names, tree=tree.cut(levels)),
            )
        }
    found = {}
    for label, (largest, figures_at) in axes.items():
        at = tuple(range(1, largest + 1))
        if largest > 1:
            points = zip(*map(figures_at, at), strict=True)
            found[label] = [Sweep(name, at, mine) for name, mine in zip(names, points, strict=True)]
    if not found:
        one = "instance: one path of one token" if tree is None else "tree: one level"
        raise InvalidInputError(f"{one} leaves nothing to sweep")
    return found
