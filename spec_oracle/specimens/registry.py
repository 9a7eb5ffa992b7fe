"""Every specimen and control by name."""

from collections.abc import Iterable, Mapping
from functools import cache
from importlib.util import find_spec
from types import MappingProxyType

from spec_oracle.specimens.batching import BATCHING
from spec_oracle.specimens.chain import CORRECT, FAULTY
from spec_oracle.specimens.controls import CONTROLS
from spec_oracle.specimens.drafting import DRAFTING
from spec_oracle.specimens.foreign import FOREIGN, ForeignSpecimen, torch_specimens
from spec_oracle.specimens.inputs import INPUTS
from spec_oracle.specimens.positions import POSITIONS
from spec_oracle.specimens.randomness import RANDOMNESS
from spec_oracle.specimens.sources import source_of
from spec_oracle.specimens.specimen import EXACT_ONLY, JOINT, Specimen

_CATALOGUE_NUMBERS = {"recycled_uniform": "N9", "sample_and_match": "N2", "point_mass": "N8"}
"""Controls of `spec_oracle.specimens.foreign` that the catalogue lists by number."""

_RULES = {
    "sample_and_match": "sample_and_match",
    "point_mass": "sample_and_match",
    "block_rule": "block",
}
"""What the controls of `spec_oracle.specimens.foreign` declare; the others declare the token rule."""

_BELOW_SAMPLING = {"epsilon-in-ratio", "epsilon_in_ratio"}
"""Defects of total variation 4e-4: draws would have to be counted in hundreds of millions."""


@cache
def specimens() -> Mapping[str, Specimen]:
    """Return all specimens by name, those on torch tensors where torch is installed."""
    found: dict[str, Specimen] = {}
    for specimen in _all():
        if specimen.name in found:
            raise AssertionError(f"specimen {specimen.name!r} is there twice")
        found[specimen.name] = specimen
    return MappingProxyType(found)


def _all() -> Iterable[Specimen]:
    yield from _of_chain()
    yield from (_of_foreign(name, foreign) for name, foreign in FOREIGN.items())
    if find_spec("torch") is not None:
        # One of them reads every decision in a Python loop: too slow to be sampled.
        fast = {name: s for name, s in torch_specimens().items() if name != "distributions_loop"}
        yield from (_of_foreign(f"torch-{name}", foreign) for name, foreign in fast.items())
    for family in (INPUTS, BATCHING, DRAFTING, RANDOMNESS, POSITIONS, CONTROLS):
        yield from family


def _of_chain() -> Iterable[Specimen]:
    for name, verifier in CORRECT.items():
        yield Specimen(f"chain-{name}", "control", "mutant", f"{name} verification", (), verifier, rule=name)
    for name, (zoo_id, verifier) in FAULTY.items():
        defect = name.replace("-", " ")
        killers = EXACT_ONLY if name in _BELOW_SAMPLING else JOINT
        yield Specimen(f"chain-{name}", zoo_id, source_of(zoo_id), defect, killers, verifier)


def _of_foreign(name: str, foreign: ForeignSpecimen) -> Specimen:
    zoo_id = _CATALOGUE_NUMBERS.get(name, foreign.zoo_id)
    killers = EXACT_ONLY if name in _BELOW_SAMPLING else JOINT
    defect = (foreign.verify.__doc__ or name).strip().partition("\n")[0].rstrip(".")
    return Specimen(
        name.replace("_", "-"),
        zoo_id,
        source_of(zoo_id),
        defect,
        () if foreign.lossless else killers,
        function=foreign.verify,
        array=foreign.array,
        rule=_RULES.get(name, "token") if foreign.lossless else None,
    )
