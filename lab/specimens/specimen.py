"""What a specimen is, one defect or one control, isolated; and how it is registered.

    @specimen("A6", "joint", function=per_request)
    def last_draft_unverified(x, q, p, rng):
        '''Stop testing before the last draft.'''

registers ``last-draft-unverified``: number A6 of the catalogue, which `joint` must find, a function of the
sampler contract that `per_request` makes of the decorated part. The docstring's first line says what the
defect is. `lab.specimens.registry.specimens` returns what is registered.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import verifiers
from lab.specimens.catalogue import CONTROL, MUTANT, catalogue, known_checks
from spec_oracle.audit.context import COUNTED
from spec_oracle.contracts import SamplerFunction
from spec_oracle.contracts.engine import Engine
from spec_oracle.errors import InvalidInputError
from verifiers import AnyVerifier

Part = TypeVar("Part", bound=Callable[..., Any])

EXACT: Final = "exact"
"""What detects a defect too small for draws: proof only."""

KINDS: Final = ("rule", "function", "engine", "tree_sampler")


@dataclass(frozen=True)
class Specimen:
    """A known-faulty rule, function, tree sampler or engine, or a control that looks faulty.

    Exactly one of ``rule`` (enumerable), ``function`` (sampler contract), ``tree_sampler``, an object with a
    method ``verify_tree``, and ``engine``, which makes engines by name, such as one for each toy model, is
    given. ``catalogue_id`` is a number of the catalogue; without
    one a defect is a "mutant", lossless code a "control". ``detected_by`` are checks that must find the
    defect, or "exact"; none for a control. ``declared`` is the name of the declared rule, ``array`` what a
    function takes, ``dtypes`` the types of rows that count; with fewer than ``num_paths`` paths nothing
    shows. ``beside`` are checks that may fail it for another reason, such as `streams` a generator of its own
    that ignores seeds: what they say does not count.
    Raises `InvalidInputError` for anything else.
    """

    name: str
    catalogue_id: str
    defect: str
    detected_by: tuple[str, ...] = ()
    rule: AnyVerifier | None = None
    function: SamplerFunction | None = None
    engine: Callable[[], Mapping[str, Engine]] | None = None
    tree_sampler: Any = None
    array: str = "numpy"
    declared: str | None = None
    num_paths: int = 1
    dtypes: tuple[str, ...] = COUNTED
    beside: tuple[str, ...] = ()
    survives: str = ""
    found_with: str = ""

    def __post_init__(self) -> None:
        given = [kind for kind in KINDS if getattr(self, kind) is not None]
        if len(given) != 1:
            self._refuse(", ".join(KINDS), given, "expected exactly one of them")
        if self.catalogue_id not in {CONTROL, MUTANT, *catalogue()}:
            self._refuse("catalogue_id", self.catalogue_id, "not in the catalogue")
        if strangers := {*self.detected_by, *self.beside} - known_checks() - {EXACT}:
            self._refuse(
                "detected_by", sorted(strangers), f"known ones are {sorted(known_checks())} and {EXACT!r}"
            )
        if self.is_control != (self.catalogue_id == CONTROL or self.catalogue_id.startswith("N")):
            self._refuse(
                "detected_by",
                self.detected_by,
                f"a control has none, a defect some; it is {self.catalogue_id}",
            )
        if self.survives and self.detected_by:
            self._refuse("survives", self.survives, f"it is detected by {', '.join(self.detected_by)}")
        entry = catalogue().get(self.catalogue_id)
        if self.survives and entry is not None and entry.origin != "ours":
            why = (
                f"{self.catalogue_id} is of a public report and must be found; a variant of ours is a mutant"
            )
            self._refuse("survives", self.survives, why)
        if self.found_with and not self.survives:
            self._refuse("found_with", self.found_with, "only a defect that survives needs options")
        if self.array not in {"numpy", "torch"}:
            self._refuse("array", self.array, "expected 'numpy' or 'torch'")
        if self.declared is not None and self.declared not in verifiers.names():
            self._refuse("declared", self.declared, f"known ones are {', '.join(verifiers.names())}")
        if self.num_paths < 1:
            self._refuse("num_paths", self.num_paths, "expected at least 1")

    def _refuse(self, field: str, value: object, why: str) -> None:
        raise InvalidInputError(f"{field}: {value!r} of specimen {self.name!r}; {why}")

    @property
    def is_control(self) -> bool:
        """Whether it is lossless, and no check may fail it, besides those ``beside``."""
        return not (self.detected_by or self.survives)

    @property
    def kind(self) -> str:
        """Return one of `KINDS`."""
        return next(kind for kind in KINDS if getattr(self, kind) is not None)

    @property
    def source(self) -> str:
        """The public thread of the defect, or "mutant" where it has none."""
        entry = catalogue().get(self.catalogue_id)
        return entry.links[0] if entry is not None and entry.links else MUTANT


REGISTERED: Final[dict[str, Specimen]] = {}
"""What `specimen` has registered so far, by name."""


def specimen(catalogue_id: str, *detected_by: str, prefix: str = "", **fields: Any) -> Callable[[Part], Part]:
    """Register the specimen made of the decorated part, which stays what it is.

    ``fields`` are those of `Specimen`; the one of `KINDS` among them makes the subject of the part. The
    part's name, after ``prefix`` and with dashes, names the specimen. Raises `InvalidInputError` for a name
    that is there already.
    """

    def register(part: Part) -> Part:
        said = (part.__doc__ or "").strip().partition("\n")[0]
        _register(prefix + part.__name__, catalogue_id, said.rstrip("."), part, detected_by, fields)
        return part

    return register


def specimens_of(*detected_by: str, **fields: Any) -> Callable[..., None]:
    """Return what registers parts of one expression as `specimen` does: ``name=("A1: what is wrong", part)``.

    The number before the colon is that of the catalogue.
    """

    def register(**parts: tuple[str, Callable[..., Any]]) -> None:
        for name, (said, part) in parts.items():
            catalogue_id, _, defect = said.partition(": ")
            _register(name, catalogue_id, defect, part, detected_by, fields)

    return register


def _register(  # noqa: PLR0917
    name: str, catalogue_id: str, defect: str, part: Any, detected_by: tuple[str, ...], fields: dict[str, Any]
) -> None:
    made_of = {field: value(part) if field in KINDS else value for field, value in fields.items()}
    made = Specimen(name.replace("_", "-"), catalogue_id, defect, detected_by, **made_of)
    if made.name in REGISTERED:
        raise InvalidInputError(f"specimen: {made.name!r} is there twice")
    REGISTERED[made.name] = made


def itself(part: Part) -> Part:
    """Return the part: it is the subject as it stands."""
    return part
