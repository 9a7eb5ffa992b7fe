"""The law of transformers' assisted generation: option by generator by version, each proved or told apart.

    python -m studies.transformers_generate --output docs/transformers-generate.md

Each version is installed into a folder of its own, beside the torch of this environment, and measured in a
process of its own. With the assistant the newest one gets every option, older ones a part.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

VERSIONS = ("4.48.3", "5.0.0", "5.12.0", "5.15.0", "5.16.0", "5.18.0", "5.23.0")
TOKENS = 3
MOST_RUNS = 1200
LOSSY = 1e-6 * TOKENS

COVERING = {
    "assistant": (
        *("stop sequence", "stop token", "top-k", "two stop tokens", "no repeated pairs"),
        *("left padding", "sliding window", "static cache"),
    ),
    "adaptive assistant": ("stop token", "suppressed token"),
    "unsure assistant": ("stop token", "min-p"),
    "lookup": ("stop token", "two stop tokens", "no repeated pairs", "stop sequence", "left padding"),
    "early exit": ("top-p", "stop token", "sliding window"),
    "other tokenizer": ("top-k", "stop token", "max_length"),
    "other tokenizer, unsorted": ("top-k", "stop token", "max_length"),
    "multi-token prediction": ("top-k", "stop token", "no repeated pairs"),
    "block diffusion": ("top-k", "stop token", "typical"),
    "Gemma 4 assistant": ("top-k", "stop token", "sampling"),
}
"""What versions are asked; the newest one also every other option, with the assistant."""


LONGER = ((3, 4), (2, 6))
"""Tokens of the vocabulary and of the text, of longer texts that the newest version is asked."""


@dataclass(frozen=True)
class Cell:
    """What was found of one generator under one option: ``error`` where there is no law.

    ``gap`` is the text with the largest gap, its probability, and that of plain decoding.
    """

    generator: str
    option: str
    vocab_size: int
    tokens: int
    seconds: float = 0.0
    total_variation: float | None = None
    runs: int = 0
    gap: tuple[list[int], float, float] | None = None
    error: str = ""


def measured(generator: str, option: str, vocab_size: int = 3, tokens: int = TOKENS) -> Cell:
    """Enumerate texts of ``tokens`` tokens, with drafts and without."""
    from spec_oracle.audit.evidence.engine_cases import Case, Compared
    from spec_oracle.errors import SpecOracleError
    from spec_oracle.systems.engine import EngineCode
    from spec_oracle.systems.engine_laws import enumerated_texts
    from spec_oracle.systems.hugging_face import Generate

    started, asked = time.process_time(), (generator, option, vocab_size, tokens)
    try:
        code = EngineCode(Generate(generator, option, vocab_size))
        prompt = code.prompts[0]
        plain = enumerated_texts(code, prompt, tokens, plain=True)
        texts = enumerated_texts(code, prompt, tokens, most_runs=MOST_RUNS)
    except ImportError:
        return Cell(*asked, error="none")
    except (SpecOracleError, ValueError) as error:  # some versions cannot build what they decode with
        return Cell(*asked, error=" ".join(str(error).split()))
    compared = Compared(Case("", code, prompt), tokens, texts, plain.law)
    gap = compared.gap
    return Cell(
        *asked,
        time.process_time() - started,
        compared.total_variation,
        texts.runs,
        ([*gap.sequence], gap.actual, gap.expected),
        texts.drafts.missing,
    )


def measure(*, everything: bool) -> None:
    """Print a line of JSON for every cell, with the transformers that is installed here."""
    import transformers

    from spec_oracle.systems.hugging_face import OPTIONS
    from spec_oracle.threads import one_torch_thread

    transformers.logging.set_verbosity_error()
    asked: list[Any] = [
        (generator, option)
        for generator, options in COVERING.items()
        for option in (OPTIONS if everything and generator == "assistant" else options)
    ]
    asked += [("assistant", "sampling", *sizes) for sizes in LONGER if everything]
    with one_torch_thread():
        for some in asked:
            sys.stdout.write(json.dumps(asdict(measured(*some))) + "\n")
            sys.stdout.flush()


def environment(version: str, folder: Path) -> Path:
    """Install a version, and what it needs besides torch, into a folder; return it."""
    place = folder / version
    if not place.is_dir():
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(place)]
        subprocess.run([*command, f"transformers=={version}"], check=True)  # noqa: S603  # pinned names
    return place


def cells_of(version: str, folder: Path) -> list[Cell]:
    """Return what a version comes to, measured in a process of its own."""
    path = os.pathsep.join([str(environment(version, folder)), str(Path.cwd())])
    command = [sys.executable, "-W", "ignore", "-m", "studies.transformers_generate", "--measure"]
    words = ["--everything"] if version == VERSIONS[-1] else []
    done = subprocess.run(  # noqa: S603  # ourselves
        [*command, *words], env={**os.environ, "PYTHONPATH": path}, stdout=subprocess.PIPE, check=True
    )
    return [Cell(**json.loads(line)) for line in done.stdout.decode().splitlines() if line.startswith("{")]


HEAD = """# transformers: the law of assisted generation

