"""Samplers: how they are called on numpy drafts, in their own array library, and what they may return."""

import inspect
import random
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import wraps
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import DTypeLike, NDArray

from spec_oracle.arrays import Numbers, Size
from spec_oracle.errors import ContractError, ImpossibleOutputError, InvalidInputError, decided_for
from spec_oracle.places import SOURCE
from spec_oracle.threads import raising
from verifiers import AnyVerifier, Drafts, Paths, StatefulVerifier, Verdict, numpy_decisions, torch_decisions
from verifiers.arrays import Array, namespace

if TYPE_CHECKING:
    import torch

LIBRARIES = ("numpy", "torch")
LAYOUTS = ("contiguous", "sliced", "transposed")
"""How arrays may lie in memory: row by row, as a part of larger ones, or column by column."""
FIRST_SECONDS, CALL_SECONDS, CALL_FACTOR = 300.0, 60.0, 100.0
"""Seconds that a first call may take; a later one, beside so many times what the slowest one took for as many
numbers."""

NO_OPTIONS: Mapping[str, Numbers] = MappingProxyType({})

Generator: TypeAlias = "np.random.Generator | torch.Generator"

SamplerFunction: TypeAlias = Callable[..., tuple[Array, Array]]
"""(draft_tokens, draft_probs, target_probs, generator) -> (tokens, num_accepted); of trees with ``tokens,
parents`` in place of ``draft_tokens``."""


@runtime_checkable
class KeyedSampler(Protocol):
    """A sampler whose noise is a hash of (request seed, absolute position), and that can be given both.

    ``block``: it verifies blocks, rather than token by token; ``reads_draft``: it reads the draft's rows, and
    does not take the draft for certain.
    """

    @property
    def block(self) -> bool: ...  # noqa: D102
    @property
    def reads_draft(self) -> bool: ...  # noqa: D102
    def __call__(
        self, tokens: Array, draft: Array, target: Array, generator: Generator
    ) -> tuple[Array, Array]:
        """Verify requests that begin here, each with a fresh seed."""
        ...

    def with_seeds(
        self, tokens: Array, draft: Array, target: Array, seeds: Array, positions: Array
    ) -> tuple[Array, Array]:
        """Verify one step of requests with given seeds [B] and completions of ``positions`` [B] tokens."""
        ...

    def accept_uniforms(self, seeds: Numbers, positions: Numbers) -> Numbers:
        """Return the accept uniform of each (seed, position); integers that broadcast."""
        ...

    def race_uniforms(self, seeds: Numbers, positions: Numbers, tokens: Numbers) -> Numbers:
        """Return the uniform in (0, 1) of each (seed, position, token), behind a race's exponential times."""
        ...


class RacedSampler(Protocol):
    """A sampler that accepts by uniforms, samples the next token by a race, and can be given both."""

    @property
    def reads_draft(self) -> bool: ...  # noqa: D102
    def with_noise(
        self, tokens: Array, draft: Array, target: Array, uniforms: Array, times: Array
    ) -> tuple[Array, Array]:
        """Verify with accept uniforms [B, L] and standard exponential noise [B, V]."""
        ...


@dataclass(frozen=True)
class Emissions:
    """Checked emitted tokens: ``tokens`` int [B, L+1] padded with -1, ``lengths`` int [B] in tokens."""

    tokens: NDArray[np.int64]
    lengths: NDArray[np.int64]


