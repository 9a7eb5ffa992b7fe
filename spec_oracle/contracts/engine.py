"""The engine contract: a whole engine as its user sees it, prompts in and completions out.

    class Engine:
        def next_token_probs(self, context): ...                        # [V]
        def generate(self, prompt, max_new_tokens, seed=None): ...      # the new token ids

``next_token_probs`` is the distribution of target-only decoding after the given token ids, temperature,
filters, penalties and all other processors included. ``generate`` decodes speculatively; its completion ends
after a stop token, else after ``max_new_tokens`` tokens. docs/guide/audit-your-engine.md lists the optional
attributes and methods. ``start`` and ``start_many`` return a `Session`, whose steps are `Step`.

State that generations leave behind shows on copies (`copy.deepcopy`) of the engine as it was before the
first one.
"""

import copy
import inspect
import math
import sys
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from functools import cache, cached_property, lru_cache, partial
from typing import Any, Final, NamedTuple, Protocol, SupportsInt, TypeVar, cast
from unittest import mock

import numpy as np

from spec_oracle import clock
from spec_oracle.arrays import Floats, Integers
from spec_oracle.contracts import ContractError, ImpossibleOutputError, SubjectRaisedError, raising
from spec_oracle.contracts.sampler import short
from spec_oracle.contracts.speculation import SeenDrafts, speculation_seen
from spec_oracle.exact.completions import Ids, completion_law, equal_bins, masses_along
from spec_oracle.exact.errors import NotTracedError
from spec_oracle.exact.interception import OwnSeeds
from spec_oracle.places import defined_at
from spec_oracle.validation import is_whole
from verifiers.arrays import Array

T = TypeVar("T")

ROW_TOLERANCE = 1e-3
"""How far a row may sum from one and still be the rounding of a law; it is rescaled."""

_HALF_TOLERANCE: Final = 1e-2
"""The same of a row in float16 or bfloat16."""


REASONS = ("stop", "length")
"""Why a completion ended: with a stop token or sequence, or at its limit."""


class Engine(Protocol):
    """The methods that every engine has; docs/guide/audit-your-engine.md lists optional ones."""

    def next_token_probs(self, context: Sequence[int]) -> Array:
        """Return the distribution of the next token of target-only decoding after these token ids, [V]."""
        ...

    def generate(
        self, prompt: Sequence[int], max_new_tokens: int, seed: int | None = None
    ) -> Array | Sequence[int]:
        """Return the new token ids of a completion decoded speculatively."""
        ...


@dataclass(frozen=True)
class Step:
    """What one call did for N requests; lists, arrays and tensors will do.

    ``draft_tokens`` int [N, L]; ``draft_probs`` [N, L, V], the distributions that the drafter says they were
    drawn from; ``tokens`` int [N, L+1], emitted, padded with -1 (all padding where the request had ended
    before); ``num_accepted`` int [N], as the engine reports it, -1 where the request had ended.
    """

    draft_tokens: Array
    draft_probs: Array
    tokens: Array
    num_accepted: Array


class Session(Protocol):
    """Requests that are decoded together."""

    def step(self) -> Step:
        """Draft and verify once for every request."""
        ...


class EnoughError(BaseException):
    """Ends a generation early; an engine's ``steps`` must not catch it."""


class NoLawError(SubjectRaisedError):
    """Probabilities that the engine reports are no distribution, so that nothing can be judged by them."""


class Report(NamedTuple):
    """A completion, the log-probability reported of each token or None, and the reason of its end or None."""

    tokens: Ids
    logs: tuple[float | None, ...]
    reason: str | None


_CALLED_WITH: Final = {
    "generate_plain": ("prompt", "max_new_tokens"),
    "generate_batch": ("prompts", "max_new_tokens", "seeds"),
    "reported": ("prompt", "max_new_tokens"),
    "raw_probs": ("context",),
    "draft_probs": ("context",),
    "rows_along": ("prompt", "completion"),
    "start": ("prompt", "max_new_tokens", "seed"),
    "start_many": ("prompts", "max_new_tokens", "seeds"),
    "append": ("tokens",),
    "rewind": ("length",),
}
"""The arguments by which optional methods are called, as in the contract above."""

