"""Symbols inside ordinary torch tensors: boxes.

A symbol in a float tensor is a NaN whose payload is a number in the run's table of symbols; a symbol in an
integer tensor is a large negative number. So torch itself moves symbols about: views share memory, in-place
writes land where they should, and conversions between float32 and float64, or from int32 to int64, keep the
box. No computed NaN has such a payload, and no token, index or count is near the integer boxes. Tensors of
other types have no room for boxes.
"""

import itertools
import struct
from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils._mode_utils import no_dispatch

from spec_oracle.arrays import Booleans, Numbers
from spec_oracle.exact.interception import maps
from spec_oracle.exact.interception.draws import Noise
from spec_oracle.exact.interception.run import active_run, current_run
from spec_oracle.exact.interception.sources import FreshNoises
from spec_oracle.exact.interception.symbols import Pending, Scalar, Symbol
from verifiers.arrays import Array

FLOATS: Final = (torch.float32, torch.float64)
INTEGERS: Final = (torch.int32, torch.int64)

_array, _full, _zeros = np.array, np.full, np.zeros  # as they are when nothing is traced
_fromiter = np.fromiter

_CAPACITY = (1 << 20) - 1  # the last payload, all ones, is the NaN that vectorised log1p computes
_FLOAT_BASE = 0xFFD00000  # float32: sign, exponent all ones, quiet bit, marker bit; the payload is below
_INTEGER_BASE = -0x5A500000
_KEPT = "a tensor holds a random number of an earlier run"

_handles: Iterator[int] = itertools.count()  # one series, so that a box that outlives its run is noticed


def tensors_in(*values: object) -> Iterator[torch.Tensor]:
    """Yield the tensors in arguments, and in lists, tuples and dictionaries among them."""
    for value in values:
        if isinstance(value, torch.Tensor):
            yield value
        elif isinstance(value, tuple | list):
            yield from tensors_in(*value)
        elif isinstance(value, dict):
            yield from tensors_in(*value.values())


def boxed_positions(tensor: torch.Tensor) -> Array:
    """Return a bool array of the tensor's shape: where its elements are boxes. None when there are none."""
    dtype = tensor.dtype
    if dtype not in _BOXING or tensor.numel() == 0 or active_run.get() is None:
        return None
    array = _shared(tensor)
    if array.size == 1:
        return None if _handle(array.item()) is None else _full(array.shape, fill_value=True)
    least = np.minimum.reduce(array, axis=None)
    if dtype in INTEGERS:
        if least > _INTEGER_BASE:
            return None
        found = (array <= _INTEGER_BASE) & (array > _INTEGER_BASE - _CAPACITY)
    else:
        if least == least:  # noqa: PLR0124  # no NaN, for which even this is slow
            return None
        payloads = _payloads(array)
        found = (payloads >= 0) & (payloads < _CAPACITY)
    return found if np.logical_or.reduce(found, axis=None) else None


def symbols_at(tensor: torch.Tensor, where: Booleans) -> list[Symbol]:
    """Return the symbols in the boxes at the positions that are True in ``where``.

    Raises `UnrepeatableError` for a box of an earlier run: the foreign code kept a tensor.
    """
    array = _shared(tensor)
    handles = _INTEGER_BASE - array if tensor.dtype in INTEGERS else _payloads(array)
    try:
        return list(map(current_run().boxed.__getitem__, handles[where].tolist()))
    except KeyError:
        current_run().unrepeatable(_KEPT)


def element_of(tensor: torch.Tensor) -> Scalar:
    """Return the only element of a tensor, a number or a symbol."""
    if tensor.dtype not in _BOXING:
        return tensor.item()
    number = _shared(tensor).item()
    handle = _handle(number)
    if handle is None:
        return number
    try:
        return current_run().boxed[handle]
    except KeyError:
        current_run().unrepeatable(_KEPT)