@dataclass(frozen=True)
class SamplerCode:
    """A function of the sampler contract, the library ``array`` whose arrays it takes, and the form of these.

    ``dtype`` is the type of the rows, ``ids`` that of the drafted tokens, ``layout`` one of `LAYOUTS`;
    ``device`` is where torch's tensors and generator are; ``is_of_trees``: it keeps the contract of tree
    samplers, and is handed paths as trees.
    """

    function: SamplerFunction
    array: str = "numpy"
    dtype: str = "float64"
    ids: str = "int64"
    layout: str = "contiguous"
    device: str = "cpu"
    is_of_trees: bool = False
    slowest: list[float] = field(default_factory=list, compare=False, repr=False)
    """Seconds per number of the target's rows, of the slowest call so far; also that of other forms."""

    def __call__(
        self,
        drafts: Paths | Drafts,
        randomness: "Generator | Array",
        options: Mapping[str, Numbers] = NO_OPTIONS,
    ) -> Emissions:
        """Verify numpy drafts; ``randomness`` is a generator, or numpy uniforms [B, L+1] for code that
        takes them, or a tuple of arrays; ``options`` are keyword arguments beyond the contract.

        Raises `ContractError` for tokens or lengths that cannot be emitted, `SubjectRaisedError` when the
        function itself raises.
        """
        arrays = self.arguments(drafts)
        handed = [self.handed(array) for array in arrays]
        given = [
            # Random numbers keep their type, whatever the rows come in.
            to_library(np.ascontiguousarray(some), self.array, device=self.device)
            if isinstance(some, np.ndarray)
            else some
            for some in (randomness if isinstance(randomness, tuple) else (randomness,))
        ]
        keywords = {name: self.handed(values) for name, values in options.items()}
        started, numbers = time.monotonic(), arrays[-1].size
        try:
            with raising(self._limit(numbers)):
                returned = self.function(*handed, *given, **keywords)
            self.slowest[:] = [max(*self.slowest, (time.monotonic() - started) / numbers, 0.0)]
            return self.checked(returned, drafts)
        except ContractError as error:
            error.call = self, drafts, options
            raise

    def _limit(self, numbers: int) -> float:
        """Return how many seconds a call on so many numbers may take, from what the calls before it took."""
        if not self.slowest:
            return FIRST_SECONDS
        return CALL_SECONDS + CALL_FACTOR * self.slowest[0] * numbers

    def arguments(self, drafts: Paths | Drafts) -> tuple[Numbers, ...]:
        """Return the arrays of a call before the random numbers, in numpy: the target's rows come last."""
        return tree_arguments(drafts) if self.is_of_trees else contract_arguments(drafts)

    def checked(self, returned: object, drafts: Paths | Drafts) -> Emissions:
        """Return what a call returned as emitted tokens; errors as of `checked_emissions`."""
        return checked_emissions(returned, drafts, of_trees=self.is_of_trees)

    def handed(self, array: Numbers) -> Array:
        """Return a copy of a numpy array as the function gets it."""
        return Handed(self, array).fresh()

    def generator(self, seed: int) -> Generator:
        """Return a seeded generator of the library; see `make_generator`."""
        return make_generator(self.array, seed, self.device)


class Handed:
    """One argument of a function, which has its first contents again before every call.

    The memory is the same every time: at full vocabularies new memory costs more than a call.
    """

    def __init__(self, code: SamplerCode, array: Numbers) -> None:
        form = code.dtype if array.dtype.kind == "f" else code.ids if array.dtype == np.int64 else ""
        laid_out = array
        if code.layout == "transposed":
            laid_out = np.array(array.T, order="C")
        elif code.layout == "sliced":
            laid_out = np.ones((*array.shape[:-1], 2 * array.shape[-1] + 1), array.dtype)
            laid_out[..., 1::2] = array
        self._base = self._view = to_library(laid_out, code.array, form, code.device)
        if code.layout == "transposed":
            self._view = namespace(self._base).permute_dims(self._base, tuple(range(array.ndim))[::-1])
        elif code.layout == "sliced":
            self._view = self._base[..., 1::2]
        self._kept: Array = None

    def fresh(self) -> Array:
        """Return the array with its first contents."""
        if self._kept is None:
            self._kept = self._base.clone() if hasattr(self._base, "clone") else self._base.copy()
        else:
            self._base[...] = self._kept
        return self._view


def contract_arguments(drafts: Paths | Drafts) -> tuple[Numbers, ...]:
    """Return tokens, draft rows and target rows of paths; a single path has no axis of paths.

    Raises `InvalidInputError` for trees that are no paths of one length.
    """
    paths = drafts.paths if isinstance(drafts, Drafts) else drafts
    return tuple(array[:, 0] for array in paths.arrays) if paths.num_paths == 1 else paths.arrays


