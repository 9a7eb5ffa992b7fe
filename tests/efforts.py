"""Constants by which audits know how much to sample: found by name, in whichever module uses them."""

import re
from collections import defaultdict
from functools import cache
from importlib import import_module
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "spec_oracle"


@cache
def files_of_constants():
    """Return the files that define each constant, by name."""
    found = defaultdict(list)
    for file in PACKAGE.rglob("*.py"):
        for name in re.findall(r"^(\w+): Final\b", file.read_text("utf-8"), re.MULTILINE):
            found[name].append(file)
    return found


@cache
def module_of(name):
    """Return the module that defines a constant."""
    (file,) = files_of_constants()[name]
    return import_module(".".join(file.relative_to(PACKAGE.parent).with_suffix("").parts))


def set_effort(monkeypatch, **values):
    """Replace constants for one test."""
    for name, value in values.items():
        monkeypatch.setattr(module_of(name), name, value)


def take_a_tenth(monkeypatch, *names):
    """Divide numbers of samples, and shares of a budget, by ten for one test."""
    for name in names:
        value = getattr(module_of(name), name)
        set_effort(monkeypatch, **{name: value // 10 if isinstance(value, int) else value / 10})
