"""All parameters of an engine's public class, by reflection: what tries them, or why nothing does."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from spec_oracle.report.table import markdown_table


@dataclass(frozen=True)
class Tried:
    """What tries the parameters of a class.

    ``options`` are the arguments of each option of a study; ``elsewhere`` says what else sets a parameter,
    and ``not_tried`` why nothing does.
    """

    options: Mapping[str, Mapping[str, Any]]
    elsewhere: Mapping[str, str]
    not_tried: Mapping[str, str]

    def by(self, parameter: str) -> str:
        """Return the options that set a parameter, else why none does."""
        setting = [name for name, arguments in self.options.items() if parameter in arguments]
        why_not = self.not_tried.get(parameter, "nobody has looked at it yet")
        return ", ".join(setting) or self.elsewhere.get(parameter) or f"not tried: {why_not}"

    def section(self, of: str, parameters: Iterable[str]) -> Iterator[str]:
        """Yield the part of a page on all ``parameters`` of a class."""
        yield f"\n## Parameters\n\nAll fields of `{of}`, and what tries them.\n"
        yield markdown_table(["field", "tried by"], [[f"`{name}`", self.by(name)] for name in parameters])
