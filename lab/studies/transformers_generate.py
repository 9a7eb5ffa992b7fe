"""The law of transformers' assisted generation: option by generator by version, each proved or told apart.

    python -m lab.studies.transformers_generate --output docs/evidence/transformers-generate.md

Each version is installed into a folder of its own, beside the torch of this environment, and measured in
processes of its own. With the assistant the newest one gets every option, older ones a part.
"""

import argparse
import subprocess
import sys
import time
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from lab.studies.after_patterns import judged_after_patterns
from lab.studies.beside_plain import beside_plain
from lab.studies.parameters import Tried
from lab.transformers_engines import LAYERED, OPTIONS
from spec_oracle.commands.options import add, jobs
from spec_oracle.report.table import markdown_table
from spec_oracle.report.terminal import showing_progress
from spec_oracle.sweeps import Plan, rows_for

VERSIONS = ("4.48.3", "5.0.0", "5.12.0", "5.15.0", "5.16.0", "5.18.0", "5.23.0", "5.24.0")
TOKENS = 3
MOST_RUNS = 1200
MOST_RUNS_PLAIN = 100_000
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
"""What all versions are asked."""

NEWEST = {
    "assistant": (*OPTIONS,),
    "lookup": (
        *(*LAYERED, "guidance", "bad words", "forced last token", "least new tokens", "many at once"),
        *("greedy", "stop string", "penalty on the prompt", "prompt of one token", "prompt of 70 tokens"),
    ),
    **{f"{one} assistant": ("top-k",) for one in ("LFM2", "Qwen3-Next", "Mamba 2", "RecurrentGemma")},
}
"""What the newest one is asked besides."""

PATTERNS = (
    *(("assistant", option) for option in ("sampling", "top-k", "sliding window", "Gemma 3", "LFM2", "LFM3")),
    *(("assistant, longer drafts", option) for option in ("top-k", "sampling")),
    *(("lookup", option) for option in ("sampling", "LFM2")),
    *(("lookup, longer drafts", "top-k"), ("Qwen3-Next assistant", "top-k")),
)
"""Generators and options of the newest one whose call is judged after each pattern of accepted lengths."""

PATTERNS_SECONDS = 300.0
AFTER_PATTERNS = 0
"""In the place of a number of tokens: not completions, but the call after each pattern."""

LONGER = ((3, 4), (2, 6))
"""Tokens of the vocabulary and of the text, of longer texts that the newest version is asked."""


@dataclass(frozen=True)
class Cell:
    """What was found of one generator of one version under one option: ``error`` where there is no law.

    ``gap`` is the text with the largest gap, its probability, and that of plain decoding.
    """

    version: str
    generator: str
    option: str
    vocab_size: int
    tokens: int
    seconds: float = 0.0
    total_variation: float | None = None
    runs: int = 0
    gap: tuple[list[int], float, float] | None = None
    error: str = ""
    verdict: str = ""


TRIED = Tried(
    {name: option.arguments for name, option in OPTIONS.items()},
    {
        "do_sample": "every option",
        "max_new_tokens": "every option",
        "max_length": "max_length",
        "stop_strings": "stop string",
        "num_assistant_tokens": "assistant, in all its forms",
        "num_assistant_tokens_schedule": "adaptive assistant",
        "assistant_confidence_threshold": "unsure assistant",
        "assistant_early_exit": "early exit",
        "assistant_lookbehind": "other tokenizer, at its default",
        "target_lookbehind": "other tokenizer, at its default",
        "prompt_lookup_num_tokens": "lookup, in all its forms",
        "max_matching_ngram_size": "lookup, at its default",
        "use_mtp": "multi-token prediction",
        "speculation_type": "block diffusion",
        **dict.fromkeys(
            ("output_scores", "output_logits", "return_dict_in_generate"), "`logprobs` of an audit"
        ),
    },
    {
        "assistant_ensemble_weight": "changes the distribution by design",
        "is_assistant": "set by transformers itself",
        "transformers_version": "set by transformers itself",
        "max_time": "ends by the clock",
        "token_healing": "changes the prompt",
        "watermarking_config": "its seeded random numbers would be taken for random ones",
        "bos_token_id": "takes effect without a prompt only",
        "decoder_start_token_id": "encoder-decoder models only",
        "max_cache_len": "sets the size of a cache",
        **dict.fromkeys(("output_attentions", "output_hidden_states"), "output only"),
        **dict.fromkeys(("compile_config", "disable_compile", "low_memory"), "speed and memory only"),
        "continuous_batching_config": "another method, without drafts",
        **dict.fromkeys(
            (
                *("num_beams", "num_beam_groups", "num_return_sequences", "early_stopping", "length_penalty"),
                *("diversity_penalty", "constraints", "force_words_ids", "penalty_alpha", "dola_layers"),
            ),
            "another way to decode, without drafts",
        ),
    },
)
"""By what the fields of `GenerationConfig` are tried."""


