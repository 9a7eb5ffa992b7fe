"""Run torch code on boxes: a dispatch mode that sees every operator below torch's composite functions.

Operators fall into four groups. *Moving* ones (views, indexing, concatenation, ``where``) run as they are:
boxes are ordinary bits to them. *Elementwise* ones run as they are too, and then the elements that depend
on a box are computed anew by `arithmetic.FUNCTIONS`. *Races* are argmax and its relatives. To all others,
boxed integers are decided first, and boxed noise raises `CannotFollowError`: nothing ever computes on a box
by mistake.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import numpy as np
import torch
import torch._dynamo  # modes import it on first use, and what it imports draws from `random`: do it now
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from spec_oracle.exact.interception.arithmetic import FUNCTIONS, truncate
from spec_oracle.exact.interception.races import race
from spec_oracle.exact.interception.run import current_run
from spec_oracle.exact.interception.symbols import Pending, Scalar, Symbol, Untraceable
from spec_oracle.exact.interception.torch_boxes import (
    FLOATS,
    INTEGERS,
    boxed_positions,
    settle,
    symbols_at,
    write,
)
from spec_oracle.exact.interception.torch_modules import unwatched_modules
from spec_oracle.exact.interception.torch_random import RANDOM

_CONVERSIONS: Final = frozenset({"_to_copy", "copy_"})
_MOVES: Final = _CONVERSIONS | frozenset(
    """
    view _unsafe_view reshape expand slice select unsqueeze squeeze permute transpose t clone alias detach
    lift_fresh contiguous index gather index_select masked_select flip roll repeat as_strided diagonal unfold
    split split_with_sizes unbind constant_pad_nd cat stack where
    empty_like zeros_like ones_like full_like new_empty new_zeros new_ones new_full zero_
    fill_ masked_fill masked_fill_ index_put index_put_ _index_put_impl_ scatter scatter_ masked_scatter
    masked_scatter_ index_fill_ index_copy_ slice_scatter select_scatter
    """.split()  # noqa: SIM905  (a list of forty strings is harder to read)
)

_PUTS: Final = frozenset({"index_put", "index_put_", "_index_put_impl_"})

_INDEX_ARGUMENT: Final = {
    "index": 1,
    "gather": 2,
    "index_select": 2,
    "index_put": 1,
    "index_put_": 1,
    "_index_put_impl_": 1,
    "scatter": 2,
    "scatter_": 2,
    "index_fill_": 2,
    "index_copy_": 2,
}
"""Position of the argument that says where, not what."""


def _clamp(value: Scalar, low: Scalar = None, high: Scalar = None) -> Scalar:
    value = value if low is None else FUNCTIONS["maximum"](value, low)
    return value if high is None else FUNCTIONS["minimum"](value, high)


_ELEMENTWISE: Final[dict[str, Callable[..., Scalar]]] = {
    "add": FUNCTIONS["add"],
    "sub": FUNCTIONS["subtract"],
    "rsub": lambda left, right: FUNCTIONS["subtract"](right, left),
    "mul": FUNCTIONS["multiply"],
    "div": FUNCTIONS["divide"],
    "pow": FUNCTIONS["power"],
    "neg": FUNCTIONS["negative"],
    "abs": FUNCTIONS["absolute"],
    "lt": FUNCTIONS["less"],
    "le": FUNCTIONS["less_equal"],
    "gt": FUNCTIONS["greater"],
    "ge": FUNCTIONS["greater_equal"],
    "eq": FUNCTIONS["equal"],
    "ne": FUNCTIONS["not_equal"],
    "clamp_min": FUNCTIONS["maximum"],
    "clamp_max": FUNCTIONS["minimum"],
    "clamp": _clamp,
    "log": FUNCTIONS["log"],
    "log1p": FUNCTIONS["log1p"],
    "exp": FUNCTIONS["exp"],
    "expm1": FUNCTIONS["expm1"],
    "sqrt": FUNCTIONS["sqrt"],
    "reciprocal": FUNCTIONS["reciprocal"],
    "minimum": FUNCTIONS["minimum"],
    "maximum": FUNCTIONS["maximum"],
    "isnan": FUNCTIONS["isnan"],
    "isinf": FUNCTIONS["isinf"],
    "isfinite": FUNCTIONS["isfinite"],
    "floor": FUNCTIONS["floor"],
    "trunc": FUNCTIONS["trunc"],
}

_FOLDS: Final = {
    "sum": (FUNCTIONS["add"], "reduce"),
    "prod": (FUNCTIONS["multiply"], "reduce"),
    "cumsum": (FUNCTIONS["add"], "accumulate"),
    "cumprod": (FUNCTIONS["multiply"], "accumulate"),
}

_RACES: Final = {"argmax": True, "argmin": False, "max": True, "min": False}


class _Operators(TorchDispatchMode):  # type: ignore[misc]
    """Answers every operator of torch while foreign code runs."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = func.overloadpacket.__name__
        if torch.Tag.nondeterministic_seeded in func.tags:
            return _random(func, name, args, kwargs)
        if not any(_has_box(value) for value in (*args, *kwargs.values())):
            return func(*args, **kwargs)
        try:
            return _on_boxes(func, name, args, kwargs)
        except TypeError as error:  # torch would take it for "not implemented", and == for "not equal"
            current_run().cannot_follow(f"torch.{name}", str(error))