def tree_arguments(drafts: Paths | Drafts) -> tuple[Numbers, ...]:
    """Return tokens and parents [B, N], draft rows and target rows [B, N+1, V], the root's row first."""
    trees = drafts if isinstance(drafts, Drafts) else Drafts.of_paths(*drafts.arrays)
    return trees.tokens, np.array(trees.parents), trees.draft.dense(), trees.target.dense()


def make_generator(array: str, seed: int, device: str = "cpu") -> Generator:
    """Return a generator of the array library, and seed the global ones, which the function may use.

    Every generator gets a seed of its own: code that uses two of them must not find them in step.
    """
    of_python, of_numpy, of_torch = (int(s) for s in np.random.SeedSequence(seed).generate_state(3))
    random.seed(of_python)
    np.random.seed(of_numpy)  # noqa: NPY002  # foreign code may use the legacy global generator
    if array == "torch":
        import torch

        torch.default_generator.manual_seed(of_torch)
        if torch.cuda.is_initialized():  # to ask of other devices takes longer than a small call
            torch.cuda.manual_seed_all(of_torch)
    return new_generator(array, seed, device)


def new_generator(array: str, seed: int, device: str = "cpu") -> Generator:
    """Return a generator of the array library with this seed."""
    if array == "torch":
        import torch

        return torch.Generator(device).manual_seed(seed)
    return _Generator(np.random.PCG64(seed))


def seed_all(seed: int) -> None:
    """Seed the global streams of the libraries that are imported, from which code under test may draw."""
    make_generator("torch" if "torch" in sys.modules else "numpy", seed)


class _Generator(np.random.Generator):
    """numpy's; also fills buffers that the function made while it was traced, which hold objects."""

    def random(self, size: Size = None, dtype: DTypeLike = np.float64, out: Array = None) -> Array:
        if out is None:  # once or twice a token: nothing else may cost much
            draw: Callable[..., Array] = super().random
            return draw(size, dtype)
        return _into(out, super().random, size, dtype)

    def standard_exponential(
        self, size: Size = None, dtype: DTypeLike = np.float64, method: str = "zig", out: Array = None
    ) -> Array:
        return _into(out, super().standard_exponential, size, dtype, method)

    def standard_normal(self, size: Size = None, dtype: DTypeLike = np.float64, out: Array = None) -> Array:
        return _into(out, super().standard_normal, size, dtype)


def _into(out: Array, draw: Callable[..., Array], size: Size, *how: object) -> Array:
    if out is None or not out.dtype.hasobject:
        return draw(size, *how, out=out)
    out[...] = draw(out.shape, *how)
    return out


def to_library(array: Numbers, library: str, dtype: str = "", device: str = "cpu") -> Array:
    """Return a copy of a numpy array for the library ("numpy" or "torch") that code under test works in.

    Numbers become ``dtype``, a name that the library knows, "" to stay what they are. Tensors are on
    ``device``.
    """
    if array.ndim and array.strides[0] == 0:
        # One row that stands for all, as on large vocabularies: convert it once.
        one = to_library(array[:1].copy(), library, dtype, device)
        return one.expand(array.shape).clone() if library == "torch" else one.repeat(len(array), axis=0)
    if library == "torch":
        import torch

        tensor = torch.from_numpy(array.copy())
        tensor = tensor.to(getattr(torch, dtype)) if dtype else tensor
        return tensor if device == "cpu" else tensor.to(device)
    return array.astype(dtype) if dtype else array.copy()


def as_sampler(verifier: AnyVerifier) -> SamplerFunction:
    """Return a verifier as a function of the sampler contract, sampling with the generator it is handed."""
    if isinstance(verifier, StatefulVerifier):
        raise InvalidInputError("verifier: one that carries a state does not fit the sampler contract")

    def verify(
        tokens: Array, draft_probs: Array, target_probs: Array, generator: Generator
    ) -> tuple[Array, Array]:
        if tokens.ndim == 2:
            tokens, draft_probs, target_probs = tokens[:, None], draft_probs[:, None], target_probs[:, None]
        decide = numpy_decisions if isinstance(tokens, np.ndarray) else torch_decisions
        drafts = Drafts.of_paths(tokens, draft_probs, target_probs)
        verdict: object = verifier.verify(drafts, decide(generator))
        if not isinstance(verdict, Verdict):
            must = "it must return a Verdict (node [B], next_token [B], drafts)"
            raise ContractError(f"verify returned {_described(verdict)}; {must}")
        for name, value in (("node", verdict.node), ("next_token", verdict.next_token)):
            if not hasattr(value, "shape"):
                must = "it must be an array int [B], a number for each request"
                raise ContractError(f"verify returned a Verdict with {name} {_described(value)}; {must}")
        return verdict.emitted, verdict.num_accepted

    vars(verify)[SOURCE] = verifier.verify
    return verify


