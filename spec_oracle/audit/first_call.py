"""Whether code keeps its contract at all, asked of calls on ordinary input.

A wrapper that returns nothing, swaps what it returns, or decides for one request of a batch has no output
distribution: to call it lossy would be false. Its mistake is one sentence instead, with the line in its code
and what the contract asks. The call is made only after a check that did not pass, since code that is traced
must not have been called before. Rules are not traced: before their first check a call is repeated
(`spec_oracle.audit.own_randomness`).
"""

import re
from dataclasses import dataclass, field, replace
from typing import Any, Final

from spec_oracle.audit.checks import Check, Suite, run_check
from spec_oracle.audit.context import Context
from spec_oracle.audit.draws import sampled_drafts
from spec_oracle.audit.instances import panel
from spec_oracle.audit.own_randomness import own_randomness
from spec_oracle.audit.results import CheckResult, How, Status, breach
from spec_oracle.audit.rule.batch import TREE_UNIFORMS
from spec_oracle.audit.rule.draftings import DEPTH, SampledTrees, draftings
from spec_oracle.audit.rule.subject import tree_verdicts
from spec_oracle.audit.streams import stream
from spec_oracle.contracts import ContractError, ImpossibleOutputError, SubjectRaisedError
from spec_oracle.contracts.engine import EngineCode, NoLawError, copy_of
from spec_oracle.contracts.sampler import seed_all
from spec_oracle.errors import InvalidInputError
from spec_oracle.places import defined_at
from spec_oracle.threads import CallEndedError

BROKEN: Final = "contract broken"
ENDLESS: Final = "a call did not end"
"""Why the other checks are left out."""

_BATCHES: Final = (8, 1)
"""Requests of the first calls of a sampler."""

_VOCAB: Final = 3
_TOKENS: Final = 4
"""Tokens of the vocabulary of a sampler's first calls; of the longest completion of an engine's."""

_IS_CALLED: Final = {
    "sampler": "it is called as verify(draft_tokens [B, L], draft_probs [B, L, V], target_probs [B, L+1, V], "
    "generator), with an axis K after B if there are several paths",
    "verifier": "it is called as verify(drafts, decisions)",
    "tree": "it is called as verify_tree(drafts, decisions)",
}
_TENSORS: Final = re.compile(r"[Tt]ensor|'numpy\.\w+' object has no attribute")
"""What errors say of arrays that should have been tensors."""

_MISTAKEN: Final = 0.5
"""From this share of the requests on, impossible values are a mistake of the wrapper, not of decisions."""


@dataclass
class FirstCall:
    """Judges a subject by plain calls, once: ``fault`` is what is wrong with it, "" for nothing known.

    ``leaves_out`` says why no other check is run, "" if they are.
    """

    subject: Any
    context: Context
    suite: Suite
    fault: str = field(default="", init=False)
    leaves_out: str = field(default="", init=False)
    _was_made: bool = field(default=False, init=False)
    _was_repeated: bool = field(default=False, init=False)

    def result(self, check: Check, left_out: str = "") -> CheckResult:
        """Run a check, unless it is ``left_out`` for a reason; return its result, or the broken contract."""
        name, left_out = check.name, self.leaves_out or left_out
        if not left_out and check in self.suite and self._draws_by_itself():
            return replace(breach(ContractError(self.fault)), name=name)
        try:
            found = run_check(check, self.suite, self.subject, self.context, left_out)
        except Exception:
            # What our own code stumbles over may be what the subject returned.
            if not self._is_at_fault():
                raise
            return replace(breach(ContractError(self.fault)), name=name)
        # Code of which every outcome was run, and added up to another distribution, does run.
        is_traced = found.how in (How.PROVEN, How.REPRESENTED)
        is_law_found = is_traced and bool(found.findings and found.findings.total_variation)
        if found.status in (Status.FAILED, Status.INCONCLUSIVE) and not is_law_found and self._is_at_fault():
            return replace(breach(ContractError(self.fault)), name=name, seconds=found.seconds)
        if found.breaks_contract and "(at " not in found.detail and (place := place_of(self.subject)):
            return replace(found, detail=f"{found.detail} (at {place})")
        return found

    def _draws_by_itself(self) -> bool:
        if self._was_repeated:
            return False
        self._was_repeated = True
        self.fault = own_randomness(self.subject, self.context, place_of(self.subject))
        self.leaves_out = BROKEN if self.fault else ""
        return bool(self.fault)

    def _is_at_fault(self) -> bool:
        if not self._was_made:
            self._was_made = True
            try:
                self.fault = fault_of(self.subject, self.context.seed)
            except CallEndedError:
                self.leaves_out = ENDLESS
            self.leaves_out = BROKEN if self.fault else self.leaves_out
            return bool(self.fault)
        return False


