"""Symbols inside ordinary torch tensors: boxes.

A symbol in a float tensor is a NaN whose payload is a number in the run's table of symbols; a symbol in an
integer tensor is a large negative number. So torch itself moves symbols about: views share memory, in-place
writes land where they should, and conversions between float32 and float64, or int32 and int64, keep the box.
No computed NaN has such a payload, and no token, index or count is near the integer boxes.
"""

import itertools
from typing import Any

import numpy as np
import torch

from spec_oracle.exact.interception.run import current_run
from spec_oracle.exact.interception.symbols import Pending, Symbol

FLOATS = (torch.float32, torch.float64)
INTEGERS = (torch.int32, torch.int64)

_CAPACITY = (1 << 20) - 1  # the last payload, all ones, is the NaN that vectorised log1p computes
_FLOAT_BASE = 0xFFD00000  # float32: sign, exponent all ones, quiet bit, marker bit; the payload is below
_INTEGER_BASE = -0x5A500000
_KEPT = "a tensor holds a random number of an earlier run"

_handles = itertools.count()  # one series for all runs, so that a box that outlives its run is noticed


def boxed_positions(tensor: Any) -> Any:
    """Return a bool array of the tensor's shape: where its elements are boxes. None when there are none."""
    if tensor.numel() == 0:
        return None
    if tensor.dtype in FLOATS:
        array = _shared(tensor)
        if not np.isnan(array).any():
            return None
        payloads = _payloads(array)
        found = (payloads >= 0) & (payloads < _CAPACITY)
    elif tensor.dtype in INTEGERS:
        array = _shared(tensor)
        if array.min() > _INTEGER_BASE:
            return None
        found = (array <= _INTEGER_BASE) & (array > _INTEGER_BASE - _CAPACITY)
    else:
        return None
    return found if found.any() else None


def symbols_at(tensor: Any, where: Any) -> list[Symbol]:
    """Return the symbols in the boxes at the positions that are True in ``where``.

    Raises `UnrepeatableError` for a box of an earlier run: the foreign code kept a tensor.
    """
    array = _shared(tensor)
    handles = _payloads(array) if tensor.dtype in FLOATS else _INTEGER_BASE - array
    run = current_run()
    wanted = [int(handle) for handle in handles[where]]
    if not run.boxed.keys() >= set(wanted):
        run.unrepeatable(_KEPT)
    return [run.boxed[handle] for handle in wanted]


def write(tensor: Any, where: Any, values: list[Any]) -> None:
    """Write numbers and symbols into the tensor at the positions that are True in ``where``.

    Pending integers are decided where the tensor's type has no boxes for them; raises `CannotFollowError` for
    noise that it cannot hold.
    """
    if tensor.dtype not in INTEGERS:
        values = [value.settled() if isinstance(value, Pending) else value for value in values]
    array, where = _shared(tensor), np.asarray(where)
    array[where] = [0 if isinstance(value, Symbol) else value for value in values]
    chosen = np.array([isinstance(value, Symbol) for value in values], dtype=bool)
    if not chosen.any():
        return
    handles = np.array([_box(value, tensor.dtype) for value in values if isinstance(value, Symbol)])
    positions = np.zeros(array.shape, dtype=bool)
    positions[where] = chosen
    if tensor.dtype in INTEGERS:
        array[positions] = _INTEGER_BASE - handles
    else:
        boxes = (_FLOAT_BASE + handles).astype(np.uint32).view(np.float32)
        bits = boxes.view(np.uint32) if tensor.dtype == torch.float32 else _widened(boxes)
        array.view(bits.dtype)[positions] = bits


def settle(tensor: Any, operation: str) -> None:
    """Replace boxed integers by their values, in place; raises `CannotFollowError` for boxed noise."""
    where = boxed_positions(tensor)
    if where is not None:
        write(tensor, where, [symbol.settled(operation) for symbol in symbols_at(tensor, where)])


def _box(symbol: Symbol, dtype: Any) -> int:
    run = current_run()
    if dtype not in (INTEGERS if isinstance(symbol, Pending) else FLOATS):
        run.cannot_follow(f"conversion to {dtype}", "such a tensor cannot hold a followed random number")
    if len(run.boxed) == _CAPACITY:
        run.cannot_follow("tensor", f"more than {_CAPACITY} random numbers")
    handle = next(_handles) % _CAPACITY
    run.boxed[handle] = symbol
    return handle


def _shared(tensor: Any) -> Any:
    if tensor.device.type != "cpu":
        current_run().cannot_follow("tensor", f"random numbers on device {tensor.device} are not followed")
    return tensor.detach().numpy() if tensor.requires_grad else tensor.numpy()


def _widened(boxes: Any) -> Any:
    """Return float64 bits of boxes in float32, as the processor's conversion makes them."""
    return (np.uint64(0xFFF) << np.uint64(52)) | (
        (boxes.view(np.uint32).astype(np.uint64) & np.uint64(0x7FFFFF)) << np.uint64(29)
    )


def _payloads(array: Any) -> Any:
    """Return the payload of each element of a float array, negative where it is not a box."""
    if array.dtype == np.float32:
        bits = array.view(np.uint32).astype(np.int64)
    else:
        wide = array.view(np.uint64)
        narrow = (wide >> np.uint64(29)) & np.uint64(0x7FFFFF)
        is_negative_nan = (wide >> np.uint64(52)) == np.uint64(0xFFF)
        bits = np.where(is_negative_nan, (narrow | np.uint64(0xFF800000)).astype(np.int64), 0)
    return bits - _FLOAT_BASE
