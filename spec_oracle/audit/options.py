"""How to audit, validated once."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from math import inf
from pathlib import Path
from typing import Final

from spec_oracle.audit.checks import CHECKS
from spec_oracle.audit.context import COUNTED, Context, Inputs, ShapeLimits
from spec_oracle.audit.saved_inputs import FailingInputs
from spec_oracle.audit.shapes.axes import IDS, LAYOUTS, NAMES, TYPES
from spec_oracle.contracts.sampler import LIBRARIES
from spec_oracle.errors import InvalidInputError, not_installed, unknown
from spec_oracle.statistics import DEFAULT_ALPHA
from spec_oracle.toy import Instance
from spec_oracle.toy.instance import MOST_PATHS
from spec_oracle.validation import is_real, is_whole, require_rate

SHAPES_FEW: Final = 1 / 3  # Part of a run from which on a subject has all of that share.
SHAPES_SHARE_OF_MANY: Final = 0.4  # Share in an audit of more, times a subject's part.
SHAPES_LEAST_PART: Final = 0.05  # That much of it is left to each of many subjects.

TINY = 1e-9
"""A size that admits nothing: with it a run says which size it found."""


def require_sizes(expected: Iterable[str], at_most: Mapping[str, float]) -> None:
    """Raise `InvalidInputError` unless checks that compare with the target have a size, and no others do.

    ``expected`` are checks whose failure is on record.
    """
    for check in expected:
        if CHECKS[check].against_law and check not in at_most:
            raise InvalidInputError(
                f"expected: {check!r} compares with the target: at_most needs the largest total variation "
                f"that is expected of it, in (0, 1]; with {TINY:g} the report says what was found"
            )
    for check, most in at_most.items():
        if check not in CHECKS or not CHECKS[check].against_law or check not in expected:
            raise InvalidInputError(
                f"at_most: {check!r} is no expected failure that compares with the target"
            )
        if not (is_real(most) and 0 < most <= 1):
            raise InvalidInputError(f"at_most: expected a total variation in (0, 1], got {most!r}")


SIZES: Final = {
    "vocabularies": (2, 1_000_000),
    "lengths": (1, 256),
    "batches": (1, 10_000),
    "paths": (1, 64),
}
"""Options that list sizes which a sampler takes: the least and the largest that can be tried."""

_LIMITS: Final = {
    "vocab_size": (1, inf),
    "draft_length": (1, inf),
    "num_paths": (1, MOST_PATHS),
    "tokens": (1, 10_000),
    "seed": (0, inf),
}

SEVERAL: Final = (*SIZES, "layouts", "ids", "dtypes", "prompts")
"""Options of several values, of which each counts once."""


@dataclass(frozen=True)
class AuditOptions:
    """How to audit: the size of the toy instances, error rate, time and arithmetic.

    ``num_paths`` None stands for two paths, and for one where a subject takes only one. ``alpha`` is the
    false-alarm rate of the whole run; ``budget`` seconds for each check that draws; ``instances`` replace the
    built-in panel; ``dtypes`` are the types of rows in which a difference counts, the last one where others
    are wrong; ``vocabularies``, ``lengths`` of drafts, ``batches``, ``paths``, ``layouts`` and types of
    ``ids`` are all that a sampler is declared to take, if given: `shapes` tries no others; ``tokens`` is how
    long the texts of engines are, None for as long as is cheap, ``prompts``
    replace their own; ``checks`` names those to run besides `joint`, None stands for all; ``skip`` those to
    leave out and ``expected`` those that fail, each with the reason; ``at_most`` is the largest total
    variation that is expected of those that compare with the target; ``counterexamples`` is the folder for
    the inputs of failed checks, None to save nothing; ``shrink`` asks for the smallest ones;
    ``assume_speculating``: the user knows that an engine drafts, though nothing shows it; ``again`` are saved
    inputs of a failed check, on which only that check is run.
    Raises `InvalidInputError` for values that make no sense.
    """

    vocab_size: int = 3
    draft_length: int = 3
    num_paths: int | None = None
    seed: int = 0
    alpha: float = DEFAULT_ALPHA
    budget: float = 60.0
    exact: bool = False
    array: str = "numpy"
    device: str = "cpu"
    dtypes: Collection[str] = COUNTED
    vocabularies: Collection[int] = ()
    lengths: Collection[int] = ()
    batches: Collection[int] = ()
    paths: Collection[int] = ()
    layouts: Collection[str] = ()
    ids: Collection[str] = ()
    instances: Mapping[str, Instance] | None = None
    tokens: int | None = None
    prompts: tuple[tuple[int, ...], ...] = ()
    checks: Collection[str] | None = None
    skip: Mapping[str, str] = field(default_factory=dict)
    expected: Mapping[str, str] = field(default_factory=dict)
    at_most: Mapping[str, float] = field(default_factory=dict)
    counterexamples: Path | None = None
    shrink: bool = True
    assume_speculating: bool = False
    again: FailingInputs | None = None

    def __post_init__(self) -> None:
        require_rate(self.alpha, "alpha")
        _require_within(_LIMITS, {name: (getattr(self, name),) for name in _LIMITS})
        if not self.budget > 0:
            raise InvalidInputError(f"budget: expected a positive number of seconds, got {self.budget}")
        if self.array not in LIBRARIES:
            raise InvalidInputError(f"array: expected one of {', '.join(LIBRARIES)}, got {self.array!r}")
        if self.array == "torch" and find_spec("torch") is None:
            raise InvalidInputError(f"array: {not_installed('torch', 'torch')}")
        if self.exact and self.array != "numpy":
            raise InvalidInputError(f"exact: rationals need array='numpy', got {self.array!r}")
        if self.device != "cpu" and self.array != "torch":
            raise InvalidInputError(f"device: {self.device!r} needs array='torch', got {self.array!r}")
        if not all(self.prompts):
            raise InvalidInputError("prompts: expected at least one token each, got none")
        if self.instances is not None and not self.instances:
            raise InvalidInputError("instances: expected at least one, got none")
        _require_within(SIZES, {name: getattr(self, name) for name in SIZES})
        listed = dict.fromkeys(("checks", "skip", "expected"), (CHECKS, "check"))
        forms = {"dtypes": (TYPES, "type"), "layouts": (LAYOUTS, "layout"), "ids": (IDS, "type of ids")}
        for field_name, (known, what) in {**listed, **forms}.items():
            for given in getattr(self, field_name) or ():
                if not isinstance(given, str) or given not in known:
                    raise InvalidInputError(f"{field_name}: {unknown(str(given), known, what)}")
        for field_name in SEVERAL:
            object.__setattr__(self, field_name, tuple(dict.fromkeys(getattr(self, field_name))))
        require_sizes(self.expected, self.at_most)

    def reason_to_skip(self, check: str) -> str:
        """Return why the user left a check out; "" where it is wanted."""
        if self.again is not None:
            return "" if check == self.again.check else "only the saved inputs of one check are run"
        if check in self.skip:
            return self.skip[check] or "as asked"
        if self.instances is not None and check not in ("joint", "length"):
            return "on given instances only the law of one call is judged"
        return "" if self.checks is None or check in {*self.checks, "joint"} else "not asked for"

    def context(self, alpha: float) -> Context:
        """Return where the checks of one subject are run, at the rate ``alpha`` for all of them."""
        only = {axis: tuple(given) for axis, name in NAMES.items() if (given := getattr(self, name))}
        part, share = alpha / self.alpha, ShapeLimits().share
        if part < SHAPES_FEW:  # the more subjects a run has, the less
            share = SHAPES_SHARE_OF_MANY * max(part, SHAPES_LEAST_PART)
        return Context(
            self.seed,
            self.budget,
            alpha,
            inputs=Inputs(self.vocab_size, self.draft_length, self.instances, self.tokens, self.prompts),
            shapes=ShapeLimits(tuple(self.dtypes) or COUNTED, only, share),
            exact=self.exact,
            shrink=self.shrink,
            again=self.again,
        )

    def to_reproduce(self) -> list[str]:
        """Return the command-line options on which what is found depends."""
        usual = AuditOptions()
        words = ["--exact"] * self.exact
        for name in ("array", "device", "vocab_size", "draft_length", "num_paths", "seed", "alpha", "budget"):
            value = getattr(self, name)
            if value != getattr(usual, name):
                words += [f"--{name.replace('_', '-')}", str(value)]
        return words


def _require_within(
    limits: Mapping[str, tuple[int, float]], given: Mapping[str, Collection[float | None]]
) -> None:
    """Raise `InvalidInputError` for what is no whole number within the limits of its option; None is."""
    for name, (least, most) in limits.items():
        for value in given[name]:
            if value is None:
                continue
            if not is_whole(value) or value < least:
                raise InvalidInputError(f"{name}: expected at least {least}, got {value!r}")
            if value > most:
                raise InvalidInputError(f"{name}: expected at most {most:,}, got {value!r}")


_MOST_MEMORY: Final = 2**33
"""GiB that an operating system can be asked for."""


@dataclass(frozen=True)
class Isolation:
    """``jobs`` processes at a time, each for ``timeout`` seconds and ``memory`` GiB at most (None: any).

    ``cache`` is a folder where lossless results are kept, and found again while they are still true.
    """

    jobs: int = 1
    timeout: float = 900.0
    memory: float | None = None
    cache: Path | None = None

    def __post_init__(self) -> None:
        if self.jobs < 1:
            raise InvalidInputError(f"jobs: expected at least 1, got {self.jobs}")
        if not self.timeout > 0:
            raise InvalidInputError(f"timeout: expected a positive number of seconds, got {self.timeout}")
        if self.memory is not None and not 0 < self.memory < _MOST_MEMORY:
            limit = f"a positive number of GiB below {_MOST_MEMORY:,} (leave it out for no limit)"
            raise InvalidInputError(f"memory: expected {limit}, got {self.memory}")
