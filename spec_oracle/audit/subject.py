"""What every subject of an audit has, whatever its kind."""

from typing import Protocol, runtime_checkable

from spec_oracle.audit.declared import Facts


@runtime_checkable
class Subject(Protocol):
    """Code under audit: ``kind`` names its suite, ``facts`` are what it declares and what is on record."""

    @property
    def name(self) -> str: ...  # noqa: D102
    @property
    def kind(self) -> str: ...  # noqa: D102
    @property
    def facts(self) -> Facts: ...  # noqa: D102
    @property
    def num_paths(self) -> int: ...  # noqa: D102
