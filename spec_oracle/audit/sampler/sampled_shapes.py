"""Samples of `shapes`: of code that was traced, at some of these shapes, or else at small and large shapes.

At full vocabularies (`large`) tokens are counted by the cells of the check `scale`.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

import numpy as np

from spec_oracle.arrays import Integers
from spec_oracle.audit import effort
from spec_oracle.audit.context import Context
from spec_oracle.audit.covering import design
from spec_oracle.audit.draws import affordable, too_slow
from spec_oracle.audit.experiment import Experiment, numbered, sampled
from spec_oracle.audit.results import CheckResult, Status, inconclusive, passed, remarked
from spec_oracle.audit.sampler.at_shapes import MAY_REFUSE_IDS
from spec_oracle.audit.sampler.scale import Tokens
from spec_oracle.audit.sampler.subject import SamplerSubject
from spec_oracle.audit.sampling import Effort, in_bins
from spec_oracle.audit.shapes.axes import AXES, IDS
from spec_oracle.audit.shapes.cells import TreeCells, chances_of, likely_drafts
from spec_oracle.audit.shapes.trees import Place, Shape
from spec_oracle.audit.shapes.tried import TriedInTurn, short
from spec_oracle.contracts import Emissions, SamplerCode, SubjectRaisedError
from spec_oracle.statistics import draws_needed_by_g, split

SHAPES_SAMPLED_SHARE: Final = 0.15  # Share of the time of `shapes` for samples, where code can be traced.
SHAPES_MOST_REQUESTS: Final = 60_000  # Samples at all shapes.
SHAPES_REQUESTS: Final = 2_000  # Samples at one shape, at least, as long as there are enough for one.
SHAPES_LEAST_SAMPLES: Final = 500  # Samples without which a shape does not count as tried.
# Shapes that are sampled: those of the fewest numbers, which make for the most samples.
SHAPES_MOST_SAMPLED: Final = 12
SHAPES_LARGE: Final = 4  # Of these, shapes up to the largest.
SHAPES_ROUNDS: Final = 4  # Looks at the samples.
SHAPES_SAMPLED_VOCABULARY: Final = 1_000  # Tokens up to which code that cannot be traced is sampled there.
# TV of a token that samples must detect at full vocabularies where code cannot be traced.
LARGE_TV: Final = 0.17
LARGE_BATCH: Final = 32  # Tokens between two looks of the screening there.

FULL: Final = (Shape(32_769, 16, dtype="float32"), Shape(131_072, 10, dtype="float32"))
"""Vocabularies of 16,000 tokens and more: in smaller ones some of the cells may have no token at all."""


_MOST_NUMBERS: Final = 1_000_000
"""Most probabilities in one call that takes samples."""


def by_samples(
    subject: SamplerSubject, context: Context, tried: TriedInTurn[Place], pace: float
) -> CheckResult:
    """Sample code at some shapes, of which it verifies so many requests a second.

    Where nothing was traced also at full vocabularies, with half the rate.
    """
    seconds = context.shape_seconds * (SHAPES_SAMPLED_SHARE if tried.traced else 1.0)
    requests = min(pace * seconds, SHAPES_MOST_REQUESTS)
    if tried.traced:
        return sampled_shapes(subject, context, tried, requests, seconds)
    if requests < SHAPES_REQUESTS:
        raise too_slow(subject, context, SHAPES_REQUESTS, context.shapes.share)
    half = replace(context, rate=context.rate / 2)
    small = sampled_shapes(subject, half, tried, requests, seconds)
    if small.status is not Status.PASSED:
        return small
    found, shapes_of = large(subject, context, context.rate / 2)
    tried.sampled += shapes_of
    detail = "; ".join(filter(None, (found.detail, small.detail)))
    measured = replace(found.measured, draws=small.measured.draws + found.measured.draws)
    found = remarked(found, scope=small.remarks.scope + found.remarks.scope)
    return replace(found, detail=detail, measured=measured)


def large(subject: SamplerSubject, context: Context, rate: float) -> tuple[CheckResult, Sequence[Shape]]:
    """Judge tokens at every shape that the subject takes; return also the shapes that were sampled enough.

    Inconclusive where a total variation of `LARGE_TV` a token would not be detected.
    """
    code, only = replace(subject.code, dtype="float32"), context.shapes.only
    fits = [s for s in FULL if all(getattr(s, axis) in values for axis, values in only.items())]
    if not fits or context.shapes.most is not None:
        return passed("", alpha=rate), ()
    rest = context.seed, code.generator(context.seed), context.stream("sampler/large")
    places = [(shape, kind) for shape in fits for kind in ("weak", "good")]
    tokens = [Tokens(subject, code, shape, kind, *rest) for shape, kind in places]
    each = [
        one.experiment(f"V {s.vocab_size:,}, L {s.draft_length}, {one.kind} drafts")
        for one in tokens
        for s in [one.shape]
    ]
    part = split(rate / 2, len(each))
    needed = [draws_needed_by_g(LARGE_TV, one.cells.law, alpha=part) for one in each]
    requests = sum(number / one.positions for number, one in zip(needed, tokens, strict=True))
    if requests > affordable(subject, context):
        return inconclusive(f"V 131,072: takes {requests:,.0f} requests; raise --budget", alpha=rate), ()
    enough = Effort(
        LARGE_TV, LARGE_BATCH, turns=effort.SAMPLER_FOLLOW_UPS, most=max(needed), share=context.shapes.share
    )
    what = f"tokens in float32 at V {' and '.join(f'{s.vocab_size:,}' for s in fits)}"
    found = sampled(each, replace(context, rate=rate), enough, what=what)
    return found, fits if found.status is Status.PASSED else ()


def sampled_shapes(
    subject: SamplerSubject, context: Context, tried: TriedInTurn[Place], requests: float, seconds: float
) -> CheckResult:
    """Sample uninstrumented code at some of the shapes that were traced, or else at some of the design.

    About so many ``requests`` are verified, within ``seconds``. Where they have many numbers, few are in a
    call: every shape gets `SHAPES_ROUNDS` calls at least.
    """
    places = {str(place.shape): place for place in _chosen(subject, context, tried, requests)}
    most = int(requests / len(places) / SHAPES_ROUNDS)
    sizes = {
        what: max(1, min(most, _MOST_NUMBERS * place.shape.batch // place.shape.numbers))
        for what, place in places.items()
    }
    rng = context.stream("sampler/shapes/samples")
    each = [_requests(place, subject.code, sizes[what], rng) for what, place in places.items()]
    more = max(requests / sum(sizes.values()) / SHAPES_ROUNDS - 1, 0)
    looks = Effort(math.inf, SHAPES_ROUNDS * most, turns=math.ceil(more * len(places)))
    what = f"completions at {len(places)} input shapes"
    found = sampled(each, replace(context, budget=seconds), looks, what=what)
    if found.status is Status.PASSED:
        least = SHAPES_LEAST_SAMPLES / SHAPES_ROUNDS
        tried.sampled = [place.shape for what, place in places.items() if sizes[what] >= least]
    return found


def _requests(place: Place, code: SamplerCode, size: int, rng: np.random.Generator) -> Experiment:
    """Return the experiment of independent requests of a place, ``size`` in a call; a look is some calls."""
    shape, tree = place.shape, place.tree
    likely, chances, cells = likely_drafts(tree), chances_of(tree), TreeCells(tree)
    handed = replace(code, dtype=shape.dtype, ids=shape.ids, layout=shape.layout)

    def emitted() -> Emissions:
        drafts = likely.take(rng.choice(len(chances), size=size, p=chances))
        return handed(drafts, handed.generator(int(rng.integers(2**31))))

    def many(_: int) -> Integers:
        return np.concatenate([cells.of(emitted(), rng) for _ in range(SHAPES_ROUNDS)])

    return numbered(str(shape), "a completion", cells.law, many, binned=partial(in_bins, cells.law))


def _chosen(
    subject: SamplerSubject, context: Context, tried: TriedInTurn[Place], requests: float
) -> list[Place]:
    """Return small places that were traced and a few large ones, and some that were not traced.

    Where nothing was traced, they are small ones of a design.
    """
    if not (places := _smallest_first([*tried.traced])):
        small = tuple(size for size in AXES["vocab_size"] if size <= SHAPES_SAMPLED_VOCABULARY)
        dtypes = context.shapes.dtypes[:1]
        axes = {"vocab_size": small, "dtype": dtypes, "num_paths": (subject.num_paths,)}
        axes["ids"] = _ids_taken(subject, context, tried, dtypes[0])
        few = design(**{**axes, **context.shapes.only})
        first = [Place(shape, context.seed, subject.drafting) for shape in few.shapes[: few.of_values]]
        places = _smallest_first(first)
    count = int(min(max(requests // SHAPES_REQUESTS, 1), SHAPES_MOST_SAMPLED))
    small_ones = max(count - SHAPES_LARGE, 1)
    not_traced = _smallest_first(tried.not_traced)
    large_ones = _spread(places[small_ones:], count - small_ones)
    return [*places[:small_ones], *large_ones, *_spread(not_traced, SHAPES_MOST_SAMPLED)]


def _ids_taken(
    subject: SamplerSubject, context: Context, tried: TriedInTurn[Place], dtype: str
) -> tuple[str, ...]:
    """Return the types of ids that code which cannot be traced takes, as an ordinary call with each shows."""
    usual: dict[str, Any] = {"vocab_size": 5, "draft_length": 3, "num_paths": subject.num_paths}
    place = Place(Shape(**usual, dtype=dtype, ids=MAY_REFUSE_IDS), context.seed, subject.drafting)
    code = replace(subject.code, dtype=dtype, ids=MAY_REFUSE_IDS)
    try:
        code(likely_drafts(place.tree).take(np.array([0])), code.generator(context.seed))
    except SubjectRaisedError as error:
        tried.left_out[f"ids {MAY_REFUSE_IDS}: {short(error)}"] += 1
        return tuple(ids for ids in IDS if ids != MAY_REFUSE_IDS)
    return IDS


def _smallest_first(places: Sequence[Place]) -> list[Place]:
    """Return the places without optional arguments, by the size of a request.

    Brief ones come last: with one open position, the bonus maybe, they show little.
    """
    plain = (one for one in places if not one.shape.options)
    return sorted(plain, key=lambda one: (one.shape.is_brief, one.shape.numbers // one.shape.batch))


def _spread(places: Sequence[Place], count: int) -> list[Place]:
    """Return at most ``count`` places, the last ones and others evenly before them."""
    steps = np.linspace(len(places) - 1, 0, min(count, len(places)))
    return [places[round(step)] for step in steps.tolist()]
