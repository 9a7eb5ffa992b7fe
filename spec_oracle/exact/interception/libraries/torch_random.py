"""torch's random operators on a `Source`, by operator name."""

import itertools
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

import numpy as np
import torch
from torch._ops import OpOverload
from torch.utils._mode_utils import no_dispatch

from spec_oracle.arrays import Floats
from spec_oracle.exact.interception.algebra import FUNCTIONS
from spec_oracle.exact.interception.libraries import Arguments, Keywords
from spec_oracle.exact.interception.libraries.torch_boxes import settle, tensors_in, write
from spec_oracle.exact.interception.own_seeds import is_untouched
from spec_oracle.exact.interception.sources import Traced, alike, categorical, distinct, from_stream, source
from spec_oracle.exact.interception.symbols import Scalar

_full: Final = np.full
default_generator: Final = torch.default_generator
"""As it is when nothing is traced."""

STAND_IN: Final = torch.Generator()
"""Stands in for the default generator while code is traced, so that this one stays where it is."""

_BITS: Final = {torch.float64: 53, torch.float32: 24}
_LOW: Final = (torch.float16, torch.bfloat16)
"""Types whose random numbers are rounded, so that they are not traced."""


def draw(func: OpOverload, args: Arguments, kwargs: Keywords) -> object:
    """Answer a random operator from the source; one that leaves torch's generator alone has drawn nothing."""
    if is_untouched(kwargs.get("generator")):
        return func(*args, **kwargs)
    name = f"{func.overloadpacket.__name__}.{func._overloadname}"  # noqa: SLF001  (no public name for it)
    if name in RANDOM and _type_of_draws(args, kwargs) not in _LOW:
        named = {key: value for key, value in kwargs.items() if key != "generator"}
        position = _position(kwargs.get("generator") or STAND_IN)
        return from_stream(position, func.overloadpacket.__name__, partial(RANDOM[name], *args, **named))
    for tensor in tensors_in(args, kwargs):
        settle(tensor, f"torch.{name}")
    generators = [default_generator, *filter(None, [kwargs.get("generator")])]
    states = [generator.get_state() for generator in generators]
    result = func(*args, **kwargs)
    on_cpu = all(tensor.device.type == "cpu" for tensor in tensors_in(result))
    if on_cpu and all(map(torch.equal, states, [generator.get_state() for generator in generators])):
        return result
    for generator, state in zip(generators, states, strict=True):
        generator.set_state(state)
    return source().other(f"torch.{func.overloadpacket.__name__}", func)(*args, **kwargs)


def _position(generator: torch.Generator) -> object:
    """Return where a generator is in its stream: some bits, which it draws."""
    if generator.device.type != "cpu":
        return object()
    with no_dispatch():
        return "torch", tuple(torch.empty(2, dtype=torch.int64).random_(generator=generator).tolist())


def _type_of_draws(args: Arguments, kwargs: Keywords) -> torch.dtype:
    tensor = args[0] if args and isinstance(args[0], torch.Tensor) else None
    default: torch.dtype = torch.get_default_dtype() if tensor is None else tensor.dtype
    return kwargs.get("dtype") or default


def _filled(tensor: torch.Tensor, make: Callable[[], Scalar], *, is_formula: bool = False) -> torch.Tensor:
    """Write fresh calls of ``make`` into every element; see `alike` for formulas."""
    everywhere, count = _full(tuple(tensor.shape), fill_value=True), tensor.numel()
    write(tensor, everywhere, alike(make, count) if is_formula else [make() for _ in range(count)])
    return tensor


def _tensor_options(kwargs: dict[str, object]) -> dict[str, object]:
    return {key: kwargs[key] for key in ("dtype", "layout", "device") if kwargs.get(key) is not None}


def _rand(size: Sequence[int], *, out: torch.Tensor = None, **kwargs: object) -> torch.Tensor:
    tensor = torch.empty(size, **_tensor_options(kwargs)) if out is None else out.resize_(size)
    return _uniform_in_place(tensor)


def _rand_like(tensor: torch.Tensor, **kwargs: object) -> torch.Tensor:
    return _uniform_in_place(torch.empty_like(tensor, **_tensor_options(kwargs)))


