"""What the operators of torch do to boxes: move them, compute on them, race them.

*Moving* operators (views, indexing, concatenation, ``where``) run as they are: boxes are ordinary bits to
them. *Elementwise* ones run as they are too, and then the elements that depend on a box are computed anew by
`algebra.FUNCTIONS`. *Races* are argmax and its relatives, up to a whole sort. To all others, boxed integers
are decided first, and boxed noise raises `CannotTraceError`: nothing ever computes on a box by mistake.
"""

import functools
from collections.abc import Callable
from typing import Final

import numpy as np
import torch
from torch._ops import OpOverload

from spec_oracle.arrays import Booleans
from spec_oracle.exact.interception.algebra import FUNCTIONS, truncate
from spec_oracle.exact.interception.comparisons import ORDERED, compared_with_many, computed, place_of
from spec_oracle.exact.interception.draws import Noise
from spec_oracle.exact.interception.libraries import Arguments, Keywords
from spec_oracle.exact.interception.libraries import torch_boxes as boxes
from spec_oracle.exact.interception.libraries.torch_boxes import FLOATS, INTEGERS, tensors_in, write
from spec_oracle.exact.interception.races import places
from spec_oracle.exact.interception.run import current_run
from spec_oracle.exact.interception.symbols import Pending, Scalar, Untraceable
from spec_oracle.exact.representatives import FEW
from verifiers.arrays import Array

_zeros: Final = np.zeros
"""As it is when nothing is traced."""

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

_PUTS: Final = ("index_put", "index_put_", "_index_put_impl_")
_BY_INDEX: Final = ("gather", "index_select", "scatter", "scatter_", "index_fill_", "index_copy_")
_INDEX_ARGUMENT: Final = dict.fromkeys(("index", *_PUTS), 1) | dict.fromkeys(_BY_INDEX, 2)
"""Position of the argument that says where, not what."""


def _scaled(value: Scalar, factor: Scalar) -> Scalar:
    return value if factor == 1 else FUNCTIONS["multiply"](value, factor)


def _clamp(value: Scalar, low: Scalar = None, high: Scalar = None) -> Scalar:
    value = value if low is None else FUNCTIONS["maximum"](value, low)
    return value if high is None else FUNCTIONS["minimum"](value, high)


def _quotient(left: Scalar, right: Scalar, rounding_mode: str | None = None) -> Scalar:
    quotient = FUNCTIONS["divide"](left, right)
    return FUNCTIONS[rounding_mode](quotient) if rounding_mode else quotient  # "floor" or "trunc"


_NAMES: Final = dict(
    pair.split(":")
    for pair in """
    sub:subtract mul:multiply div:divide pow:power neg:negative abs:absolute clamp_min:maximum
    clamp_max:minimum round:rint
    lt:less le:less_equal gt:greater ge:greater_equal eq:equal ne:not_equal
    """.split()  # noqa: SIM905
)
"""numpy's names of functions that torch calls otherwise."""

_ELEMENTWISE: Final[dict[str, Callable[..., Scalar]]] = {
    **{name: function for name, function in FUNCTIONS.items() if name != "equal"},  # torch's is of the whole
    **{torchs: FUNCTIONS[numpys] for torchs, numpys in _NAMES.items()},
    "add": lambda left, right, alpha=1: left + _scaled(right, alpha),
    "sub": lambda left, right, alpha=1: left - _scaled(right, alpha),
    "rsub": lambda left, right, alpha=1: right - _scaled(left, alpha),
    "div": _quotient,
    "addcmul": lambda first, left, right, value=1: first + _scaled(FUNCTIONS["multiply"](left, right), value),
    "addcdiv": lambda first, left, right, value=1: first + _scaled(_quotient(left, right), value),
    "clamp": _clamp,
    "nan_to_num": lambda value, *_: FUNCTIONS["positive"](value),
}
_OPTIONS: Final = frozenset({"alpha", "value", "rounding_mode"})

_FOLDS: Final = {
    "sum": (FUNCTIONS["add"], "reduce"),
    "prod": (FUNCTIONS["multiply"], "reduce"),
    "cumsum": (FUNCTIONS["add"], "accumulate"),
    "cumprod": (FUNCTIONS["multiply"], "accumulate"),
}

_ORDERS: Final[dict[str, Callable[..., tuple[int | None, bool]]]] = {
    "argmax": lambda _, dim=None, *__: (dim, True),
    "argmin": lambda _, dim=None, *__: (dim, False),
    "max": lambda _, dim, *__: (dim, True),
    "min": lambda _, dim, *__: (dim, False),
    "sort": lambda _, dim=-1, descending=False, **__: (dim, descending),
    "topk": lambda _, __, dim=-1, largest=True, *___: (dim, largest),
}
"""The axis, and whether the largest comes first, by the arguments of operators that put scores in order."""