def measured(version: str, generator: str, option: str, vocab_size: int, tokens: int) -> Cell:
    """Enumerate texts of ``tokens`` tokens, with drafts and without, with the version that is imported."""
    from lab.transformers_engines import engine_of
    from spec_oracle.errors import SpecOracleError

    started, asked = time.process_time(), (version, generator, option, vocab_size, tokens)
    try:
        engine = engine_of(generator, option, vocab_size)
        if tokens == AFTER_PATTERNS:
            said = judged_after_patterns(engine, PATTERNS_SECONDS)
            return Cell(*asked, time.process_time() - started, verdict=said)
        found = beside_plain(engine, tokens, MOST_RUNS, MOST_RUNS_PLAIN)
    except ImportError:
        return Cell(*asked, error="none")
    except (SpecOracleError, ValueError) as error:  # some versions cannot build what they decode with
        said, *_ = " ".join(str(error).split()).partition(" (at ")  # lines differ from version to version
        return Cell(*asked, error=said)
    return Cell(*asked, time.process_time() - started, *found)


def plan(asked: Sequence[Sequence[Any]], environments: Path) -> Plan:
    """Return the sweep over cells, each by version, generator, option and sizes as in `Cell`."""
    listed = [list(cell) for cell in asked]
    return Plan(
        "lab.studies.transformers_generate:cell", {"asked": listed, "environments": [str(environments)]}
    )


def everything() -> Iterator[tuple[Any, ...]]:
    """Yield all that is asked, the newest version first; what takes longest, of that version too, last."""
    newest = VERSIONS[-1]
    yield from ((newest, "assistant", "sampling", *sizes) for sizes in LONGER)
    for version in reversed(VERSIONS):
        more = NEWEST if version == newest else {}
        for generator in dict.fromkeys((*COVERING, *more)):
            options = dict.fromkeys((*COVERING.get(generator, ()), *more.get(generator, ())))
            yield from ((version, generator, option, 3, TOKENS) for option in options)
    yield from ((newest, *cell, 3, AFTER_PATTERNS) for cell in PATTERNS)


def cell(*, seed: int, asked: Sequence[Any], environments: str) -> dict[str, Any]:
    """Measure in a process that has imported the version."""
    del seed
    folder = str(environment(asked[0], Path(environments)).resolve())
    return {"cell": asdict(_process(folder).submit(measured, *asked).result())}


@lru_cache(maxsize=1)
def _process(folder: str) -> Any:
    """Return a process for the version in ``folder``; it is kept while the next cells are of it too."""
    from joblib.externals.loky import ProcessPoolExecutor

    return ProcessPoolExecutor(1, initializer=_import, initargs=(folder,), timeout=60)


def _import(folder: str) -> None:
    warnings.simplefilter("ignore")
    sys.path.insert(0, folder)
    import torch
    import transformers

    transformers.logging.set_verbosity_error()
    torch.set_num_threads(1)


def environment(version: str, folder: Path) -> Path:
    """Install a version, and what it needs besides torch, into a folder; return it."""
    place = folder / version
    if not place.is_dir():
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(place)]
        subprocess.run([*command, f"transformers=={version}"], check=True)  # noqa: S603  # pinned names
    return place


