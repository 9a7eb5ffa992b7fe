"""Exact block efficiency of verifiers on instances, beside what any verifier could reach."""

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import verifiers
from spec_oracle.errors import InvalidInputError
from spec_oracle.exact import emission_law
from spec_oracle.optimum import block_transport_optimum, multi_path_optimum, single_path_optimum
from spec_oracle.report.numbers import plain, short
from spec_oracle.report.table import markdown_table, text_table
from spec_oracle.toy import Instance
from verifiers import Drafting, StatefulVerifier, drafting_of


@dataclass(frozen=True)
class Optima:
    """The most tokens per call on one instance; None where the instance is too large for the program.

    ``multi_path`` and ``block_transport`` (with carry-over) hold for the drafting law of the verifier at
    hand; ``single_path`` for one path drawn from q.
    """

    single_path: Any
    multi_path: Any
    block_transport: Any


@dataclass(frozen=True)
class Efficiency:
    """One verifier on one instance; numbers are floats, or `Fraction` with ``exact``.

    ``block_efficiency`` in tokens per call; ``accepted_length`` P(tau = 0..L); ``optimum`` is the entry of
    ``optima`` that bounds this verifier: with carry-over for those that carry a state.
    """

    file: str
    verifier: str
    block_efficiency: Any
    total_variation: Any
    accepted_length: tuple[Any, ...]
    optima: Optima
    optimum: Any

    @property
    def share(self) -> Any:
        """Block efficiency as a share of the optimum."""
        return None if self.optimum is None else self.block_efficiency / self.optimum


def efficiencies(
    file: str, instance: Instance, names: Sequence[str], *, exact: bool = False, array: str = "numpy"
) -> list[Efficiency]:
    """Return the exact figures of the named verifiers on one instance."""
    optima: dict[Drafting, Optima] = {}
    results = []
    for name in names:
        verifier = verifiers.get(name)
        drafting = drafting_of(verifier)
        if drafting not in optima:
            optima[drafting] = _optima(instance, drafting, exact=exact)
        law = emission_law(verifier, instance, exact=exact, array=array)
        best = optima[drafting]
        results.append(
            Efficiency(
                file,
                name,
                law.block_efficiency,
                law.total_variation,
                law.accepted_length_pmf,
                best,
                best.block_transport if isinstance(verifier, StatefulVerifier) else best.multi_path,
            )
        )
    return results


def _optima(instance: Instance, drafting: Drafting, *, exact: bool) -> Optima:
    single = single_path_optimum(instance, exact=exact).value
    try:
        multi = multi_path_optimum(instance, drafting=drafting, exact=exact)
        transport = block_transport_optimum(instance, drafting=drafting, exact=exact)
    except InvalidInputError:  # too many draft tuples for an exact program
        return Optima(single, None, None)
    return Optima(single, multi.value, transport.value)


def to_json(results: Iterable[Efficiency]) -> list[dict[str, Any]]:
    """Return the figures as JSON data."""
    return [
        {
            "file": result.file,
            "verifier": result.verifier,
            "block_efficiency": plain(result.block_efficiency),
            "total_variation": plain(result.total_variation),
            "accepted_length": [plain(mass) for mass in result.accepted_length],
            "single_path_optimum": plain(result.optima.single_path),
            "multi_path_optimum": plain(result.optima.multi_path),
            "block_transport_optimum": plain(result.optima.block_transport),
        }
        for result in results
    ]


HEAD = ("verifier", "tokens/call", "TV", "P(accepted = 0, 1, ...)", "optimum", "share", "headroom")


def _cells(result: Efficiency) -> tuple[str, ...]:
    share = result.share
    return (
        result.verifier,
        short(result.block_efficiency, 6),
        short(result.total_variation, 2),
        "  ".join(short(mass, 4) for mass in result.accepted_length),
        short(result.optimum, 6),
        "-" if share is None else f"{100 * float(share):.2f} %",
        "-" if share is None else f"{100 * (1 - float(share)):.2f} %",
    )


def to_text(results: Sequence[Efficiency]) -> str:
    """Return a table a file."""
    parts = []
    for file in dict.fromkeys(result.file for result in results):
        mine = [result for result in results if result.file == file]
        best = mine[0].optima
        title = (
            f"{file}: optimum {short(best.single_path, 6)} with one path, "
            f"{short(best.multi_path, 6)} with all, {short(best.block_transport, 6)} with carry-over"
        )
        parts.append(
            title + "\n\n" + text_table(HEAD, [_cells(result) for result in mine], right=(1, 2, 4, 5, 6))
        )
    return "\n\n".join(parts) + "\n"


def to_markdown(results: Sequence[Efficiency]) -> str:
    """Return one Markdown table for all files."""
    return markdown_table(("file", *HEAD), [(result.file, *_cells(result)) for result in results]) + "\n"


FORMATS: dict[str, Callable[[Sequence[Efficiency]], str]] = {
    "text": to_text,
    "markdown": to_markdown,
    "json": lambda results: json.dumps(to_json(results), indent=1) + "\n",
}
