"""Rules for coupled drafts: ``verify(drafts, uniforms)``, and a word on what they promise."""

from dataclasses import dataclass
from typing import Any, ClassVar, Final, TypeAlias

import numpy as np

import verifiers
from spec_oracle.arrays import Floats, Integers
from spec_oracle.audit.facts import FLOAT32_ROUNDING, NOTHING_DECLARED, ROUNDING, Facts
from spec_oracle.contracts import ContractError, Emissions, ImpossibleOutputError, raising
from spec_oracle.contracts.sampler import make_generator, parameters_of, to_library
from spec_oracle.errors import InvalidInputError, unknown
from spec_oracle.exact.arithmetic import arithmetic
from spec_oracle.exact.drafter_invariance import toy_drafts
from spec_oracle.toy import Instance
from verifiers import Drafts, Verdict
from verifiers.rules.list_coupling import CoupledVerifier, Invariance

PREFIX: Final = "coupled/"
"""What names of built-in coupled rules begin with."""

Call: TypeAlias = tuple[Drafts, Floats]
"""The drafts of B requests, and the uniforms [B, K, L+1, V] by which they were sampled."""


def names() -> tuple[str, ...]:
    """Return the names under which the built-in coupled rules are audited."""
    return tuple(f"{PREFIX}{name}" for name in verifiers.coupled_rule_names())


@dataclass(frozen=True)
class CoupledCode:
    """A coupled rule as it is called on numpy arrays, in its own array library ``array``."""

    rule: CoupledVerifier
    array: str = "numpy"

    @property
    def function(self) -> Any:
        """The method of the rule."""
        return self.rule.verify

    def verify(self, drafts: Drafts, uniforms: Floats) -> Verdict:
        """Return the checked verdict as numpy arrays.

        Raises `ContractError` for what is no verdict, `SubjectRaisedError` where the rule itself raises.
        """
        handed = Drafts(*(to_library(array, self.array) for array in arrays_of(drafts)))
        with raising():
            verdict = self.rule.verify(handed, to_library(uniforms, self.array))
        if missing := [name for name in _FIELDS if not hasattr(verdict, name)]:
            must = "it must return a Verdict (num_accepted [B], path [B], next_token [B])"
            raise ContractError(f"verify returned {type(verdict).__name__}, without {missing[0]}; {must}")
        stops = (drafts.draft_length + 1, drafts.num_paths, drafts.vocab_size)
        accepted, path, token = (
            self._checked(verdict, *of, drafts.batch) for of in zip(_FIELDS, stops, strict=True)
        )
        return Verdict(accepted, path, token, drafts.tokens)

    def _checked(self, verdict: Any, name: str, stop: int, batch: int) -> Integers:
        with raising():
            values = arithmetic(array=self.array).to_numpy(getattr(verdict, name))
        if values.shape != (batch,):
            raise ContractError(f"{name}: expected shape ({batch},), got {values.shape}")
        wrong = ~((values >= 0) & (values < stop) & (values == np.floor(values)))
        if wrong.any():
            found = f"{values[wrong][0]} at row {int(wrong.argmax())}, expected 0..{stop - 1}"
            raise ImpossibleOutputError(f"{name}: {found}", float(wrong.mean()))
        return values.astype(np.int64)

    def __call__(self, drafts: Drafts, uniforms: Floats) -> Emissions:
        """Return what the rule emits; raises as `verify`."""
        verdict = self.verify(drafts, uniforms)
        return Emissions(verdict.emitted, verdict.num_accepted + 1)

    def generator(self, seed: int) -> Any:
        """Seed the global streams, which the code may use against its contract."""
        return make_generator(self.array, seed)


_FIELDS: Final = ("num_accepted", "path", "next_token")


@dataclass(frozen=True)
class CoupledSubject:
    """A rule for coupled drafts; ``declared`` names the built-in one whose accepted length it declares."""

    name: str
    code: CoupledCode
    invariance: Invariance
    declared: str = ""
    facts: Facts = NOTHING_DECLARED
    num_paths: int = 2
    kind: ClassVar[str] = "coupled"


def is_coupled(thing: Any) -> bool:
    """Whether an object is a coupled rule: by an attribute, or by the second parameter of its ``verify``."""
    return hasattr(thing, "invariance") or parameters_of(thing.verify)[1:] == ("uniforms",)


def of_coupled_rule(name: str, rule: Any, *, array: str = "numpy", num_paths: int) -> CoupledSubject:
    """Return the subject for a coupled rule; raises `InvalidInputError` for what it declares wrongly."""
    promised, known = getattr(rule, "invariance", None), [one.value for one in Invariance]
    value = promised.value if isinstance(promised, Invariance) else promised
    if value not in known:
        found = "no such attribute" if promised is None else repr(promised)
        raise InvalidInputError(
            f"invariance: {name!r} has verify(drafts, uniforms), which needs an attribute invariance, "
            f"what it promises beside the target's distribution: {', '.join(known)}; got {found}"
        )
    declared = str(getattr(rule, "rule", ""))
    if declared and declared not in names():
        raise InvalidInputError(f"rule: {name!r} declares {unknown(declared, names(), 'coupled rule')}")
    tolerance = ROUNDING if name in names() else FLOAT32_ROUNDING
    facts = Facts(tolerance=tolerance)
    return CoupledSubject(name, CoupledCode(rule, array), Invariance(value), declared, facts, num_paths)


def arrays_of(drafts: Drafts) -> tuple[Any, Any, Any]:
    """Return tokens, draft probabilities and target probabilities."""
    return drafts.tokens, drafts.draft_probs, drafts.target_probs


def requests(instance: Instance, batch: int, rng: np.random.Generator, dtype: str = "float64") -> Call:
    """Sample the drafts of ``batch`` requests, rows and uniforms in the number type ``dtype``."""
    shape = (batch, instance.num_paths, instance.draft_length + 1, instance.vocab_size)
    uniforms: Floats = rng.random(shape, dtype=dtype)  # type: ignore[call-overload]
    return toy_drafts(instance, uniforms), uniforms


def chosen(call: Call, some: Integers) -> Call:
    """Return some requests of a call, in this order."""
    drafts, uniforms = call
    return Drafts(*(array[some] for array in arrays_of(drafts))), uniforms[some]