def _handle(number: float) -> int | None:
    """Return the number in the table of a box, None for what is no box."""
    if type(number) is int:
        return _INTEGER_BASE - number if _INTEGER_BASE - _CAPACITY < number <= _INTEGER_BASE else None
    if number == number:  # noqa: PLR0124  # no NaN
        return None
    (bits,) = _BITS_OF.unpack(_NUMBER.pack(number))
    handle = (bits >> 29 & 0x7FFFFF | 0xFF800000) - _FLOAT_BASE
    return handle if bits >> 52 == 0xFFF and 0 <= handle < _CAPACITY else None


_NUMBER, _BITS_OF = struct.Struct("<d"), struct.Struct("<Q")


def objects_in(tensor: torch.Tensor) -> Array:
    """Return a tensor as an object array of numbers and symbols."""
    return objects_at(tensor, boxed_positions(tensor))


def objects_at(tensor: torch.Tensor, where: Booleans | None) -> Array:
    """Return the same; ``where`` are its `boxed_positions`."""
    with no_dispatch():
        has_numpys = tensor.dtype is not torch.bfloat16
        array = (tensor.detach() if has_numpys else tensor.detach().float()).numpy().astype(object)
    if where is not None:
        array[where] = np.fromiter(symbols_at(tensor, where), dtype=object)  # of a list, numpy asks each
    return array


def write(tensor: torch.Tensor, where: Booleans, values: Sequence[Scalar]) -> None:
    """Write numbers and symbols into the tensor at the positions that are True in ``where``.

    Pending integers are decided where the tensor's type has no boxes for them; raises `CannotTraceError` for
    noise that the tensor cannot hold.
    """
    if len(values) == tensor.numel() == 1 and tensor.dtype in _BOXING and tensor.is_cpu:
        write_element(tensor, values[0])
        return
    if type(values) is FreshNoises and tensor.dtype in FLOATS:
        _write_boxes(tensor, where, _box(values, tensor.dtype))
        return
    kinds = set(map(type, values))  # there may be as many values as tokens, and they are of few types
    if tensor.dtype not in INTEGERS and Pending in kinds:
        values = [value.settled() if type(value) is Pending else value for value in values]
        kinds = set(map(type, values))
    symbols = {kind for kind in kinds if issubclass(kind, Symbol)}
    if not symbols:
        _write_numbers(tensor, where, values)
        return
    if symbols == kinds:
        positions, boxed = where, values
    else:
        chosen = _array([type(value) in symbols for value in values], dtype=bool)
        _write_numbers(tensor, where, [0 if is_one else v for is_one, v in zip(chosen, values, strict=True)])
        positions, boxed = _zeros(where.shape, dtype=bool), list(itertools.compress(values, chosen))
        positions[where] = chosen
    _write_boxes(tensor, positions, _box(boxed, tensor.dtype))


def _write_boxes(tensor: torch.Tensor, positions: Booleans, handles: NDArray[np.int64]) -> None:
    array = _shared(tensor)
    if tensor.dtype in INTEGERS:
        array[positions] = _INTEGER_BASE - handles
    else:
        boxes = (_FLOAT_BASE + handles).astype(np.uint32).view(np.float32)
        bits = boxes.view(np.uint32) if tensor.dtype == torch.float32 else _widened(boxes)
        array.view(bits.dtype)[positions] = bits


def write_element(tensor: torch.Tensor, value: Scalar) -> None:
    """Write the only element of a tensor, as `write`."""
    if isinstance(value, Pending) and tensor.dtype not in INTEGERS:
        value = value.settled()
    array = _shared(tensor)
    if not isinstance(value, Symbol):
        array[...] = value
        return
    handle = int(_box([value], tensor.dtype)[0])
    if tensor.dtype in INTEGERS:
        array[...] = _INTEGER_BASE - handle
    elif tensor.dtype == torch.float32:
        array.view(np.uint32)[...] = _FLOAT_BASE + handle
    else:
        array.view(np.uint64)[...] = 0xFFF << 52 | (_FLOAT_BASE + handle & 0x7FFFFF) << 29


