"""Run torch code on boxes: modes that see every function and every operator of torch.

The dispatch mode sees the operators below torch's composite functions (`torch_operators`, `torch_random`);
the function mode sees the ways out of tensors and back.
"""

import functools
import operator
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import MethodWrapperType
from typing import Any, Final

import numpy as np
import torch
from torch._ops import OpOverload
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from spec_oracle.exact.interception.libraries import Arguments, Keywords, methods_replaced, replaced
from spec_oracle.exact.interception.libraries.numpy_arrays import NoiseArray, passing_for, plain_objects
from spec_oracle.exact.interception.libraries.torch_boxes import (
    FLOATS,
    address,
    boxed_positions,
    objects_in,
    settle,
    symbols_at,
    tensors_in,
    write,
)
from spec_oracle.exact.interception.libraries.torch_operators import on_boxes
from spec_oracle.exact.interception.libraries.torch_random import STAND_IN, draw
from spec_oracle.exact.interception.own_seeds import note_seed
from spec_oracle.exact.interception.run import current_run
from spec_oracle.exact.interception.sources import seed_of
from spec_oracle.exact.interception.symbols import Scalar, Symbol
from verifiers.arrays import Array

if not hasattr(TorchDispatchMode, "_should_skip_dynamo"):
    import torch._dynamo  # modes import it on first use, and what it imports draws from `random`: do it now

_UNINITIALISED = frozenset(("empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided"))


@functools.cache
def _is_random(func: OpOverload) -> bool:
    return torch.Tag.nondeterministic_seeded in func.tags


def _has_box(*values: object) -> bool:
    """Whether one of the `tensors_in` them holds a box."""
    return any(boxed_positions(tensor) is not None for tensor in tensors_in(*values))


class _Quick(TorchDispatchMode):  # type: ignore[misc]
    """A mode whose answers torch does not wrap against its compiler, which never sees them."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False


class _Operators(_Quick):
    """Answers every operator of torch while foreign code runs."""

    def __torch_dispatch__(
        self, func: OpOverload, types: object, args: Arguments = (), kwargs: Keywords | None = None
    ) -> object:
        kwargs = kwargs or {}
        boxed = _has_box(args, kwargs)
        if (boxed or _is_random(func)) and current_run().shown:
            _require_unshown(func, args, kwargs)
        if not boxed and not _is_random(func):
            result = func(*args, **kwargs)
            # What lay in its memory before may be boxes of a run that is over.
            return result.zero_() if func.overloadpacket.__name__ in _UNINITIALISED else result
        with torch._C.DisableTorchFunction():  # noqa: SLF001  (the function mode would answer us, too)
            try:
                if _is_composite(func):
                    with self:
                        return func.decompose(*args, **kwargs)
                return (draw if _is_random(func) else on_boxes)(func, args, kwargs)
            except TypeError as error:  # torch would take it for "not implemented", and == for "not equal"
                current_run().cannot_trace(f"torch.{func.overloadpacket.__name__}", str(error))


@functools.cache
def _is_composite(func: OpOverload) -> bool:
    """Whether an operator is made of others: in inference mode it arrives whole."""
    return bool(torch._C._dispatch_has_kernel_for_dispatch_key(func.name(), "CompositeImplicitAutograd"))  # noqa: SLF001  # no public name


def _show(tensor: torch.Tensor) -> None:
    """Note that others read the tensor's memory; no tensor may take its place."""
    current_run().shown.setdefault(address(tensor), tensor)


@functools.cache
def _written(func: OpOverload) -> list[tuple[int, str]]:
    """Return the places and names of the arguments that an operator writes to."""
    arguments = enumerate(func._schema.arguments)  # noqa: SLF001  (there is no public name)
    return [(place, one.name) for place, one in arguments if one.alias_info and one.alias_info.is_write]


def _require_unshown(func: OpOverload, args: Arguments, kwargs: Keywords) -> None:
    """Refuse to write where others would see boxes."""
    for position, argument in _written(func):
        value = args[position] if position < len(args) else kwargs.get(argument)
        if isinstance(value, torch.Tensor) and address(value) in current_run().shown:
            name = f"torch.{func.overloadpacket.__name__}"
            current_run().cannot_trace(name, "random numbers in memory that others read")


class _Random(_Quick):
    """Lets random operators draw from the source in use, and leaves the others alone."""

    def __torch_dispatch__(
        self, func: OpOverload, types: object, args: Arguments = (), kwargs: Keywords | None = None
    ) -> object:
        return draw(func, args, kwargs or {}) if _is_random(func) else func(*args, **(kwargs or {}))


