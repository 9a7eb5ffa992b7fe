"""What is installed: the version of spec-oracle, and whether `verifiers` is the package that comes with it.

PyPI has another package of that name.
"""

import sys
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

MARK = '__distribution__ = "spec-oracle"'


class ForeignVerifiersError(ImportError):
    """`verifiers` is missing, belongs to another distribution, or was overwritten by one."""


def require_own_verifiers() -> None:
    """Raise `ForeignVerifiersError` unless `verifiers` is ours; a foreign one is read, never imported."""
    loaded = sys.modules.get("verifiers")
    spec = find_spec("verifiers") if loaded is None else loaded.__spec__
    origin = None if spec is None else spec.origin
    if origin is None or MARK not in Path(origin).read_text(encoding="utf-8"):
        raise ForeignVerifiersError(
            f"verifiers: found {origin or 'none'}, not the package that comes with spec-oracle; "
            "install spec-oracle into an environment of its own (another package on PyPI has this name)"
        )


def tool_version() -> str:
    """Return the installed version of spec-oracle, "unknown" from a bare source tree."""
    try:
        return version("spec-oracle")
    except PackageNotFoundError:
        return "unknown"
