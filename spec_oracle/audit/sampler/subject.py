"""Samplers: code of the sampler contract, whatever hands it its random numbers."""

from dataclasses import dataclass, field
from typing import ClassVar, TypeAlias

from spec_oracle.audit.declared import NOTHING_DECLARED, Facts
from spec_oracle.contracts import SamplerCode, SamplerFunction, drawing_uniforms
from spec_oracle.contracts.sampler import KeyedSampler, RacedSampler
from verifiers import Drafting


@dataclass(frozen=True)
class DrawsItself:
    """It draws its random numbers itself, from the generator that it is handed or from a global one."""


@dataclass(frozen=True)
class TakesUniforms:
    """It takes uniforms [B, L+1] as its fourth argument; ``code`` does so."""

    code: SamplerCode


@dataclass(frozen=True)
class TakesNoise:
    """Its engine also takes accept uniforms and exponential noise as arguments."""

    engine: RacedSampler


@dataclass(frozen=True)
class TakesKeys:
    """Its engine's noise is a hash of (request seed, absolute position), and it takes both as arguments."""

    engine: KeyedSampler


Randomness: TypeAlias = DrawsItself | TakesUniforms | TakesNoise | TakesKeys


@dataclass(frozen=True)
class SamplerSubject:
    """A sampler; ``code`` draws its random numbers itself, ``randomness`` says what else it can be handed.

    ``traceable`` says whether its random numbers can be traced; ``steps`` are each a `watched.Step` that was
    recorded.
    """

    name: str
    code: SamplerCode
    facts: Facts = NOTHING_DECLARED
    num_paths: int = 1
    traceable: bool = True
    randomness: Randomness = DrawsItself()
    steps: set[tuple[str, int, int, int]] = field(default_factory=set, repr=False, compare=False)
    drafting: ClassVar[Drafting] = Drafting.INDEPENDENT
    kind: ClassVar[str] = "sampler"

    @classmethod
    def of_uniforms(
        cls, name: str, function: SamplerFunction, facts: Facts = NOTHING_DECLARED, array: str = "numpy"
    ) -> "SamplerSubject":
        """Return the subject for a function whose fourth argument are uniforms; it is handed one path."""
        code = SamplerCode(drawing_uniforms(function), array)
        return cls(name, code, facts, randomness=TakesUniforms(SamplerCode(function, array)))

    @classmethod
    def of_keys(cls, name: str, engine: KeyedSampler, facts: Facts = NOTHING_DECLARED) -> "SamplerSubject":
        """Return the subject for an engine on torch tensors with keyed noise; called with fresh seeds."""
        return cls(name, SamplerCode(engine, "torch"), facts, randomness=TakesKeys(engine))