def _element(tensor: torch.Tensor) -> Scalar:
    """Return the symbol in a tensor of one element: foreign code goes on with it as with a number."""
    if tensor.numel() > 1:
        return tensor.item()  # torch's own error
    return symbols_at(tensor, np.ones(tuple(tensor.shape), dtype=bool))[0]


def _array(tensor: torch.Tensor, *_: object, **__: object) -> Array:
    """Return an array with the symbols of a tensor, not to be written to; boxed integers are decided."""
    if tensor.dtype not in FLOATS:
        settle(tensor, "torch.Tensor.numpy")
        return tensor.numpy()
    array = passing_for(objects_in(tensor), np.float64 if tensor.dtype == torch.float64 else np.float32)
    array.flags.writeable = False
    _show(tensor)
    return array


def _text(tensor: torch.Tensor, *arguments: str, **_: object) -> str:
    """Return a text with the symbols of a tensor."""
    return (
        format(_element(tensor), *arguments) if tensor.ndim == 0 else f"tensor({objects_in(tensor).tolist()})"
    )


_WAYS_OUT: Final[dict[Callable[..., object], Callable[..., object]]] = {
    torch.Tensor.item: _element,
    torch.Tensor.__int__: lambda tensor: int(_element(tensor)),
    torch.Tensor.__float__: lambda tensor: float(_element(tensor)),
    torch.Tensor.__bool__: lambda tensor: bool(_element(tensor)),
    torch.Tensor.__index__: lambda tensor: operator.index(_element(tensor)),
    torch.Tensor.numpy: _array,
    torch.Tensor.__array__: _array,
    torch.Tensor.tolist: lambda tensor: objects_in(tensor).tolist(),
    torch.Tensor.__repr__: _text,
    torch.Tensor.__format__: _text,
}
"""Functions that return elements of a tensor, and what they return where it has boxes."""

_READERS: Final = frozenset(
    getattr(torch.Tensor, name)
    for name in """
    numpy __array__ data_ptr const_data_ptr mutable_data_ptr storage untyped_storage share_memory_ __dlpack__
    """.split()  # noqa: SIM905
    if hasattr(torch.Tensor, name)
)
"""Functions that let others read the memory: boxed integers are decided first, boxed noise is refused."""

_INDEXING: Final = frozenset({torch.Tensor.__getitem__, torch.Tensor.__setitem__})
_MAKERS: Final = frozenset({torch.tensor, torch.as_tensor, torch.asarray})

_PLAIN: Final = frozenset(
    getattr(owner, name)
    for owner in (torch, torch.Tensor, torch.nn.functional)
    for name in """
    add sub rsub mul div true_divide floor_divide neg abs exp log log1p sqrt rsqrt pow clamp clamp_min
    clamp_max minimum maximum eq ne lt le gt ge logical_and logical_or logical_not isnan isinf isfinite where
    sum prod mean cumsum cumprod max min amax amin argmax argmin any all sort argsort topk softmax log_softmax
    gather index_select masked_fill masked_fill_ scatter scatter_ cat stack view reshape expand expand_as
    squeeze unsqueeze flatten transpose permute contiguous clone detach repeat repeat_interleave flip
    to int long float double bool item tolist zeros ones full arange zeros_like ones_like full_like new_zeros
    new_ones new_full nonzero one_hot copy_ fill_ zero_ add_ sub_ mul_ div_ tril triu
    __getitem__ __setitem__ __len__ __int__ __float__ __bool__ __index__ __add__ __radd__ __sub__ __rsub__
    __mul__ __rmul__ __truediv__ __rtruediv__ __floordiv__ __mod__ __pow__ __neg__ __invert__ __and__ __or__
    __eq__ __ne__ __lt__ __le__ __gt__ __ge__ __iadd__ __isub__ __imul__ __itruediv__
    """.split()  # noqa: SIM905  (a list of a hundred strings is harder to read)
    if hasattr(owner, name)
)
"""Functions that draw nothing and leave nothing unwritten: on numbers alone they are not traced."""

_NUMBERS: Final = {bool, int, float, str, slice, type(None), type(...), torch.dtype, torch.device, torch.Size}


def _are_numbers(*values: Any) -> bool:
    """Whether arguments are ordinary through and through."""
    for value in values:
        kind = type(value)
        if kind is torch.Tensor:
            if boxed_positions(value) is not None:
                return False
        elif kind is tuple or kind is list:
            if not _are_numbers(*value):
                return False
        elif kind not in _NUMBERS:
            return False
    return True


