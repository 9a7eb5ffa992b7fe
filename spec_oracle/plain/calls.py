"""Calling code of the plain contract on numpy drafts, in its own array library and number type."""

import random
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spec_oracle.errors import InvalidInputError, SpecOracleError
from spec_oracle.plain.contract import Emissions, PlainFunction, SubjectRaisedError, checked_emissions
from verifiers import AnyVerifier, Drafts, StatefulVerifier, numpy_decisions, torch_decisions

LIBRARIES = ("numpy", "torch")
LAYOUTS = ("contiguous", "sliced", "transposed")
"""How arrays may lie in memory: row by row, as a part of larger ones, or column by column."""
NO_OPTIONS: Mapping[str, NDArray[Any]] = MappingProxyType({})


@dataclass(frozen=True)
class PlainCode:
    """A function of the plain contract, the library ``array`` whose arrays it takes, and the form of these.

    ``dtype`` is the type of the rows, ``ids`` that of the drafted tokens, ``layout`` one of `LAYOUTS`.
    """

    function: PlainFunction
    array: str = "numpy"
    dtype: str = "float64"
    ids: str = "int64"
    layout: str = "contiguous"

    def __call__(
        self, drafts: Drafts, randomness: Any, options: Mapping[str, NDArray[Any]] = NO_OPTIONS
    ) -> Emissions:
        """Verify numpy drafts; ``randomness`` is a generator, or numpy uniforms [B, L+1] for code that
        takes them; ``options`` are keyword arguments beyond the contract.

        Raises `ContractError` for tokens or lengths that are no emission, `SubjectRaisedError` when the
        function itself raises.
        """
        tokens, draft, target = (self.handed(array) for array in plain_arguments(drafts))
        if isinstance(randomness, np.ndarray):
            # Uniforms keep their type, whatever the rows come in.
            randomness = to_library(np.ascontiguousarray(randomness), self.array)
        keywords = {name: self.handed(values) for name, values in options.items()}
        with raising():
            returned = self.function(tokens, draft, target, randomness, **keywords)
        return checked_emissions(returned, drafts)

    def handed(self, array: NDArray[Any]) -> Any:
        """Return a copy of a numpy array as the function gets it."""
        return Handed(self, array).fresh()

    def generator(self, seed: int) -> Any:
        """Return a seeded generator of the library; see `make_generator`."""
        return make_generator(self.array, seed)


class Handed:
    """One array as the function gets it, again and again, whatever calls write into it.

    The memory is the same every time: at full vocabularies new memory costs more than a call.
    """

    def __init__(self, code: PlainCode, array: NDArray[Any]) -> None:
        form = code.dtype if array.dtype.kind == "f" else code.ids if array.dtype == np.int64 else ""
        converted = to_library(array, code.array, form)
        self._base, self._view = _laid_out(converted, code.layout)
        self._kept: Any = None

    def fresh(self) -> Any:
        """Return the array with its first contents."""
        if self._kept is None:
            self._kept = self._base.clone() if hasattr(self._base, "clone") else self._base.copy()
        else:
            self._base[...] = self._kept
        return self._view


def _laid_out(array: Any, layout: str) -> tuple[Any, Any]:
    """Return the memory, all of it, and the array that lies in it."""
    if layout == "contiguous":
        return array, array
    if layout == "transposed":
        axes = tuple(range(array.ndim))[::-1]
        if hasattr(array, "permute"):
            base = array.permute(axes).contiguous()
            return base, base.permute(axes)
        base = np.ascontiguousarray(array.transpose(axes))
        return base, base.transpose(axes)
    shape = (*array.shape[:-1], 2 * array.shape[-1] + 1)
    base = array.new_ones(shape) if hasattr(array, "new_ones") else np.ones(shape, array.dtype)
    base[..., 1::2] = array
    return base, base[..., 1::2]


@contextmanager
def raising() -> Iterator[None]:
    """Turn whatever code under test raises inside the block into a `SubjectRaisedError`."""
    try:
        yield
    except (SpecOracleError, KeyboardInterrupt):
        raise
    except BaseException as error:  # it may call sys.exit
        raise SubjectRaisedError(f"raised {type(error).__name__}: {error}") from error


def plain_arguments(drafts: Drafts) -> tuple[NDArray[Any], ...]:
    """Return tokens, draft rows and target rows; a single path has no axis of paths."""
    arrays = (drafts.tokens, drafts.draft_probs, drafts.target_probs)
    return tuple(array[:, 0] for array in arrays) if drafts.num_paths == 1 else arrays


def make_generator(array: str, seed: int) -> Any:
    """Return a generator of the array library, and seed the global ones, which the function may use.

    Every generator gets a seed of its own: code that uses two of them must not find them in step.
    """
    of_python, of_numpy, of_torch = (int(s) for s in np.random.SeedSequence(seed).generate_state(3))
    random.seed(of_python)
    np.random.seed(of_numpy)  # noqa: NPY002  # foreign code may use the legacy global generator
    if array == "torch":
        import torch

        torch.manual_seed(of_torch)
        return torch.Generator().manual_seed(seed)
    return _Generator(np.random.PCG64(seed))


class _Generator(np.random.Generator):
    """numpy's; also fills buffers that the function made while it was traced, which hold objects."""

    def random(self, size: Any = None, dtype: Any = np.float64, out: Any = None) -> Any:
        return _into(out, super().random, size, dtype)

    def standard_exponential(
        self, size: Any = None, dtype: Any = np.float64, method: Any = "zig", out: Any = None
    ) -> Any:
        return _into(out, super().standard_exponential, size, dtype, method)

    def standard_normal(self, size: Any = None, dtype: Any = np.float64, out: Any = None) -> Any:
        return _into(out, super().standard_normal, size, dtype)


def _into(out: Any, draw: Any, size: Any, *how: Any) -> Any:
    if out is None or not out.dtype.hasobject:
        return draw(size, *how, out=out)
    out[...] = draw(out.shape, *how)
    return out


def to_library(array: NDArray[Any], library: str, dtype: str = "") -> Any:
    """Return a copy of a numpy array for the library ("numpy" or "torch") that code under test works in.

    Numbers become ``dtype``, a name that the library knows, "" to stay what they are.
    """
    if array.ndim and array.strides[0] == 0:
        # One row that stands for all, as on large vocabularies: convert it once.
        one = to_library(array[:1].copy(), library, dtype)
        return one.expand(array.shape).clone() if library == "torch" else one.repeat(len(array), axis=0)
    if library == "torch":
        import torch

        tensor = torch.from_numpy(array.copy())
        return tensor.to(getattr(torch, dtype)) if dtype else tensor
    return array.astype(dtype) if dtype else array.copy()


def as_plain(verifier: AnyVerifier) -> PlainFunction:
    """Return a verifier as a function of the plain contract, sampling with the generator it is handed."""
    if isinstance(verifier, StatefulVerifier):
        raise InvalidInputError("verifier: one that carries a state does not fit the plain contract")

    def verify(tokens: Any, draft_probs: Any, target_probs: Any, generator: Any) -> tuple[Any, Any]:
        if tokens.ndim == 2:
            tokens, draft_probs, target_probs = tokens[:, None], draft_probs[:, None], target_probs[:, None]
        decide = numpy_decisions if isinstance(tokens, np.ndarray) else torch_decisions
        verdict = verifier.verify(Drafts(tokens, draft_probs, target_probs), decide(generator))
        return verdict.emitted, verdict.num_accepted

    return verify