Made by `python -m studies.transformers_generate`; do not edit.

Each cell is the total variation between the exact law of `generate` with a drafter and that of `generate`
without, for texts of up to {tokens} tokens of a random model of two layers (Llama; Mistral for sliding
windows; Gemma 4 for its assistant), 3 tokens, float64; drafts of up to 2 tokens. All random numbers of both
were enumerated, in `runs` of generate; of a last token that nothing looks at, the law is read. Logits pass
through float32, which is good for about 1e-8. **Bold** is lossy; - was not asked of that version; *none*:
the version has no such generator; (n): see the notes. Runs and seconds of processor time are those of the
newest version. {count} cells took {seconds:.0f} s.
"""


def page(found: dict[str, list[Cell]]) -> Iterator[str]:
    """Yield the lines of the page."""
    every = [cell for listed in found.values() for cell in listed]
    yield HEAD.format(tokens=TOKENS, count=len(every), seconds=sum(cell.seconds for cell in every))
    cells = {(v, c.generator, c.option): c for v, of in found.items() for c in of if c.tokens == TOKENS}
    errors: dict[str, int] = {}
    for generator in COVERING:
        options = [option for version, of, option in cells if (version, of) == (VERSIONS[-1], generator)]
        yield from ("", f"## {generator}", "", "| option | " + " | ".join(found) + " | runs | seconds |")
        yield "|---|" + "---|" * (len(found) + 2)
        for option in options:
            row = [cells.get((version, generator, option)) for version in found]
            last = row[-1]
            cost = [str(last.runs), f"{last.seconds:.1f}"] if last and last.runs else ["-", "-"]
            yield "| " + " | ".join([option, *(shown(cell, errors) for cell in row), *cost]) + " |"
    yield from ("", f"## Longer texts of {VERSIONS[-1]}", "", "Sampling with the assistant.", "")
    yield from ("| vocabulary | tokens | TV | runs | seconds |", "|---|---|---|---|---|")
    for cell in found[VERSIONS[-1]]:
        if cell.tokens > TOKENS:
            size = f"| {cell.vocab_size} | {cell.tokens} | {shown(cell, errors)}"
            yield f"{size} | {cell.runs} | {cell.seconds:.1f} |"
    yield from ("", "## Notes", "")
    yield from (f"{number}. `{error[:240]}`" for error, number in errors.items())
    yield from ("", "## Counterexamples", "")
    for (version, generator, option), cell in cells.items():
        if cell.gap is not None and (cell.total_variation or 0) > LOSSY:
            text, actual, expected = cell.gap
            yield (
                f"* {version}, {generator}, {option}: text {','.join(map(str, text))} has probability "
                f"{actual:.4g}, plainly decoded {expected:.4g}"
            )


def shown(cell: Cell | None, errors: dict[str, int]) -> str:
    """Return a cell of the table; ``errors`` are numbered as they come up."""
    if cell is None:
        return "-"
    if cell.total_variation is None:
        return "*none*" if cell.error == "none" else f"({errors.setdefault(cell.error, len(errors) + 1)})"
    number = (
        f"{cell.total_variation:.0e}" if cell.total_variation < LOSSY else f"**{cell.total_variation:.3g}**"
    )
    return f"{number} ({errors.setdefault(cell.error, len(errors) + 1)})" if cell.error else number


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure one version, or all of them and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--measure", action="store_true", help="print what the installed version comes to")
    parser.add_argument("--everything", action="store_true", help="with --measure: every option")
    parser.add_argument("--environments", type=Path, default=Path(".engines/transformers"))
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--output", type=Path, default=Path("docs/transformers-generate.md"))
    options = parser.parse_args(arguments)
    if options.measure:
        measure(everything=options.everything)
        return
    look: Callable[[str], Any] = lambda version: cells_of(version, options.environments.resolve())  # noqa: E731
    with ThreadPoolExecutor(options.jobs) as pool:
        found = dict(zip(VERSIONS, pool.map(look, VERSIONS), strict=True))
    options.output.write_text("\n".join([*page(found), ""]), encoding="utf-8")


if __name__ == "__main__":
    main()