_NUMBERS: Final = (int, float, bool, type(None))

_WINNERS: Final = ("argmax", "argmin")


def on_boxes(func: OpOverload, args: Arguments, kwargs: Keywords) -> object:
    """Run an operator, some of whose arguments hold boxes."""
    name = func.overloadpacket.__name__
    base = name[:-1] if name.endswith("_") and not name.endswith("__") else name
    if name in _MOVES and not _reads_bits(func, name, args, kwargs):
        return _move(func, name, args, kwargs)
    if base in _ELEMENTWISE and kwargs.keys() <= _OPTIONS:
        return _elementwise(func, base, args, kwargs)
    if name in _ORDERS and args[0].dtype in FLOATS and (name[:3] not in ("max", "min") or len(args) > 1):
        return _order(func, name, args, kwargs)
    if name in _FOLDS:
        return _fold(func, name, args, kwargs)
    if name in ("searchsorted", "bucketize"):
        return _search(func, name, args, kwargs)
    _settle_all(f"torch.{name}", args, kwargs)
    return func(*args, **kwargs)


def _reads_bits(func: OpOverload, name: str, args: Arguments, kwargs: Keywords) -> bool:
    """Whether this variant of a moving operator computes on its elements after all."""
    if kwargs.get("accumulate") or "reduce" in kwargs or (name in _PUTS and True in args[3:4]):
        return True
    return func._overloadname == "dtype" or (name == "where" and len(args) == 1)  # noqa: SLF001


def _settle_all(operation: str, *values: object) -> None:
    for tensor in tensors_in(*values):
        boxes.settle(tensor, operation)


def _move(func: OpOverload, name: str, args: Arguments, kwargs: Keywords) -> object:
    """Move boxes as the bits they are, once everything that says where to is decided."""
    if name in _INDEX_ARGUMENT:
        _settle_all(f"torch.{name}", args[_INDEX_ARGUMENT[name]])
    target = _destination(name, args, kwargs)
    for tensor in tensors_in(args, kwargs):
        if tensor is args[0] and name == "copy_":
            continue  # it is overwritten
        if name in _CONVERSIONS and not _keeps_boxes(tensor.dtype, target):
            return _convert(func, tensor, target, args, kwargs)
        if not _keeps_boxes(tensor.dtype, target):
            boxes.settle(tensor, f"torch.{name} to {target}")
    return func(*args, **kwargs)


def _keeps_boxes(source: torch.dtype, target: torch.dtype) -> bool:
    return (
        source == target
        or (source in FLOATS and target in FLOATS)
        or (source, target) == (torch.int32, torch.int64)
    )


def _destination(name: str, args: Arguments, kwargs: Keywords) -> torch.dtype:
    """Return the dtype of the memory into which a moving operator writes."""
    if name == "_to_copy":
        return kwargs.get("dtype") or args[0].dtype
    if name in ("cat", "stack"):
        return functools.reduce(torch.promote_types, (tensor.dtype for tensor in args[0]))
    if name == "where":
        return torch.result_type(*args[1:])
    return args[0].dtype


def _convert(
    func: OpOverload, origin: torch.Tensor, target: torch.dtype, args: Arguments, kwargs: Keywords
) -> torch.Tensor:
    """Convert to a type with other boxes, or none: to integers, noise is truncated."""
    convert = truncate if target in INTEGERS else FUNCTIONS["positive"]
    if target == torch.bool:
        convert = functools.partial(FUNCTIONS["not_equal"], 0)
    where, values = boxes.boxed_positions(origin), boxes.objects_in(origin)
    result = func(*args, **kwargs)
    if where is not None:
        where, values = (np.broadcast_to(part, tuple(result.shape)) for part in (where, values))
        write(result, where, [v if isinstance(v, Pending) else convert(v) for v in values[where]])
    return result