HEAD = """# transformers: the law of assisted generation

Made by `python -m lab.studies.transformers_generate`; do not edit.

Each cell is the total variation between the exact law of `generate` with a drafter and that of `generate`
without, for texts of up to {tokens} tokens of a random model of two layers (Llama; Mistral for sliding
windows; Gemma 4 for its assistant), 3 tokens, float64; drafts of up to 2 tokens. All random numbers of both
were enumerated, in `runs` of generate; of a last token that nothing looks at, the law is read. Logits pass
through float32, which is good for about 1e-8. **Bold** is lossy; - was not asked of that version; *none*:
the version has no such generator; (n): see the notes. Runs and seconds of processor time are those of the
newest version. {count} cells took {seconds:.0f} s.
"""


PATTERNS_HEAD = """Of the newest version: after calls that accepted so much, the next call alone was
enumerated. Drafts have up to 2 tokens, those of "longer drafts" up to 3; each row has {seconds:.0f} s of
processor time. "None" is a call without drafts. Patterns that are not reached have no history among those
that were tried.
"""


def page(rows: Iterable[dict[str, Any]], parameters: Iterable[str]) -> Iterator[str]:
    """Yield the lines of the page."""
    every = [Cell(**row["cell"]) for row in rows]
    yield HEAD.format(tokens=TOKENS, count=len(every), seconds=sum(cell.seconds for cell in every))
    cells = {(c.version, c.generator, c.option): c for c in every if c.tokens == TOKENS}
    errors: dict[str, int] = {}
    for generator in dict.fromkeys(of for _, of, _ in cells):
        options = [option for version, of, option in cells if (version, of) == (VERSIONS[-1], generator)]
        yield from ("", f"## {generator}", "", "| option | " + " | ".join(VERSIONS) + " | runs | seconds |")
        yield "|---|" + "---|" * (len(VERSIONS) + 2)
        for option in options:
            row = [cells.get((version, generator, option)) for version in VERSIONS]
            last = row[-1]
            cost = [str(last.runs), f"{last.seconds:.1f}"] if last and last.runs else ["-", "-"]
            yield "| " + " | ".join([option, *(shown(cell, errors) for cell in row), *cost]) + " |"
    yield from ("", f"## Longer texts of {VERSIONS[-1]}", "", "Sampling with the assistant.", "")
    yield from ("| vocabulary | tokens | TV | runs | seconds |", "|---|---|---|---|---|")
    for long in every:
        if long.tokens > TOKENS:
            size = f"| {long.vocab_size} | {long.tokens} | {shown(long, errors)}"
            yield f"{size} | {long.runs} | {long.seconds:.1f} |"
    yield from ("", "## The call after every pattern of accepted lengths of three calls", "")
    yield PATTERNS_HEAD.format(seconds=PATTERNS_SECONDS)
    yield markdown_table(
        ["generator", "option", "verdict", "seconds"],
        [
            [one.generator, one.option, one.verdict or one.error, f"{one.seconds:.0f}"]
            for one in every
            if one.tokens == AFTER_PATTERNS
        ],
    )
    yield from TRIED.section("GenerationConfig", parameters)
    yield from ("", "## Notes", "")
    yield from (f"{number}. `{error[:240]}`" for error, number in errors.items())
    yield from ("", "## Counterexamples", "")
    for version in VERSIONS:
        for (of, generator, option), found in cells.items():
            if of != version or found.gap is None or (found.total_variation or 0) <= LOSSY:
                continue
            text, actual, expected = found.gap
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
    """Measure all versions and write the page."""
    from transformers import GenerationConfig

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--environments", type=Path, default=Path(".engines/transformers"))
    parser.add_argument("--output", type=Path, default=Path("docs/evidence/transformers-generate.md"))
    add(parser, jobs("cells"))
    options = parser.parse_args(arguments)
    asked = list(everything())
    for version in VERSIONS:  # before two processes want the same
        environment(version, options.environments)
    sweep = plan(asked, options.environments)
    with showing_progress() as tell, rows_for(options.output, sweep, options.jobs, tell) as rows:
        parameters = sorted(name for name in vars(GenerationConfig()) if not name.startswith("_"))
        options.output.write_text("\n".join([*page(rows, parameters), ""]), encoding="utf-8")


if __name__ == "__main__":
    main()
