"""Files that are read as input: TOML, which people write, and JSON, which an earlier run wrote.

A mistake in TOML is refused with its line.
"""

import json
import tomllib
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NoReturn, TypeAlias, TypeGuard, TypeVar

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
    dict: "a table",
}


def read_json(file: Path, key: str, version: int, parse: Callable[[Mapping[str, Any]], T], hint: str) -> T:
    """Return what ``parse`` makes of an object of JSON that has a version at a key.

    Raises `InvalidInputError` for other files, and for those in which a value is missing or wrong: ``parse``
    raises one of Python's usual errors. ``hint`` says what to do about it.
    """
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise InvalidInputError(f"{file}: cannot be read: {error}") from None
    given = found.get(key) if isinstance(found, dict) else None
    if type(given) is not int or given != version:
        raise InvalidInputError(f"{file}: {key}: expected {version}, got {given}; {hint}")
    try:
        return parse(found)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        why = f"a value is missing or wrong ({type(error).__name__}: {error})"
        raise InvalidInputError(f"{file}: {why}; {hint}") from None


def _is_of(found: object, kind: type[T]) -> TypeGuard[T]:
    """Whether a value is of exactly that type; a whole number is a number, true is none."""
    return type(found) in ((int, float) if kind is float else (kind,))


class InputFile:
    """A parsed TOML file.

    ``data`` is the part of it at ``table``, None if it has none. Raises `InvalidInputError` for a file that
    cannot be read.
    """

    def __init__(self, file: Path, table: At = ()) -> None:
        self.file, self.table = file, table
        try:
            self._text = file.read_text(encoding="utf-8")
            self._document: Json = tomllib.loads(self._text)
        except RecursionError:
            raise InvalidInputError(f"{file}: cannot be read: it is nested too deeply") from None
        except (OSError, ValueError) as error:
            raise InvalidInputError(f"{file}: cannot be read: {error}") from None
        self.data = _at(self._document, table)

    def refuse(self, at: At, message: str) -> NoReturn:
        """Raise the error that points to a value, or to what should contain one that is missing."""
        name = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in at).lstrip(".")
        line = self._line((*self.table, *at))
        raise InvalidInputError(f"{self.file}:{line}: {name and name + ': '}{message}")

    def _line(self, at: At) -> int:
        """Return the line of a value, or of what should contain one that is missing."""
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
                self.refuse(at[: place + 1], f"missing; expected {_WORDS[kind]}")
        return self._required(at, found, kind)

    def _required(self, at: At, found: Json, kind: type[T]) -> T:
        if not _is_of(found, kind):
            self.refuse(at, f"expected {_WORDS[kind]}, got {found!r:.80}")
        return found

    def entries(self, at: At) -> Iterator[At]:
        """Yield the way to each entry of an array."""
        for number in range(len(self.value(at, list))):
            yield (*at, number)

    def one_of(self, at: At, known: Collection[str]) -> str:
        """Return a string there that is one of the known ones."""
        if (found := self.value(at, str)) not in known:
            self.refuse(at, unknown(found, known))
        return found

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