_MOST_MASSES = 4096
"""Completions whose masses are kept."""

_KEPT = {"row", "raw_row", "_masses_of"}
"""Attributes that keep rows, and what was computed of them."""


@dataclass(frozen=True, eq=False)
class EngineCode:
    """An engine as the checks call it: what it returns is checked, what it raises is a result.

    Methods raise `ContractError` for what cannot be a completion, `NoLawError` for what is no distribution,
    `SubjectRaisedError` when the engine raises. ``unused`` is a copy that never generates, None where the
    engine cannot be copied; ``drafts`` are what checks saw of its drafts so far, ``own_seeds`` what they saw
    of generators that it seeds by itself.
    """

    engine: Any
    unused: Any = field(init=False, repr=False)
    drafts: SeenDrafts = field(default_factory=SeenDrafts, init=False, repr=False)
    own_seeds: OwnSeeds = field(default_factory=OwnSeeds, init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "unused", copy_of(self.engine))

    def abandon(self, engine: object) -> None:
        """Go on with a copy of it if ``engine`` is this one: a call of it was given up half-way."""
        if engine is self.engine and self.unused is not None:
            object.__setattr__(self, "engine", copy_of(self.unused))

    @cached_property
    def vocab_size(self) -> int:
        """Number of tokens, V."""
        declared = getattr(self.engine, "vocab_size", None)
        with raising():
            if declared is not None:
                return int(declared)
            return len(self.engine.next_token_probs(list(self.prompts[0])))

    @cached_property
    def prompts(self) -> tuple[Ids, ...]:
        """The prompts after which it is judged."""
        with raising():
            listed = getattr(self.engine, "prompts", None)
            prompts = tuple(tuple(int(token) for token in prompt) for prompt in listed or [[0]])
        if not all(prompts):
            raise ContractError("prompts: expected at least one token each")
        return prompts

    @cached_property
    def endings(self) -> tuple[Ids, ...]:
        """What ends a completion: stop sequences, and stop tokens as sequences of one."""
        with raising():
            tokens = [(int(token),) for token in getattr(self.engine, "stop_tokens", None) or ()]
            sequences = getattr(self.engine, "stop_sequences", None) or ()
            return (*tokens, *(tuple(int(token) for token in some) for some in sequences))

    def has(self, method: str) -> bool:
        """Whether the engine has an optional method."""
        return callable(getattr(self.engine, method, None))

    @cached_property
    def is_batch_invariant(self) -> bool:
        """Whether it promises the same completion of a seeded request alone and in any batch."""
        with raising():
            return bool(getattr(self.engine, "batch_invariant", False))

    @cached_property
    def takes_limits(self) -> bool:
        """Whether ``generate_batch`` takes a list of ``max_new_tokens``, one for each request."""
        with raising():
            return bool(getattr(self.engine, "limits_per_request", False))

    @cached_property
    def chosen_length(self) -> int:
        """The draft length of an engine that has several, 0 of others."""
        with raising():
            return int(self.engine.draft_length) if getattr(self.engine, "draft_lengths", None) else 0

    @cached_property
    def takes_seeds(self) -> bool:
        """Whether ``generate`` takes a seed."""
        return self._takes_seeds("generate")

    @cached_property
    def steps_take_seeds(self) -> bool:
        """Whether ``generate`` and ``steps`` take a seed."""
        return self.takes_seeds and self.has("steps") and self._takes_seeds("steps")

    def _takes_seeds(self, method: str) -> bool:
        try:
            return "seed" in inspect.signature(getattr(self.engine, method)).parameters
        except (TypeError, ValueError):  # compiled code tells no signature
            return True

    def __getstate__(self) -> dict[str, object]:
        """Leave out what is kept of rows: another process asks for them again."""
        return {name: one for name, one in vars(self).items() if name not in _KEPT}

    @cached_property
    def row(self) -> Callable[[Ids], Floats]:
        """The distribution of the next token of target-only decoding, float64 [V], by context; kept."""
        return cache(partial(self._checked_row, "next_token_probs"))

    @cached_property
    def raw_row(self) -> Callable[[Ids], Floats]:
        """The distribution of the next token before all processors, float64 [V], by context; kept."""
        return cache(partial(self._checked_row, "raw_probs"))

    def draft_row(self, context: Ids) -> Floats:
        """Return the drafter's intended distribution, float64 [V]."""
        return self._checked_row("draft_probs", context)

    def rows_along(self, prompt: Ids, completion: Ids) -> Floats:
        """Return the distribution of each token of a completion, float64 [T, V]; none of them is kept."""
        contexts = [prompt + completion[:end] for end in range(len(completion))]
        method = "rows_along" if self.has("rows_along") else "next_token_probs"
        with raising():
            if method == "rows_along":
                returned = [copied(row) for row in self.engine.rows_along(list(prompt), list(completion))]
            else:
                returned = [copied(self.engine.next_token_probs(list(context))) for context in contexts]
            rows = [as_float64(row) for row in returned]
        if {row.shape for row in rows} == {(self.vocab_size,)} and len(rows) == len(contexts):
            stacked = np.stack(rows)
            totals = stacked.sum(axis=1, keepdims=True)
            if (np.isfinite(stacked) & (stacked >= 0)).all() and (abs(totals - 1) <= ROW_TOLERANCE).all():
                return np.asarray(stacked / totals)
        checked = zip(returned, contexts, strict=True)
        return np.stack([self.checked_row(row, context, method) for row, context in checked])

    def law(self, prompt: Ids, tokens: int) -> dict[Ids, float]:
        """Return the law of completions of target-only decoding, from the rows that the engine reports."""
        return completion_law(lambda completion: self.row(prompt + completion), self.endings, tokens)

    def bins(
        self, prompt: Ids, completion: Ids, places: Floats, bins: int, *, by_id: bool = False
    ) -> Integers | None:
        """Return the bin of each token of a completion; see `spec_oracle.exact.completions.equal_bins`."""
        masses = self._masses_of(prompt, completion, len(places), by_id)
        return None if masses is None else equal_bins(*masses, places, bins)

    @cached_property
    def _masses_of(self) -> Callable[[Ids, Ids, int, bool], tuple[Floats, Floats] | None]:
        """Where the tokens of a completion lie in their rows; short completions come often."""

        @lru_cache(_MOST_MASSES)
        def masses(
            prompt: Ids,
            completion: Ids,
            tokens: int,
            by_id: bool,  # noqa: FBT001  # a key
        ) -> tuple[Floats, Floats] | None:
            row = lambda before: self.row(prompt + before)  # noqa: E731
            return masses_along(row, self.endings, completion, tokens, by_id=by_id)

        return masses

    def trial(self, prompt: Ids, tokens: int) -> float:
        """Ask for rows, and generate up to so many tokens; return the seconds of the fastest generation.

        Without instruments: what the engine raises, or returns that is no completion, is its own fault here.
        """
        self.law(prompt, 1)
        fastest = float("inf")
        for most in range(1, tokens + 1):
            started = clock.now()
            with speculation_seen(self.engine) as seen:
                (completion,) = self.completions(prompt, most, [None])
            fastest = min(fastest, clock.now() - started)
            seen()
            for end in range(1, len(completion)):
                self.row(prompt + completion[:end])
        return fastest

    def require_call_forms(self) -> None:
        """Raise `ContractError` for an optional method that does not take the arguments of the contract."""
        for method, names in _CALLED_WITH.items():
            if not self.has(method):
                continue
            try:
                inspect.signature(getattr(self.engine, method)).bind(*names)
            except ValueError:  # compiled code tells no signature
                continue
            except TypeError as error:
                place = defined_at(getattr(self.engine, method))
                raise ContractError(
                    f"{method} is called as {method}({', '.join(names)}): {error}"
                    f"{f' (at {place})' * bool(place)}; rename it if it is not that method of the contract"
                ) from None

    def returned(self, context: Ids, method: str = "next_token_probs") -> object:
        """Return the engine's row after a context, unchecked."""
        with raising():
            return copied(getattr(self.engine, method)(list(context)))

    def _checked_row(self, method: str, context: Ids) -> Floats:
        return self.checked_row(self.returned(context, method), context, method)

    def checked_row(self, returned: object, context: Ids, method: str = "next_token_probs") -> Floats:
        """Return a row as a distribution, float64 [V]; raises `NoLawError` if it is none."""
        with raising():
            row = as_float64(returned)
        if row.ndim != 1:
            raise NoLawError(f"{method}: shape {row.shape} after {context}, expected one row, [V]")
        if row.shape != (self.vocab_size,):
            raise NoLawError(f"{method}: shape {row.shape} after {context}, expected {(self.vocab_size,)}")
        if not (np.isfinite(row) & (row >= 0)).all() or abs(row.sum() - 1) > _tolerance(returned):
            hint = "; probabilities are expected, no logits" * bool((row < 0).any())
            raise NoLawError(f"{method}: {short(row.tolist())} after {context} is no distribution{hint}")
        law: Floats = row / row.sum()
        return law

    def generated(self, prompt: Ids, tokens: int, seed: int | None = None, method: str = "generate") -> Ids:
        """Return a completion of at most ``tokens`` tokens."""
        with raising():
            keywords = {"seed": seed} if self.takes_seeds else {}
            returned = as_list(getattr(self.engine, method)(list(prompt), tokens, **keywords))
        if len(returned) > tokens and returned[: len(prompt)] == list(prompt):
            raise ImpossibleOutputError(
                f"{method} returned {len(returned)} tokens for max_new_tokens {tokens}, "
                "the first as in the prompt: expected are the new ones alone"
            )
        return self.checked(returned, tokens, method)

    def reported(self, prompt: Ids, tokens: int) -> Report:
        """Return the report of a completion of at most ``tokens`` tokens."""
        with raising():
            returned = self.engine.reported(list(prompt), tokens)
        if not isinstance(returned, tuple) or len(returned) != 3:
            raise ContractError(
                f"reported must return (token ids, log-probabilities, reason); it returned {short(returned)}"
            )
        ids, logs, reason = returned
        with raising():
            told = [None if log is None else float(log) for log in as_list([] if logs is None else logs)]
        if reason not in {None, *REASONS}:
            raise ContractError(f'reported: reason {reason!r}, expected "stop", "length" or None')
        known = tuple(None if log is None or math.isnan(log) else log for log in told)
        return Report(self.checked(as_list(ids, "reported"), tokens, "reported"), known, reason)

    def completions(self, prompt: Ids, tokens: int, seeds: Sequence[int | None]) -> list[Ids]:
        """Return a completion for each seed: one after another, or of one batch by ``start_many``."""
        if not self.has("start_many") or not seeds:
            return [self.generated(prompt, tokens, seed) for seed in seeds]
        session, emitted = self.session(prompt, tokens, seeds), [np.zeros((len(seeds), 0), np.int64)]
        # Every call emits a token for each request that has not ended.
        while len(emitted) <= tokens and (len(emitted) == 1 or (emitted[-1] >= 0).any()):
            with raising():
                emitted.append(np.array(session.step().tokens, np.int64))
        rows = [tuple(row) for row in np.concatenate(emitted, axis=1).tolist()]
        kept = {row: [token for token in row if token != -1] for row in rows}
        checked = {row: self.checked(completion, tokens, "start_many") for row, completion in kept.items()}
        return [checked[row] for row in rows]

    def session(self, prompt: Ids, tokens: int, seeds: Sequence[int | None]) -> Session:
        """Begin a request for each seed, in one batch if there are several."""
        with raising():
            if self.has("start_many"):
                many: Session = self.engine.start_many([list(prompt)] * len(seeds), tokens, list(seeds))
                return many
            (seed,) = seeds
            one: Session = self.engine.start(list(prompt), tokens, seed)
            return one

    def each_call(
        self,
        engine: Any,
        prompt: Ids,
        tokens: int,
        ended: Callable[[list[object]], bool],
        seed: int | None = None,
    ) -> None:
        """Pass the tokens of each call of a generation to ``ended``, until that returns true.

        ``engine`` is this one or a copy of it. Raises `NotTracedError` where ``steps`` shows calls only after
        the last one has ended.
        """

        def on_call(emitted: object) -> None:
            if ended(as_list(emitted, "steps")):
                raise EnoughError

        seeds = {} if seed is None else {"seed": seed}
        if self.calls_back:
            with suppress(EnoughError):
                if inspect.isgenerator(engine.steps(list(prompt), tokens, **seeds, on_call=on_call)):
                    raise ContractError(
                        "steps has a parameter on_call, and yields its calls: do one of these only"
                    )
            return
        shown = engine.steps(list(prompt), tokens, **seeds)
        if not isinstance(shown, Iterable):
            raise ContractError(f"steps must yield lists of token ids; it returned {short(shown)}")
        if isinstance(shown, Sequence):
            raise NotTracedError("steps returns all calls at once: yield each one as soon as it has ended")
        closed = closing(shown) if isinstance(shown, Generator) else nullcontext()
        with suppress(EnoughError), closed:
            for emitted in shown:
                on_call(emitted)

    @cached_property
    def calls_back(self) -> bool:
        """Whether ``steps`` hands calls to a function in place of yielding them."""
        return "on_call" in inspect.signature(self.engine.steps).parameters

    def checked(self, returned: Iterable[SupportsInt], tokens: int, method: str = "generate") -> Ids:
        """Return a completion of at most ``tokens`` tokens; raises `ContractError` for anything else."""
        if not all(map(is_whole, returned)):
            raise ContractError(f"{method} must return whole token ids; it returned {short(returned)}")
        completion = tuple(map(int, returned))
        if completion and not 0 <= min(completion) <= max(completion) < self.vocab_size:
            foreign = next(token for token in completion if not 0 <= token < self.vocab_size)
            ids = f"0..{self.vocab_size - 1}"
            raise ImpossibleOutputError(f"{method} returned token {foreign}; ids are {ids}")
        if len(completion) > tokens:
            raise ImpossibleOutputError(
                f"{method} returned {len(completion)} tokens for max_new_tokens {tokens}"
            )
        return completion


