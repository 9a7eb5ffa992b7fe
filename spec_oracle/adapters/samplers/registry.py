"""Engines by name: which there are, whether they can be loaded here, and loading them."""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from typing import Any, Protocol

from spec_oracle.adapters.errors import EngineError
from spec_oracle.adapters.samplers.subjects import SUBJECTS, EngineSubject
from spec_oracle.adapters.samplers.wheels import wheel
from spec_oracle.errors import InvalidInputError, unknown

_BY_NAME = {subject.name: subject for subject in SUBJECTS}


class KeyedEngine(Protocol):
    """An engine whose noise is a hash of (request seed, absolute position), and that can be handed both."""

    @property
    def block(self) -> bool:
        """Whether it verifies blocks, rather than token by token."""
        ...

    @property
    def reads_draft(self) -> bool:
        """Whether it reads the draft's rows, or takes the draft for certain."""
        ...

    def __call__(self, tokens: Any, draft: Any, target: Any, generator: Any) -> tuple[Any, Any]:
        """Verify requests that begin here, each with a fresh seed."""
        ...

    def with_seeds(self, tokens: Any, draft: Any, target: Any, seeds: Any, positions: Any) -> tuple[Any, Any]:
        """Verify one step of requests with given seeds [B] and texts of ``positions`` [B] tokens."""
        ...


class RacedEngine(Protocol):
    """An engine that accepts by coins, draws the next token by a race, and can be handed both."""

    @property
    def reads_draft(self) -> bool:
        """Whether it reads the draft's rows, or takes the draft for certain."""
        ...

    def with_noise(self, tokens: Any, draft: Any, target: Any, coins: Any, times: Any) -> tuple[Any, Any]:
        """Verify with uniforms [B, L] and standard exponential times [B, V]."""
        ...


@dataclass(frozen=True)
class Engine:
    """A loaded engine: ``verify`` keeps the plain contract (see `spec_oracle.adapters.samplers.contract`).

    ``with_uniforms(draft_tokens, draft_probs, target_probs, uniforms [B, L+1])`` is there when the engine
    takes its uniforms as arguments.
    """

    subject: EngineSubject
    verify: Callable[..., Any]

    @property
    def with_uniforms(self) -> Callable[..., Any] | None:
        """The call with injected uniforms, or None."""
        call: Callable[..., Any] | None = getattr(self.verify, "with_uniforms", None)
        return call

    @property
    def keyed(self) -> KeyedEngine | None:
        """The engine with its keys as arguments, or None."""
        keyed: Any = self.verify
        return keyed if hasattr(keyed, "with_seeds") else None

    @property
    def raced(self) -> RacedEngine | None:
        """The engine with its noise as arguments, or None."""
        raced: Any = self.verify
        return raced if hasattr(raced, "with_noise") else None


def engine_names() -> tuple[str, ...]:
    """Return the names of all engine subjects, in the order in which reports list them."""
    return tuple(_BY_NAME)


def engine_subject(name: str) -> EngineSubject:
    """Return what is known of an engine, unloaded; raises `InvalidInputError` for an unknown name."""
    if name not in _BY_NAME:
        raise InvalidInputError(f"name: {unknown(name, _BY_NAME, 'engine')}")
    return _BY_NAME[name]


def is_proven(name: str) -> bool:
    """Return whether this is an engine whose law can be enumerated; the others draw, and take longer."""
    return name in _BY_NAME and "exact" in _BY_NAME[name].origin.evidence


def why_unavailable(name: str) -> str:
    """Return in one line why the engine cannot be loaded here; the empty string when it can."""
    origin = engine_subject(name).origin
    missing = [package for package in ("torch", *origin.requires) if find_spec(package) is None]
    if missing:
        return f"{', '.join(missing)} not installed: {origin.install}"
    if origin.is_wheel and not wheel(origin.package, origin.version).is_fetched:
        return f"{origin.package} {origin.version} not fetched: {origin.install}"
    return ""


def installed_version(name: str) -> str | None:
    """Return the version that `load_engine` would load, None when it cannot.

    It is the pinned one for code read out of a wheel, and an installed package's own otherwise.
    """
    if why_unavailable(name):
        return None
    origin = engine_subject(name).origin
    return origin.version if origin.is_wheel else version(origin.package)


def load_engine(name: str) -> Engine:
    """Load an engine; raises `EngineError` with the reason, in one line, when it is not available."""
    reason = why_unavailable(name)
    if reason:
        raise EngineError(f"{name}: {reason}")
    subject = engine_subject(name)
    module, _, function = subject.origin.adapter.partition(":")
    loader = getattr(import_module(f"spec_oracle.adapters.samplers.{module}"), function)
    return Engine(subject, loader(**subject.options))