def signature_of(function: Callable[..., object]) -> Mapping[str, inspect.Parameter]:
    """Return a function's parameters by name; none of compiled code, whose signature is not known."""
    try:
        return inspect.signature(function).parameters
    except (TypeError, ValueError):
        return {}


def parameters_of(function: Callable[..., object]) -> tuple[str, ...]:
    """Return the names of a function's parameters, as `signature_of`."""
    return tuple(signature_of(function))


def generator_by_position(function: SamplerFunction) -> SamplerFunction:
    """Return the function; one that takes ``*, generator`` takes it by position then."""
    taken = signature_of(function).get("generator")
    if taken is None or taken.kind is not taken.KEYWORD_ONLY:
        return function

    @wraps(function)
    def verify(*arguments: Any, **options: Any) -> tuple[Array, Array]:
        *arrays, generator = arguments
        return function(*arrays, generator=generator, **options)

    vars(verify)[SOURCE] = function
    return verify


def drawing_uniforms(function: SamplerFunction) -> SamplerFunction:
    """Return code that takes uniforms as a function of the sampler contract: the generator draws them."""

    def verify(tokens: Array, draft: Array, target: Array, generator: Generator) -> tuple[Array, Array]:
        shape = (tokens.shape[0], tokens.shape[1] + 1)
        if isinstance(tokens, np.ndarray):
            return function(tokens, draft, target, generator.random(shape))
        import torch

        return function(tokens, draft, target, torch.rand(shape, generator=generator, dtype=torch.float64))

    vars(verify)[SOURCE] = function
    return verify


def in_same_arrays(code: SamplerCode) -> SamplerCode:
    """Return the code; every second call with arrays of one shape gets those of the call before, overwritten.

    Engines write new rows into the same arrays, so that an array's place in memory says nothing of its
    contents.
    """
    kept: dict[tuple[Size, ...], tuple[Array, ...]] = {}

    def function(*arguments: Any, **options: Any) -> tuple[Array, Array]:
        *given, randomness = arguments
        shapes = tuple(array.shape for array in given)
        if shapes not in kept:
            kept[shapes] = tuple(given)
            return code.function(*given, randomness, **options)
        own = kept.pop(shapes)
        for array, contents in zip(own, given, strict=True):
            array[...] = contents
        return code.function(*own, randomness, **options)

    return replace(code, function=function)


_MUST = "it must return (tokens [B, L+1], num_accepted [B])"


def checked_emissions(returned: object, drafts: Paths | Drafts, *, of_trees: bool = False) -> Emissions:
    """Return what a sampler returned as emitted tokens, with form, lengths, ids and padding checked.

    L is the depth ``of_trees``, whose tokens may have other columns of padding, or none. Raises
    `ContractError`, which says what was returned, and what must be; `ImpossibleOutputError` where only ids or
    lengths are out of range.
    """
    require_finished(returned)
    if not isinstance(returned, tuple | list) or len(returned) != 2:
        raise ContractError(f"verify returned {_described(returned)}; {_MUST}")
    tokens, accepted = (
        _integers(name, value) for name, value in zip(("tokens", "num_accepted"), returned, strict=True)
    )
    batch, width = drafts.batch, (drafts.depth if isinstance(drafts, Drafts) else drafts.draft_length) + 1
    if of_trees and tokens.ndim == 2:
        tokens = _fitted(tokens, accepted, width)
    if (tokens.shape, accepted.shape) == ((batch,), (batch, width)):
        raise ContractError(f"verify returned (num_accepted, tokens), in the wrong order; {_MUST}")
    if tokens.shape != (batch, width):
        raise ContractError(_misshaped("tokens", tokens, "[B, L+1]", (batch, width)))
    if accepted.shape != (batch,):
        raise ContractError(_misshaped("num_accepted", accepted, "[B]", (batch,)))
    lengths = accepted + 1
    emitted = np.arange(width) < lengths[:, None]
    outside = emitted & ((tokens < 0) | (tokens >= drafts.vocab_size))
    most = f"num_accepted must be from 0 to {width - 1}, without the last token"
    _require(most, (lengths < 1) | (lengths > width), accepted)
    _require(f"tokens must be ids from 0 to {drafts.vocab_size - 1}", outside, tokens)
    _require_padding(~emitted & (tokens != -1), tokens)
    return Emissions(tokens, lengths)


