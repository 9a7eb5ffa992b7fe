"""Answers of a server that are kept in a file, so that another run need not ask for them again.

Each counts once, in the order in which it came, where the same is asked of the same address: a run that
samples more goes on with new ones. Whoever changes the server takes another file.
"""

import json
from collections import Counter, defaultdict, deque
from datetime import datetime
from hashlib import blake2b
from pathlib import Path
from threading import Lock

from spec_oracle.errors import InvalidInputError
from spec_oracle.servers.contract import Json

ECHOES = ("generation_settings", "prompt")
"""What llama.cpp repeats of a request in its answer, which nothing reads."""


class KeptAnswers:
    """The answers in a ``file``, and new ones: a line has a hash of the request, the day, and JSON.

    Raises `InvalidInputError` for a file of something else.
    """

    def __init__(self, file: Path) -> None:
        self.file, self._lock, self._days = file, Lock(), Counter[str]()
        self._left: defaultdict[str, deque[tuple[str, str]]] = defaultdict(deque)
        text = file.read_text(encoding="utf-8") if file.exists() else ""
        *lines, begun = text.split("\n")
        for number, line in enumerate(lines, 1):
            if line.count("\t") != 2:
                raise InvalidInputError(f"{file}: line {number}: not an answer of a server")
            asked, day, answer = line.split("\t")
            self._left[asked].append((day, answer))
        self._out = file.open("a", encoding="utf-8")
        self._out.truncate(len(text.removesuffix(begun).encode()))  # without a line that was cut off

    def take(self, asked: object) -> Json | None:
        """Return what was added for the same and not taken yet, None if nothing is left."""
        with self._lock:
            if not (left := self._left[_digest(asked)]):
                return None
            day, answer = left.popleft()
            self._days[day] += 1
        return json.loads(answer)

    def add(self, asked: object, data: Json, *more: Json) -> None:
        """Write down the ``data`` of an answer, and ``more`` about it."""
        if isinstance(data, dict):
            data = {name: value for name, value in data.items() if name not in ECHOES}
        day = datetime.now().astimezone().date().isoformat()
        with self._lock:
            self._out.write(f"{_digest(asked)}\t{day}\t{json.dumps([data, *more])}\n")

    @property
    def used(self) -> str:
        """Say how many answers count again, and of which days; "" for none."""
        days = " and ".join(f"{count:,} as on {day}" for day, count in sorted(self._days.items()))
        return f"answers of {self.file} count again: {days}" if days else ""

    def close(self) -> None:
        """Close the file."""
        self._out.close()


def _digest(asked: object) -> str:
    return blake2b(json.dumps(asked, sort_keys=True).encode(), digest_size=12).hexdigest()