def _uniform(bits: int, low: float, high: float) -> Scalar:
    uniform = source().uniform(bits)
    return FUNCTIONS["add"](FUNCTIONS["multiply"](uniform, high - low), low)


def _uniform_in_place(tensor: torch.Tensor, low: float = 0.0, high: float = 1.0) -> torch.Tensor:
    _filled(tensor, partial(_uniform, _BITS[tensor.dtype], low, high), is_formula=True)
    if isinstance(source(), Traced):
        return tensor
    return tensor.masked_fill_(tensor >= high, low)  # what is rounded to `high`


def _exponential(bits: int, rate: float) -> Scalar:
    uniform = source().uniform(bits, zero=False)
    return FUNCTIONS["divide"](FUNCTIONS["log1p"](FUNCTIONS["negative"](uniform)), -rate)


def _exponential_in_place(tensor: torch.Tensor, rate: float = 1.0) -> torch.Tensor:
    """Fill with -log(1 - u) / rate; torch's documentation excludes 0."""
    return _filled(tensor, partial(_exponential, _BITS[tensor.dtype], rate), is_formula=True)


def _bernoulli(tensor: torch.Tensor, probability: float | None = None) -> torch.Tensor:
    return _bernoulli_in_place(torch.empty_like(tensor), tensor if probability is None else probability)


def _bernoulli_in_place(tensor: torch.Tensor, probability: torch.Tensor | float = 0.5) -> torch.Tensor:
    if isinstance(probability, float):
        chances = itertools.repeat(probability, tensor.numel())
    else:
        settle(probability, "bernoulli")
        chances = iter(probability.expand(tensor.shape).flatten().tolist())

    def coin() -> int:
        if not 0 <= (chance := next(chances)) <= 1:
            raise RuntimeError(f"bernoulli: expected a probability in [0, 1], got {chance}")
        return int(FUNCTIONS["less"](source().uniform(), chance))

    return _filled(tensor, coin)


def _multinomial(weights: torch.Tensor, num_samples: int, replacement: bool = False) -> torch.Tensor:  # noqa: FBT001, FBT002
    settle(weights, "multinomial")
    rows = weights.reshape(-1, weights.shape[-1]).double().cpu().numpy()
    draws = itertools.chain.from_iterable(
        [_index(row) for _ in range(num_samples)] if replacement else _distinct(row, num_samples)
        for row in rows
    )
    result = torch.empty((*weights.shape[:-1], num_samples), dtype=torch.int64)
    return _filled(result, lambda: next(draws))


def _index(row: Floats) -> Scalar:
    """Draw an index; of weights that are no law raise torch's error, which code may catch."""
    try:
        return categorical(row)
    except ValueError:
        is_zero = bool((row == 0).all())
        why = "all weights are zero" if is_zero else "a weight is negative, infinite or not a number"
        raise RuntimeError(f"multinomial: {why}") from None


def _distinct(row: Floats, count: int) -> list[Scalar]:
    _index(row)  # raises for weights that are no law
    if np.count_nonzero(row) < count:
        raise RuntimeError("multinomial: not enough positive weights to draw without replacement")
    return distinct(row, count)


def _randint(low: int, high: int, size: Sequence[int], **kwargs: object) -> torch.Tensor:
    tensor = torch.empty(size, **({"dtype": torch.int64} | _tensor_options(kwargs)))
    return _filled(tensor, lambda: FUNCTIONS["add"](source().integer(high - low), low))


RANDOM: Final[dict[str, Callable[..., torch.Tensor]]] = {
    "rand.default": _rand,
    "rand.generator": _rand,
    "rand.out": _rand,
    "rand.generator_out": _rand,
    "rand_like.default": _rand_like,
    "rand_like.generator": _rand_like,
    "uniform_.default": _uniform_in_place,
    "exponential_.default": _exponential_in_place,
    "bernoulli.default": _bernoulli,
    "bernoulli.p": _bernoulli,
    "bernoulli_.float": _bernoulli_in_place,
    "bernoulli_.Tensor": _bernoulli_in_place,
    "multinomial.default": _multinomial,
    "randint.default": partial(_randint, 0),
    "randint.generator": partial(_randint, 0),
    "randint.low": _randint,
    "randint.low_generator": _randint,
}
"""Operators with an answer from the source; of all others that torch tags as random, it decides itself."""