def _fitted(tokens: NDArray[np.int64], accepted: NDArray[np.int64], width: int) -> NDArray[np.int64]:
    """Return the tokens of trees [B, W] with so many columns: all others must be padding.

    Tokens there that ``accepted`` counts are left to the check of the accepted length.
    """
    behind = np.zeros(tokens.shape, dtype=bool)
    behind[:, width:] = True
    if accepted.shape == (len(tokens),):
        behind &= np.arange(tokens.shape[1]) > accepted[:, None]
    _require_padding(behind & (tokens != -1), tokens)
    missing = max(width - tokens.shape[1], 0)
    return np.pad(tokens[:, :width], ((0, 0), (0, missing)), constant_values=-1)


def require_finished(returned: object) -> None:
    """Raise `ContractError` where a sampler returned a coroutine or a generator."""
    if inspect.isgenerator(returned):
        raise ContractError(f"verify returned a generator, it has a `yield`; {_MUST}")
    if inspect.iscoroutine(returned):
        returned.close()
        raise ContractError(f"verify returned a coroutine, it is declared with `async def`; {_MUST}")


def _misshaped(name: str, array: Numbers, axes: str, shape: tuple[int, ...]) -> str:
    if array.ndim == len(shape) and array.shape[0] == 1 < shape[0]:
        return decided_for(1, shape[0])
    return f"{name}: shape {array.shape}, expected {axes} = {shape}"


def _integers(name: str, value: object) -> NDArray[np.int64]:
    """Return what was returned as integers; numbers of any type will do, as long as they are whole."""
    try:
        array = np.asarray(value.detach().cpu() if hasattr(value, "detach") else value)
        whole: NDArray[np.int64] = array.astype(np.int64)
    except (TypeError, ValueError, OverflowError):
        ragged = isinstance(value, list | tuple) and len({np.shape(row) for row in value if _is_row(row)}) > 1
        pad = "; pad every row with -1 to L+1 tokens" if ragged else ""
        raise ContractError(f"{name}: expected an array of integers, got {_described(value)}{pad}") from None
    if not np.array_equal(whole, array):
        raise ContractError(f"{name}: expected whole numbers, got {_described(value)}")
    return whole


def _is_row(value: object) -> bool:
    return isinstance(value, list | tuple | np.ndarray)


def _described(value: object) -> str:
    return "None" if value is None else f"{type(value).__name__} {short(value)}"


def short(value: object) -> str:
    """Return an object on one line of at most 80 characters."""
    shown = " ".join(repr(value).split())
    return f"{shown[:77]}..." if len(shown) > 80 else shown


def _require(what: str, wrong: NDArray[np.bool_], values: Numbers) -> None:
    if wrong.any():
        share = float(wrong.reshape(len(wrong), -1).any(axis=1).mean())
        raise ImpossibleOutputError(f"{what}; {_found(wrong, values)}", share)


def _require_padding(wrong: NDArray[np.bool_], tokens: Numbers) -> None:
    if wrong.any():
        raise ContractError(f"pad with -1 after the last emitted token; {_found(wrong, tokens)}")


def _found(wrong: NDArray[np.bool_], values: Numbers) -> str:
    index = np.argwhere(wrong)[0].tolist()
    return f"found {values[tuple(index)]} at {index}"
