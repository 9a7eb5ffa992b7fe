"""Every specimen and control by name, and the specimens that survive."""

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from types import MappingProxyType

from lab.specimens.specimen import REGISTERED, Specimen

_FAMILIES = {
    1: (
        *("chain", "foreign.controls", "foreign.defects", "foreign.torch_batches", "foreign.shapes"),
        "foreign.flat_batches",
        *("inputs", "batching", "drafting", "randomness", "positions", "controls", "coupling", "grids"),
        *(
            "engine_paths",
            "call_patterns",
            "rounded",
            "reported",
            "sessions",
            "cached_defects",
            "untried",
            "watched",
            "sharing",
            "unseen",
            "recurrent",
            "long_texts",
            "ragged",
            "mixed",
            "corners",
            "trees",
            "tree_samplers",
            "surviving",
        ),
    ),
    2: ("multipath", "foreign.paths", "foreign.shapes"),
}
"""Modules whose import registers specimens, by the number of paths that these need."""

_NEEDS = {
    "foreign.torch_batches": "torch",
    "foreign.flat_batches": "torch",
    "cached_defects": "transformers",
}
"""What must be installed for some of them."""


@cache
def specimens(*, num_paths: int = 1) -> Mapping[str, Specimen]:
    """Return the specimens that need ``num_paths`` paths, 1 or 2, by name, of those that can run here.

    Those that an audit at its defaults does not find are not among them: see `survivors`.
    """
    return MappingProxyType({n: s for n, s in _registered(num_paths).items() if not s.survives})


@cache
def survivors() -> Mapping[str, Specimen]:
    """Return the specimens that an audit at its defaults does not find, by name, sorted."""
    found = {**_registered(1), **_registered(2)}
    return MappingProxyType({name: s for name, s in sorted(found.items()) if s.survives})


def _registered(num_paths: int) -> Mapping[str, Specimen]:
    for family in _FAMILIES[num_paths]:
        if family not in _NEEDS or find_spec(_NEEDS[family]) is not None:
            import_module(f"lab.specimens.{family}")
    return {name: s for name, s in REGISTERED.items() if s.num_paths == num_paths}
