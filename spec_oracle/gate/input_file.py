"""JSON and TOML files that are read as input: a mistake in one is refused with its place."""

import json
import sys
import tomllib
from collections.abc import Collection, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Final, NoReturn, TypeAlias, TypeGuard, TypeVar

from spec_oracle.arrays import Json
from spec_oracle.errors import InvalidInputError, unknown

T = TypeVar("T")
At: TypeAlias = tuple[str | int, ...]
"""The way to a value: keys of objects or tables, indices of arrays."""

_WORDS: Final[Mapping[type, str]] = {
    bool: "true or false",
    float: "a number",
    int: "a whole number",
    str: "a string",
    list: "an array",
}
_LARGEST: Final = sys.float_info.max


def _is_of(found: object, kind: type[T]) -> TypeGuard[T]:
    """Whether a value is of exactly that type; a whole number is a number, true is none."""
    return type(found) in ((int, float) if kind is float else (kind,))


class InputFile:
    """A parsed file: JSON, which programs write, or TOML, which people do: there errors name the line.

    ``data`` is the part of it at ``table``, None if it has none. ``hint`` ends each error: what to do about a
    file that is refused. Raises `InvalidInputError` for a file that cannot be read, and for an object of JSON
    that has a key twice.
    """

    def __init__(self, file: Path, hint: str = "", *, is_toml: bool = False, table: At = ()) -> None:
        self.file, self.table, self._hint = file, table, hint
        self._is_toml = is_toml
        read = tomllib.loads if is_toml else partial(json.loads, object_pairs_hook=self._object)
        try:
            self._text = file.read_text(encoding="utf-8")
            self._document: Json = read(self._text)
        except RecursionError:
            raise InvalidInputError(f"{file}: cannot be read: it is nested too deeply") from None
        except InvalidInputError:
            raise
        except (OSError, ValueError) as error:
            raise InvalidInputError(f"{file}: cannot be read: {error}") from None
        self.data = _at(self._document, table)

    def _object(self, pairs: list[tuple[str, Json]]) -> dict[str, Json]:
        """Return an object of JSON; refuse one that has a key twice."""
        found = dict[str, Json]()
        for key, value in pairs:
            if key in found:
                self.refuse((key,), "appears twice in one object")
            found[key] = value
        return found

    def refuse(self, at: At, message: str) -> NoReturn:
        """Raise the error that points to a value, or to what should contain one that is missing."""
        name = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in at).lstrip(".")
        line = f":{self._line((*self.table, *at))}" if self._is_toml else ""
        hint = self._hint and f"; {self._hint}"
        raise InvalidInputError(f"{self.file}{line}: {name and name + ': '}{message}{hint}")

    def _line(self, at: At) -> int:
        """Return the line of a value of a TOML file, or of what should contain one that is missing."""
        while at and _at(self._document, at) is None:  # TOML has no null
            at = at[:-1]
        return toml_line(self._text, at)

    def value(self, at: At, kind: type[T]) -> T:
        """Return the value there; refuse one of another type, or a wrong one around it."""
        found = self.data
        for place, step in enumerate(at):
            if isinstance(step, int):
                found = self._required(at[:place], found, list)[step]
            elif step in (table := self._required(at[:place], found, dict)):
                found = table[step]
            else:
                self.refuse(at[: place + 1], f"missing; expected {self._word(kind)}")
        return self._required(at, found, kind)

    def _required(self, at: At, found: Json, kind: type[T]) -> T:
        if not _is_of(found, kind):
            self.refuse(at, f"expected {self._word(kind)}, got {self._shown(found)}")
        return found

    def _word(self, kind: type) -> str:
        return _WORDS.get(kind, "a table" if self._is_toml else "an object")

    def _shown(self, found: Json) -> str:
        return f"{repr(found) if self._is_toml else json.dumps(found):.80}"

    def entries(self, at: At) -> Iterator[At]:
        """Yield the way to each entry of an array."""
        for number in range(len(self.value(at, list))):
            yield (*at, number)

    def one_of(self, at: At, known: Collection[str]) -> str:
        """Return a string there that is one of the known ones."""
        if (found := self.value(at, str)) not in known:
            self.refuse(at, unknown(found, known))
        return found

    def require_version(self, at: At, expected: int) -> None:
        """Refuse a file of another version."""
        if (version := self.value(at, int)) != expected:
            self.refuse(at, f"expected {expected}, got {version}")

    def number(self, at: At, least: float, most: float = _LARGEST) -> float:
        """Return a number from ``least`` to ``most``; infinite ones and NaN are refused."""
        found = self.value(at, float)
        if not least <= found <= most:
            wanted = f"of at least {least:g}" if most == _LARGEST else f"from {least:g} to {most:g}"
            self.refuse(at, f"expected a number {wanted}, got {self._shown(found)}")
        return float(found)

    def require_keys(self, at: At, known: Collection[str]) -> None:
        """Refuse keys that are not known, and what is no object or table."""
        for key in self.value(at, dict):
            if key not in known:
                self.refuse((*at, key), unknown(key, known, "key"))


def _at(data: Json, at: At) -> Json:
    """Return the value there, None where there is none."""
    for step in at:
        if isinstance(data, Mapping) and isinstance(step, str):
            data = data.get(step)
        elif isinstance(data, list) and isinstance(step, int) and step < len(data):
            data = data[step]
        else:
            return None
    return data


def toml_line(text: str, at: At) -> int:
    """Return the line of a TOML document on which a value appears, counted from 1.

    It is the end of the shortest piece of the document, an open array closed, that has the value: the parser
    of the standard library tells no positions.
    """
    lines = text.splitlines()
    for number in range(1, len(lines) + 1):
        for closing in ("", "\n]"):
            try:
                piece = tomllib.loads("\n".join(lines[:number]) + closing)
            except tomllib.TOMLDecodeError:
                continue
            if _at(piece, at) is not None:
                return number
    return 1
