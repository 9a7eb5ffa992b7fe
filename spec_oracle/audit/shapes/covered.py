"""What came of the shapes that were tried."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from spec_oracle.audit.results import Cover
from spec_oracle.audit.shapes.axes import AXES, Shape
from spec_oracle.audit.shapes.judging import Judged
from spec_oracle.exact.draft_tree import DraftTree


@dataclass
class Covered:
    """What was tried: the shapes that were judged, and what was not, by reason.

    Right after all drafts are ``small`` shapes, wrong ``small_wrong``; ``drawn`` were drawn from; ``refused``
    have a form that the code does not take.
    """

    shapes: list[Judged] = field(default_factory=list)
    small: list[Shape] = field(default_factory=list)
    small_wrong: list[Shape] = field(default_factory=list)
    drawn: list[Shape] = field(default_factory=list)
    refused: list[Shape] = field(default_factory=list)
    not_followed: list[tuple[Shape, DraftTree]] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)

    @property
    def lossy(self) -> Judged | None:
        """The shape with the largest distance, if that is a defect."""
        wrong = [shape for shape in self.shapes if shape.is_lossy]
        return max(wrong, key=lambda shape: shape.total_variation, default=None)

    @property
    def scope(self) -> tuple[str, ...]:
        """Lines that say at which shapes the law was found."""
        axes = {name: {getattr(one.shape, name) for one in self.shapes} for name in AXES}
        vocab, length, paths, batch = (
            _range(axes[name]) for name in ("vocab_size", "draft_length", "num_paths", "batch")
        )
        forms = "; ".join(", ".join(sorted(axes[name])) for name in ("dtype", "ids", "layout"))
        assumed = max(one.assumed for one in self.shapes)
        law = (
            f"law at {len(self.shapes)} shapes, proven after {sum(one.drafts for one in self.shapes)} "
            f"drafts: V {vocab}, L {length}, K {paths}; requests in batches of {batch}; {forms}; rows "
            f"{', '.join(sorted(axes['kind']))}"
        )
        few = (
            "of tokens that the code looks at few are run: the others, at a shape up to "
            f"{assumed:.0%} of the probability, are taken to come out as these"
        )
        left_out = (f"not covered at {count} shapes: {reason}" for reason, count in self.left_out.items())
        sizes = "; ".join(f"V {s.vocab_size}, L {s.draft_length}, K {s.num_paths}" for s in self.small)
        small = f"law of all emissions after all drafts: {sizes}"
        return (law, *([small] if self.small else []), *([few] if assumed else []), *left_out)

    @property
    def coverage(self) -> dict[str, dict[str, Cover]]:
        """What is known at each value of each axis; the worst, if that is a defect, else the best."""
        known = {
            Cover.NOT_FOLLOWED: [*self.refused, *(shape for shape, _ in self.not_followed)],
            Cover.DRAWN: self.drawn,
            Cover.PROVEN: [*(one.shape for one in self.shapes if not one.is_lossy), *self.small],
            Cover.WRONG: [*(one.shape for one in self.shapes if one.is_lossy), *self.small_wrong],
        }
        coverage = {}
        for axis, values in AXES.items():
            found = dict.fromkeys(values, Cover.UNTRIED)
            for cover, shapes in known.items():
                found.update({getattr(shape, axis): cover for shape in shapes})
            listed = found if isinstance(values[0], str) else sorted(found)
            coverage[axis] = {str(value): found[value] for value in listed}
        return coverage


def _range(values: set[Any]) -> str:
    return f"{min(values)} to {max(values)} ({len(values)} sizes)" if len(values) > 1 else str(*values)