def as_float64(returned: Array) -> Floats:
    """Return numbers as float64, whether they came as a list, an array, or a tensor of any number type."""
    return np.asarray(
        returned.detach().cpu().double() if hasattr(returned, "detach") else returned, np.float64
    )


def _tolerance(returned: object) -> float:
    """Return how far a row may sum from one, by its number type."""
    is_half = str(getattr(returned, "dtype", "")).removeprefix("torch.") in {"float16", "bfloat16"}
    return _HALF_TOLERANCE if is_half else ROW_TOLERANCE


def copied(returned: T) -> T:
    """Return a copy of a row: an engine may write the next one into the same array."""
    if hasattr(returned, "clone"):
        return cast("T", returned.clone())
    return copy.copy(returned) if isinstance(returned, np.ndarray | list) else returned


def copy_of(engine: T) -> T | None:
    """Return a copy of an engine, None where it cannot be copied; parameters of torch modules are shared."""
    try:
        with _shared_parameters():
            return copy.deepcopy(engine)
    except Exception:  # noqa: BLE001  # whatever it holds may refuse
        return None


def as_list(returned: Array | Iterable[object], method: str = "generate") -> list[Any]:
    """Return the tokens of a completion as a list, whether they came as a list, an array, or a tensor."""
    listed = returned.tolist() if hasattr(returned, "tolist") else returned
    if isinstance(listed, Iterable) and not isinstance(listed, str | bytes | dict):
        return list(listed)
    if inspect.iscoroutine(returned):
        returned.close()
        raise ContractError(
            f"{method} must return a list of token ids; it returned a coroutine: run it to its end in "
            f"{method}, by asyncio.run"
        )
    raise ContractError(f"{method} must return a list of token ids; it returned {short(returned)}")


@contextmanager
def _shared_parameters() -> Iterator[None]:
    """Let copies share the parameters of torch modules, which generations do not change."""
    if "torch" not in sys.modules:
        yield
        return
    itself: Callable[[object, object], object] = lambda parameter, memo: parameter  # noqa: E731, ARG005
    with mock.patch.object(sys.modules["torch"].nn.Parameter, "__deepcopy__", itself):
        yield
