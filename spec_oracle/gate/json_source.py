"""JSON files that are read as input: what is wrong in one is refused with its line."""

import json
import re
import sys
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Final, NoReturn, TypeAlias, TypeGuard, TypeVar

from spec_oracle.errors import InvalidInputError, unknown
from spec_oracle.json_data import Json

T = TypeVar("T")
At: TypeAlias = tuple[str | int, ...]
"""The way to a value: keys of objects, indices of arrays."""

_WORDS: Final[dict[type, str]] = {
    float: "a number",
    int: "a whole number",
    str: "a string",
    list: "an array",
    dict: "an object",
}
_LARGEST: Final = sys.float_info.max
_TOKEN: Final = re.compile(r'"(?:[^"\\]|\\.)*"|[][{},:]|[^\s\[\]{},:"]+')


def is_of(found: object, kind: type[T]) -> TypeGuard[T]:
    """Whether a value is of exactly that type; a whole number is a number, true is none."""
    return type(found) in ((int, float) if kind is float else (kind,))


class JsonSource:
    """A parsed file; ``hint`` ends each error: what to do about a file that is refused.

    Raises `InvalidInputError` for a file that cannot be read, and for an object that has a key twice.
    """

    def __init__(self, file: Path, hint: str) -> None:
        self.file, self._hint = file, hint
        self._lines: dict[At, int] = {}
        try:
            text = file.read_text(encoding="utf-8")
            self.data: Json = json.loads(text)
            for at, line in _values(text):
                if at in self._lines:
                    self.refuse(at, f"appears twice, here and in line {line}")
                self._lines[at] = line
        except RecursionError:
            raise InvalidInputError(f"{file}: cannot be read: it is nested too deeply") from None
        except InvalidInputError:
            raise
        except (OSError, ValueError) as error:
            raise InvalidInputError(f"{file}: cannot be read: {error}") from None

    def refuse(self, at: At, message: str) -> NoReturn:
        """Raise the error that points to a value, or to what should contain one that is missing."""
        found = at
        while found not in self._lines:
            found = found[:-1]
        name = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in at).lstrip(".")
        where = f"{self.file}:{self._lines[found]}: {name and name + ': '}"
        raise InvalidInputError(f"{where}{message}; {self._hint}")

    def value(self, at: At, kind: type[T]) -> T:
        """Return the value there, of the type that it must have, as those around it."""
        found = self.data
        for place, step in enumerate(at):
            if isinstance(step, int):
                found = self._required(at[:place], found, list)[step]
            elif step in (table := self._required(at[:place], found, dict)):
                found = table[step]
            else:
                self.refuse(at[: place + 1], f"missing; expected {_WORDS[kind]}")
        return self._required(at, found, kind)

    def _required(self, at: At, found: Json, kind: type[T]) -> T:
        if not is_of(found, kind):
            self.refuse(at, f"expected {_WORDS[kind]}, got {json.dumps(found):.80}")
        return found

    def number(self, at: At, least: float, most: float = _LARGEST) -> float:
        """Return a number from ``least`` to ``most``; infinite ones and NaN are refused."""
        found = self.value(at, float)
        if not least <= found <= most:
            wanted = f"of at least {least:g}" if most == _LARGEST else f"from {least:g} to {most:g}"
            self.refuse(at, f"expected a number {wanted}, got {json.dumps(found):.80}")
        return float(found)

    def require_keys(self, at: At, known: Collection[str]) -> None:
        """Refuse what is no object, and keys that nobody knows."""
        for key in self.value(at, dict):
            if key not in known:
                self.refuse((*at, key), unknown(key, known, "key"))


def _values(text: str) -> Iterator[tuple[At, int]]:
    """Yield the way to each value of a document that is JSON, and its line, counted from 1."""
    tokens, line, end = _TOKEN.finditer(text), 1, 0

    def following() -> str:
        nonlocal line, end
        token = next(tokens)
        line += text.count("\n", end, token.start())
        end = token.start()
        return token.group()

    def walk(at: At, token: str) -> Iterator[tuple[At, int]]:
        yield at, line
        closing = {"{": "}", "[": "]"}.get(token)
        if closing is None:
            return
        number, token = 0, following()
        while token != closing:
            step: str | int = number
            if closing == "}":
                step, _, token = json.loads(token), following(), following()
            yield from walk((*at, step), token)
            number += 1
            if (token := following()) == ",":
                token = following()

    yield from walk((), following())
