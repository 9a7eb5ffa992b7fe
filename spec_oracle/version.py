"""Which version of spec-oracle is running."""

from importlib.metadata import PackageNotFoundError, version


def tool_version() -> str:
    """Return the installed version of spec-oracle, "unknown" from a bare source tree."""
    try:
        return version("spec-oracle")
    except PackageNotFoundError:
        return "unknown"