def _random(func: Any, name: str, args: Any, kwargs: Any) -> Any:
    handler = RANDOM.get(f"{name}.{func._overloadname}")  # noqa: SLF001  (there is no public name for it)
    if handler is None:
        current_run().cannot_follow(f"torch.{name}", "no enumerated version of this random operator")
    return handler(*args, **{key: value for key, value in kwargs.items() if key != "generator"})


def _on_boxes(func: Any, name: str, args: Any, kwargs: Any) -> Any:
    base = name[:-1] if name.endswith("_") and not name.endswith("__") else name
    if name in _MOVES and not _reads_bits(func, name, args, kwargs):
        return _move(func, name, args, kwargs)
    if base in _ELEMENTWISE and not kwargs.keys() - {"alpha"} and kwargs.get("alpha", 1) == 1:
        return _elementwise(func, _ELEMENTWISE[base], args, kwargs)
    if _is_race(name, args):
        return _race(func, name, args, kwargs)
    if name in _FOLDS:
        return _fold(func, name, args, kwargs)
    if name in ("searchsorted", "bucketize"):
        return _search(func, name, args, kwargs)
    for value in (*args, *kwargs.values()):
        _settle_all(value, f"torch.{name}")
    return func(*args, **kwargs)


def _reads_bits(func: Any, name: str, args: Any, kwargs: Any) -> bool:
    """Whether this variant of a moving operator computes on its elements after all."""
    accumulates = (
        bool(kwargs.get("accumulate")) or "reduce" in kwargs or (name in _PUTS and True in args[3:4])
    )
    return accumulates or func._overloadname == "dtype" or (name == "where" and len(args) == 1)  # noqa: SLF001


def _is_race(name: str, args: Any) -> bool:
    along_axis = name.startswith("arg") or (len(args) > 1 and isinstance(args[1], int))
    return name in _RACES and along_axis and args[0].dtype in FLOATS


def _tensors(value: Any) -> Iterator[Any]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, tuple | list):
        for part in value:
            yield from _tensors(part)


def _has_box(value: Any) -> bool:
    return any(boxed_positions(tensor) is not None for tensor in _tensors(value))


def _settle_all(value: Any, operation: str) -> None:
    for tensor in _tensors(value):
        settle(tensor, operation)


def _move(func: Any, name: str, args: Any, kwargs: Any) -> Any:
    """Move boxes as the bits they are, once everything that says where to is decided."""
    if name in _INDEX_ARGUMENT:
        _settle_all(args[_INDEX_ARGUMENT[name]], f"torch.{name}")
    target = _destination(name, args, kwargs)
    for tensor in _tensors((args, tuple(kwargs.values()))):
        fits = target in FLOATS if tensor.dtype in FLOATS else target in INTEGERS
        if not fits and tensor.dtype in FLOATS and target in INTEGERS and name in _CONVERSIONS:
            return _truncate(func, tensor, args, kwargs)
        if not fits:
            settle(tensor, f"torch.{name} to {target}")
    return func(*args, **kwargs)


def _destination(name: str, args: Any, kwargs: Any) -> Any:
    """Return the dtype of the memory into which a moving operator writes."""
    if name == "_to_copy":
        return kwargs.get("dtype") or args[0].dtype
    if name in ("cat", "stack"):
        dtypes = [tensor.dtype for tensor in args[0]]
        result = dtypes[0]
        for dtype in dtypes[1:]:
            result = torch.promote_types(result, dtype)
        return result
    if name == "where":
        return torch.result_type(*args[1:])
    return args[0].dtype


def _truncate(func: Any, source: Any, args: Any, kwargs: Any) -> Any:
    """Convert a float tensor to integers: noise is truncated by a decision."""
    where = boxed_positions(source)
    values = [truncate(symbol) for symbol in symbols_at(source, where)] if where is not None else []
    result = func(*args, **kwargs)
    if where is not None:
        write(result, np.broadcast_to(where, tuple(result.shape)), values)
    return result


def _objects(value: Any) -> Any:
    """Return a tensor as an object array of numbers and symbols; other values unchanged."""
    if not isinstance(value, torch.Tensor):
        return value
    array = np.asarray(value.detach().numpy()).astype(object)
    where = boxed_positions(value)
    if where is not None:
        boxes = np.empty(int(where.sum()), dtype=object)
        boxes[:] = symbols_at(value, where)
        array[where] = boxes
    return array