def _elementwise(func: OpOverload, base: str, args: Arguments, kwargs: Keywords) -> torch.Tensor:
    """Let torch compute, then replace the elements that depend on a box."""
    if all(type(v) in _NUMBERS or v.numel() == 1 for v in args):
        value = _ELEMENTWISE[base](
            *(boxes.element_of(v) if hasattr(v, "dtype") else v for v in args), **kwargs
        )
        result = func(*args, **kwargs)
        boxes.write_element(result, value)
        return result
    shape = np.broadcast_shapes(*(tuple(value.shape) for value in args if isinstance(value, torch.Tensor)))
    where = _zeros(shape, dtype=bool)
    boxed = [boxes.boxed_positions(value) if isinstance(value, torch.Tensor) else None for value in args]
    for some in boxed:
        if some is not None:
            where |= some
    name = _NAMES.get(base, base)
    if name in ORDERED and all(isinstance(value, torch.Tensor) for value in args):
        many = compared_with_many(name, *map(boxes.objects_at, args, boxed))
        if many is not None:
            return torch.from_numpy(many)
    if all(value.dtype in FLOATS for value in args if isinstance(value, torch.Tensor)):
        args = tuple(float(value) if type(value) is int else value for value in args)
    operands = [_operand(value, some, where) for value, some in zip(args, boxed, strict=True)]
    if base == "clamp" and all(type(value) in _NUMBERS for value in args[1:]):
        values = operands[0]
        for extreme, limits in zip(("maximum", "minimum"), operands[1:], strict=False):
            values = values if limits[0] is None else computed(extreme, [values, limits])
    elif where.size > FEW and name in FUNCTIONS and not kwargs:
        values = computed(name, operands)
    else:
        values = [_ELEMENTWISE[base](*elements, **kwargs) for elements in zip(*operands, strict=True)]
    result = func(*args, **kwargs)
    write(result, where, values)
    return result


def _operand(value: Array, boxed: Booleans | None, where: Booleans) -> list[Scalar]:
    """Return the elements of an argument that take part where ``where`` is True."""
    if not isinstance(value, torch.Tensor):
        return [value] * np.count_nonzero(where)
    if boxed is not None and boxed.shape == where.shape and boxed.all():
        return list(boxes.symbols_at(value, boxed))
    part: list[Scalar] = np.broadcast_to(boxes.objects_at(value, boxed), where.shape)[where].tolist()
    return part


def _order(func: OpOverload, name: str, args: Arguments, kwargs: Keywords) -> object:
    """Replace places by pending integers; the scores that take them exist but cannot be traced."""
    axis, largest = _ORDERS[name](*args, **kwargs)
    rows, boxed = (
        part.reshape(1, -1) if axis is None else np.moveaxis(part, axis, -1)
        for part in (boxes.objects_in(args[0]), boxes.boxed_positions(args[0]))
    )
    where = boxed.any(axis=-1)
    result = func(*args, **kwargs)
    parts = [result] if name.startswith("arg") else [result[1], result[0]]
    if name in ("sort", "topk"):
        parts = [part.movedim(axis, -1) for part in parts]
    else:
        parts = [part.reshape(*where.shape, 1) for part in parts]
    count = parts[0].shape[-1]
    everywhere = np.repeat(where[..., None], count, axis=-1)
    found = places(rows[where], largest=largest, count=count, none_wins=name in _WINNERS)
    write(parts[0], everywhere, list(found.flat))
    for scores in parts[1:]:
        write(scores, everywhere, [Untraceable(f"torch.{name}")] * int(everywhere.sum()))
    return result


def _fold(func: OpOverload, name: str, args: Arguments, kwargs: Keywords) -> object:
    """Sum or multiply along an axis, one element after the other."""
    function, method = _FOLDS[name]
    axis = args[1] if len(args) > 1 and args[1] != [] else None
    axis = tuple(axis) if isinstance(axis, list) else axis
    array, boxed = boxes.objects_in(args[0]), boxes.boxed_positions(args[0])
    values = np.asarray(getattr(np.frompyfunc(function, 2, 1), method)(array, axis=axis), dtype=object)
    where = np.asarray(getattr(np.logical_or, method)(boxed, axis=axis))
    result = func(*args, **kwargs)
    where, values = where.reshape(tuple(result.shape)), values.reshape(tuple(result.shape))
    write(result, where, list(values[where]))
    return result


def _search(func: OpOverload, name: str, args: Arguments, kwargs: Keywords) -> object:
    """Find noise in sorted numbers: one decision per boundary until the place is known."""
    boundaries, wanted = args[:2] if name == "searchsorted" else args[1::-1]
    _settle_all(f"torch.{name} (boundaries)", boundaries, kwargs)
    if kwargs.get("sorter") is not None:
        current_run().cannot_trace(f"torch.{name}", "the boundaries have to be sorted first")
    side = "right" if kwargs.get("right") or kwargs.get("side") == "right" else "left"
    limits = boundaries.detach().double().numpy()
    where = boxes.boxed_positions(wanted)
    limits = limits[..., None, :] if limits.ndim > 1 else limits
    limits = np.broadcast_to(limits, (*wanted.shape, limits.shape[-1]))
    found = [
        place_of(value, row, side) if isinstance(value, Noise) else int(row.searchsorted(value, side))
        for value, row in zip(boxes.symbols_at(wanted, where), limits[where], strict=True)
    ]
    result = func(*args, **kwargs)
    write(result, where, found)
    return result
