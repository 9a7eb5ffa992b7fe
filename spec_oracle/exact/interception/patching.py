"""Replace attributes of a module for a while."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any


@contextmanager
def patched(module: Any, replacements: Mapping[str, Any]) -> Iterator[None]:
    """Set the attributes of ``module`` and put the old ones back at the end, whatever happens."""
    originals = {name: getattr(module, name) for name in replacements}
    try:
        for name, replacement in replacements.items():
            setattr(module, name, replacement)
        yield
    finally:
        for name, original in originals.items():
            setattr(module, name, original)