def _write_numbers(tensor: torch.Tensor, where: Booleans, numbers: Sequence[float]) -> None:
    if tensor.device.type != "cpu":
        tensor[torch.from_numpy(where).to(tensor.device)] = torch.tensor(numbers).to(tensor)
        return
    if tensor.dtype not in _BOXING:
        with no_dispatch():
            tensor[torch.tensor(where)] = torch.tensor(numbers, dtype=tensor.dtype)
        return
    _shared(tensor)[where] = numbers


def settle(tensor: torch.Tensor, operation: str) -> None:
    """Replace boxed integers by their values, in place; raises `CannotTraceError` for boxed noise."""
    where = boxed_positions(tensor)
    if where is not None:
        write(tensor, where, [symbol.settled(operation) for symbol in symbols_at(tensor, where)])


def address(tensor: torch.Tensor) -> int:
    """Return where the memory begins that the tensor is a view of."""
    return int(tensor.untyped_storage().data_ptr())


_BOXING: Final = frozenset((*FLOATS, *INTEGERS))


def _box(symbols: Sequence[Symbol], dtype: torch.dtype) -> NDArray[np.int64]:
    """Enter symbols in the table of the run, as a tensor of that type holds them; return their numbers."""
    run = current_run()
    for kind in set(map(type, symbols)) if dtype not in FLOATS else ():
        some = [symbol for symbol in symbols if type(symbol) is kind]
        has_room = dtype in INTEGERS and issubclass(kind, Pending)
        if issubclass(kind, Noise):
            has_room = dtype in INTEGERS and all(maps.is_integral(symbol.chain) for symbol in some)
        if not has_room:
            run.cannot_trace(f"conversion to {dtype}", "such a tensor cannot hold a traced random number")
    numbers = itertools.islice(_handles, len(symbols))
    handles = _fromiter(numbers, np.int64, len(symbols)) % _CAPACITY
    if run.boxed.size + len(symbols) > _CAPACITY:
        run.cannot_trace("tensor", f"more than {_CAPACITY} random numbers in tensors")
    wraps = len(handles) > 0 and handles[0] > handles[-1]
    is_later = type(symbols) is FreshNoises and not wraps
    consecutive = range(int(handles[0]), int(handles[-1]) + 1) if is_later else handles.tolist()
    run.boxed.enter(consecutive, symbols, later=is_later)
    return handles


def _shared(tensor: torch.Tensor) -> Array:
    """Return the tensor's memory as an array."""
    if not tensor.is_cpu:
        current_run().cannot_trace("tensor", f"random numbers on device {tensor.device}")
    with torch._C._DisableTorchDispatch():  # noqa: SLF001  # no public way
        try:
            return tensor.detach().numpy() if tensor.requires_grad else tensor.numpy()
        except RuntimeError:
            if not torch._C._functorch.is_functorch_wrapped_tensor(tensor):  # noqa: SLF001
                raise
            current_run().cannot_trace("torch.vmap", "tensors inside it do not show their elements")


def _widened(boxes: Numbers) -> NDArray[np.uint64]:
    """Return float64 bits of boxes in float32, as the processor's conversion makes them."""
    return (np.uint64(0xFFF) << np.uint64(52)) | (
        (boxes.view(np.uint32).astype(np.uint64) & np.uint64(0x7FFFFF)) << np.uint64(29)
    )


def _payloads(array: Array) -> Array:
    """Return the payload of each element of a float array, negative where it is not a box."""
    if array.dtype == np.float32:
        bits = array.view(np.uint32).astype(np.int64)
    else:
        wide = array.view(np.uint64)
        narrow = (wide >> np.uint64(29)) & np.uint64(0x7FFFFF)
        is_negative_nan = (wide >> np.uint64(52)) == np.uint64(0xFFF)
        bits = np.where(is_negative_nan, (narrow | np.uint64(0xFF800000)).astype(np.int64), 0)
    return bits - _FLOAT_BASE
