"""Number types narrower than float32 in which code computes, whatever the type of its rows and results."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

_NARROW: Final = ("float16", "bfloat16", "float8")
_INT8: Final = ("int8", "uint8", "qint8", "quint8")


def is_narrow(name: str) -> bool:
    """Whether a number type has fewer digits than float32."""
    return name.startswith(_NARROW)


def type_name(array: object) -> str:
    """Return the name of the number type of an array of any library, "" for other objects."""
    return str(getattr(array, "dtype", "")).rpartition(".")[2]


@contextmanager
def operators_watched() -> Iterator[set[str]]:
    """Note the narrow number types in which operators of torch compute in this thread, if torch is in use.

    Weights in int8 that become float32 again before each product round nothing: int8 is noted where other
    numbers become int8.
    """
    seen = set[str]()
    torch: Any = sys.modules.get("torch")
    if torch is None:
        yield seen
        return
    from torch.utils._python_dispatch import TorchDispatchMode

    class Watch(TorchDispatchMode):  # type: ignore[misc]  # untyped
        def __torch_dispatch__(
            self, func: Any, types: object, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
        ) -> object:
            result = func(*args, **(kwargs or {}))
            made = result if isinstance(result, tuple | list) else [result]
            names = {type_name(one) for one in made if isinstance(one, torch.Tensor)}
            seen.update(filter(is_narrow, names))
            takes_floats = any(isinstance(one, torch.Tensor) and one.is_floating_point() for one in args)
            if func.namespace == "quantized" or (takes_floats and not names.isdisjoint(_INT8)):
                seen.add("int8")
            return result

    with Watch():
        yield seen
