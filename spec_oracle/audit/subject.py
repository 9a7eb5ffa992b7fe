"""What every subject of an audit has, whatever its kind, and what is called as a sampler has besides."""

from typing import Protocol, runtime_checkable

from spec_oracle.audit.declared import Facts
from spec_oracle.contracts import SamplerCode
from spec_oracle.contracts.speculation import Speculation
from verifiers import Siblings


@runtime_checkable
class Subject(Protocol):
    """Code under audit.

    ``kind`` names its suite; ``facts`` are what it declares and what is on record. ``place`` is "file:line"
    of its code, "" where that is not known; ``call_form`` says how it is called, "" where nobody need know.
    ``drafts`` are what checks saw of its drafts, None where they show elsewhere.
    ``carries_state``: a call hands a state to the next one. ``is_rerunnable``: a command can run one check of
    it again.
    """

    @property
    def name(self) -> str: ...  # noqa: D102
    @property
    def kind(self) -> str: ...  # noqa: D102
    @property
    def facts(self) -> Facts: ...  # noqa: D102
    @property
    def num_paths(self) -> int: ...  # noqa: D102
    @property
    def place(self) -> str: ...  # noqa: D102
    @property
    def call_form(self) -> str: ...  # noqa: D102
    @property
    def drafts(self) -> Speculation | None: ...  # noqa: D102
    @property
    def carries_state(self) -> bool: ...  # noqa: D102
    @property
    def is_rerunnable(self) -> bool: ...  # noqa: D102
    def plain_call(self, seed: int) -> None:
        """Call the code on ordinary input, as its contract says; errors are those of the contract."""
        ...


class CalledAsSampler(Protocol):
    """What is called by the sampler contract, and judged so: a sampler, or a rule wrapped as one."""

    @property
    def name(self) -> str: ...  # noqa: D102
    @property
    def facts(self) -> Facts: ...  # noqa: D102
    @property
    def code(self) -> SamplerCode: ...  # noqa: D102
    @property
    def num_paths(self) -> int: ...  # noqa: D102
    @property
    def drafting(self) -> Siblings: ...  # noqa: D102