def fault_of(subject: Any, seed: int) -> str:
    """Return what a subject does against its contract in a plain call on ordinary input, "" for nothing.

    Raises `CallEndedError` where the call does not end.
    """
    ways = {"engine": _of_engine, "sampler": _of_sampler, "verifier": _of_sampler}
    ways |= {"tree": _of_tree}
    if subject.kind not in ways:
        return ""
    try:
        ways[subject.kind](subject, seed)
    except CallEndedError:
        raise
    except ImpossibleOutputError as error:
        return _said(error, subject) if error.share >= _MISTAKEN else ""
    except ContractError as error:
        return _said(error, subject)
    except SubjectRaisedError as error:
        # Code that ends itself, hangs, or is out of memory, may have no mistake in its wrapper.
        cause = error.__cause__
        is_mistake = isinstance(cause, Exception) and not isinstance(cause, MemoryError)
        is_called = "" if subject.kind == "engine" else f"; {_IS_CALLED[subject.kind]}"
        said = f"{_said(error, subject)}{is_called}{_hint(cause, subject)}"
        return said if is_mistake or isinstance(error, NoLawError) else ""
    except InvalidInputError:  # a verifier that carries a state has no plain call
        return ""
    return ""


def _hint(cause: BaseException | None, subject: Any) -> str:
    """Return what may help code that is given arrays of another library than it takes."""
    is_about_type = isinstance(cause, TypeError | AttributeError) and bool(_TENSORS.search(str(cause)))
    is_numpy = getattr(subject, "code", None) is not None and subject.code.array == "numpy"
    return (
        "; it is given numpy arrays: `--array torch` gives it tensors" if is_about_type and is_numpy else ""
    )


def _of_sampler(subject: Any, seed: int) -> None:
    """Verify one batch and one request, drafted from full distributions."""
    toy, rng = panel(_VOCAB, 3, subject.num_paths, seed)["flat"], stream(seed, "first-call")
    generator = subject.code.generator(seed)
    for batch in _BATCHES:
        subject.code(sampled_drafts(toy, batch, rng, subject.drafting), generator)


def _of_tree(subject: Any, seed: int) -> None:
    """Verify one batch of draft trees and one tree."""
    toy, rng = panel(_VOCAB, DEPTH, 1, seed)["flat"], stream(seed, "first-call")
    table = SampledTrees(toy, next(iter(draftings(subject.accepts, DEPTH).values())), subject.array)
    for batch in _BATCHES:
        tree_verdicts(subject, table.drafts(table.sample(batch, rng)), rng.random((batch, TREE_UNIFORMS)))


def _of_engine(subject: Any, seed: int) -> None:
    """Ask each engine for a distribution and for a few completions."""
    seed_all(seed)
    for code in subject.engines.values():
        copied = copy_of(code.engine)
        one = code if copied is None else EngineCode(copied)
        one.trial(one.prompts[0], _TOKENS)


def _said(error: Exception, subject: Any) -> str:
    """Return the sentence with a line of the code, if it has none."""
    place = "" if "(at " in str(error) else place_of(subject)
    return f"{error}{f' (at {place})' * bool(place)}"


def place_of(subject: Any) -> str:
    """Return "file:line" where a subject's code is defined, "" where that is not known.

    A subject whose process is gone has a ``place`` in place of its code.
    """
    if hasattr(subject, "engines"):
        return next((defined_at(code.engine.generate) for code in subject.engines.values()), "")
    if hasattr(subject, "verifier"):
        return defined_at(subject.verifier.verify)
    if hasattr(subject, "accepts"):
        return defined_at(subject.rule.verify_tree)
    return defined_at(subject.code.function) if hasattr(subject, "code") else getattr(subject, "place", "")