def _elementwise(func: Any, function: Callable[..., Scalar], args: Any, kwargs: Any) -> Any:
    """Let torch compute, then replace the elements that depend on a box."""
    shape = np.broadcast_shapes(*(tuple(value.shape) for value in args if isinstance(value, torch.Tensor)))
    where = np.zeros(shape, dtype=bool)
    for tensor in _tensors(args):
        boxed = boxed_positions(tensor)
        if boxed is not None:
            where |= boxed
    operands = [
        np.broadcast_to(_objects(value), shape)[where] if isinstance(value, torch.Tensor) else value
        for value in args
    ]
    values = [
        function(*(operand[i] if isinstance(operand, np.ndarray) else operand for operand in operands))
        for i in range(int(where.sum()))
    ]
    result = func(*args, **kwargs)
    write(result, where, values)
    return result


def _race(func: Any, name: str, args: Any, kwargs: Any) -> Any:
    """Replace winners by pending integers; the winning scores exist but cannot be followed."""
    scores = args[0]
    axis = args[1] if len(args) > 1 else kwargs.get("dim")
    array, boxed = _objects(scores), boxed_positions(scores)
    rows = array.reshape(1, -1) if axis is None else np.moveaxis(array, axis, -1)
    random = boxed.reshape(1, -1) if axis is None else np.moveaxis(boxed, axis, -1)
    where = random.any(axis=-1)
    winners = [race(list(row), largest=_RACES[name]) for row in rows[where]]
    result = func(*args, **kwargs)
    indices = result if name.startswith("arg") else result[1]
    where = where.reshape(tuple(indices.shape))
    write(indices, where, winners)
    if indices is not result:
        write(result[0], where, [Untraceable(f"torch.{name}")] * len(winners))
    return result


def _fold(func: Any, name: str, args: Any, kwargs: Any) -> Any:
    """Sum or multiply along an axis, one element after the other."""
    function, method = _FOLDS[name]
    axis = args[1] if len(args) > 1 and args[1] != [] else None
    axis = tuple(axis) if isinstance(axis, list) else axis
    array, boxed = _objects(args[0]), boxed_positions(args[0])
    values = np.asarray(getattr(np.frompyfunc(function, 2, 1), method)(array, axis=axis), dtype=object)
    where = np.asarray(getattr(np.logical_or, method)(boxed, axis=axis))
    result = func(*args, **kwargs)
    where, values = where.reshape(tuple(result.shape)), values.reshape(tuple(result.shape))
    write(result, where, list(values[where]))
    return result


def _search(func: Any, name: str, args: Any, kwargs: Any) -> Any:
    """Find noise in sorted numbers: one decision per boundary until the place is known."""
    boundaries, wanted = args[:2] if name == "searchsorted" else args[1::-1]
    settle(boundaries, f"torch.{name} (boundaries)")
    _settle_all(tuple(kwargs.values()), f"torch.{name}")
    array, where = _objects(wanted), boxed_positions(wanted)
    limits = boundaries.detach().numpy()
    if limits.ndim > 1:
        limits = np.broadcast_to(limits[..., None, :], (*array.shape, limits.shape[-1]))
    else:
        limits = np.broadcast_to(limits, (*array.shape, limits.shape[-1]))
    found = [
        sum(1 for _ in _boundaries_below(value, row))
        for value, row in zip(array[where], limits[where], strict=True)
    ]
    result = func(*args, **kwargs)
    write(result, where, found)
    return result


def _boundaries_below(value: Symbol, boundaries: Any) -> Iterator[float]:
    for boundary in boundaries:
        if value < float(boundary):
            return
        yield float(boundary)


_READERS: Final = frozenset(
    {
        torch.Tensor.tolist,
        torch.Tensor.numpy,
        torch.Tensor.__array__,
        torch.Tensor.data_ptr,
        torch.Tensor.untyped_storage,
        torch.Tensor.__dlpack__,
    }
)


class _Readers(TorchFunctionMode):  # type: ignore[misc]
    """Watches the ways out of tensors and back: ``item`` hands over symbols, operators take them.

    Before memory is read without an operator, boxed integers are decided and boxed noise is refused.
    """

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func is torch.Tensor.item and _has_box(args[0]):
            return _element(args[0])
        if func in _READERS:
            settle(args[0], f"torch.Tensor.{func.__name__}")
        if any(isinstance(value, Symbol) for value in (*args, *kwargs.values())):
            args = tuple(map(_boxed_scalar, args))
            kwargs = {key: _boxed_scalar(value) for key, value in kwargs.items()}
        return func(*args, **kwargs)


def _element(tensor: Any) -> Any:
    """Return the symbol in a tensor of one element: foreign code goes on with it as with a number."""
    if tensor.numel() > 1:
        return tensor.item()  # torch's own error
    return symbols_at(tensor, np.ones(tuple(tensor.shape), dtype=bool))[0]


def _boxed_scalar(value: Any) -> Any:
    """Return a symbol as a tensor without axes, which torch takes for a number; anything else as it is."""
    if not isinstance(value, Symbol):
        return value
    scalar = torch.zeros((), dtype=torch.int64 if isinstance(value, Pending) else torch.float64)
    write(scalar, np.ones((), dtype=bool), [value])
    return scalar


@contextmanager
def enumerated_torch() -> Iterator[None]:
    """Enumerate torch's randomness, global or from generators, while the context is open."""
    with _Readers(), _Operators(), unwatched_modules():
        yield