class _Functions(TorchFunctionMode):  # type: ignore[misc]
    """Traces the ways out of tensors and back: ``item`` returns symbols, operators take them."""

    def __torch_function__(
        self, func: OpOverload, types: object, args: Arguments = (), kwargs: Keywords | None = None
    ) -> object:
        if type(func) is MethodWrapperType:  # an attribute, as ``shape``: the most frequent by far
            return func(*args)
        kwargs = kwargs or {}
        if func in _PLAIN:
            with torch._C._DisableTorchDispatch():  # noqa: SLF001  # no public way
                if _are_numbers(*args, *kwargs.values()):
                    return func(*args, **kwargs)
        if func in _WAYS_OUT and _has_box(args[0]):
            return _WAYS_OUT[func](*args, **kwargs)
        if func in _MAKERS:
            return _made(func, *args, **kwargs)
        if func in _INDEXING:
            args = (args[0], _place(args[1]), *args[2:])
        if func in _READERS:
            settle(args[0], f"torch.Tensor.{func.__name__}")
        if any(isinstance(value, Symbol) for value in (*args, *kwargs.values())):
            args = tuple(_boxed(v) if isinstance(v, Symbol) else v for v in args)
            kwargs = {k: _boxed(v) if isinstance(v, Symbol) else v for k, v in kwargs.items()}
        result = func(*args, **kwargs)
        if func in _READERS and (args[0].dtype in FLOATS or not isinstance(result, np.ndarray)):
            _show(args[0])
        return result


def _place(index: Any) -> Any:
    """Return an index with the pending integers in it decided, however deep they lie."""
    if isinstance(index, tuple | list):
        places = [*map(_place, index)]
        return places if isinstance(index, list) else tuple(places)  # a named one, too
    return int(index) if isinstance(index, Symbol) else index


def _made(func: Callable[..., torch.Tensor], data: object, **options: object) -> torch.Tensor:
    """Return a new tensor; one that shares its memory with an array is noted."""
    if _holds_symbols(data):
        return _boxed(data, options.get("dtype"))
    result = func(data, **options)
    if isinstance(data, np.ndarray) and func is not torch.tensor:
        _show(result)
    return result


def _holds_symbols(data: object) -> bool:
    if isinstance(data, list | tuple):
        return any(map(_holds_symbols, data))
    return isinstance(data, Symbol | NoiseArray)


def _boxed(data: Array, dtype: torch.dtype | None = None) -> torch.Tensor:
    """Return a tensor for a symbol, or for an array or nested lists with symbols; arrays are frozen then."""
    objects = plain_objects(data)
    if isinstance(data, NoiseArray):
        dtype = dtype or torch.from_numpy(np.empty(0, data.dtype)).dtype
    elif all(isinstance(element, int) for element in objects.flat):
        dtype = dtype or torch.int64
    elif isinstance(data, Symbol):
        dtype = dtype or torch.float64
    tensor = torch.zeros(objects.shape, dtype=dtype)
    write(tensor, np.ones(objects.shape, dtype=bool), list(objects.flat))
    while isinstance(data, np.ndarray):
        data.flags.writeable = False
        data = data.base
    return tensor


_really_to_dlpack: Final = torch.to_dlpack


def to_dlpack(tensor: torch.Tensor) -> object:
    """Return the capsule of an ordinary tensor, as torch does, whose modes do not see that function."""
    with torch._C.DisableTorchFunction():  # noqa: SLF001  (our own looks are not to be traced)
        settle(tensor, "torch.to_dlpack")
        _show(tensor)
        return _really_to_dlpack(tensor)


_seed: Final[Callable[..., torch.Generator]] = torch.Generator.manual_seed


def _seeded(generator: torch.Generator, seed: object) -> torch.Generator:
    """Seed a generator; a number takes the place of a random one."""
    if generator is not STAND_IN:
        note_seed(generator, seed)
    return _seed(generator, seed_of(seed))


def _manual_seed(seed: object) -> torch.Generator:
    """Seed the default generator; that of other devices is not traced."""
    return _seeded(STAND_IN, seed)


STAND_INS: Final[dict[str, Callable[..., object]]] = {
    "to_dlpack": to_dlpack,
    "from_numpy": functools.partial(_made, torch.from_numpy),
    "manual_seed": _manual_seed,
}
"""What stands in for functions of torch as long as code is traced."""


@contextmanager
def own_streams() -> Iterator[None]:
    """Let code seed, and set back, a generator that stands in for torch's default one."""
    STAND_IN.set_state(torch.default_generator.get_state())
    with (
        replaced(torch, default_generator=STAND_IN),
        replaced(torch.random, default_generator=STAND_IN),
        methods_replaced(torch.Generator, {"manual_seed": _seeded}),
    ):
        yield


@contextmanager
def enumerated_torch() -> Iterator[None]:
    """Enumerate torch's randomness, global or from generators, while the context is open: one run."""
    with _Functions(), _Operators():
        yield


@contextmanager
def drawn_by_torch() -> Iterator[None]:
    """Let torch's random operators draw from the source in use."""
    with _Random(), own_streams():
        yield
