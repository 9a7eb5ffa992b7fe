"""``spec-oracle instance``: make instance files."""

import json
from pathlib import Path
from typing import Any

from spec_oracle.commands.language_models import add_pair, pair_of
from spec_oracle.commands.options import FAILED, OK, Parser, add_command, add_sizes, emit, positive
from spec_oracle.toy import KINDS, Instance


def add_instance(commands: Any) -> None:
    """Add ``instance`` and its kinds to the parser."""
    command = add_command(commands, "instance", _instance_usage, "Make instance files.")
    kinds = command.add_subparsers(required=True, metavar="KIND", parser_class=Parser)
    random = add_command(kinds, "random", _random_instance, "Random rows, other ones after every context.")
    add_sizes(random, vocab=3, length=2, paths=1)
    random.add_argument("--kind", choices=tuple(KINDS), default="dirichlet", help="default: dirichlet")
    random.add_argument(
        "--concentration", type=float, default=1.0, help="flat above 1, peaked below; default: 1"
    )
    random.add_argument(
        "--agreement", type=float, default=0.0, help="share of the target in the draft; default: 0"
    )
    random.add_argument("--denominator", type=positive, metavar="N", help="round to multiples of 1/N")
    random.add_argument("--output", metavar="FILE", type=Path, help="write there instead of to stdout")
    worked = add_command(
        kinds, "example", _example_instance, "The two-token example of block verification (arXiv 2403.10444)."
    )
    worked.add_argument("--num-paths", type=positive, default=1, metavar="K", help="default: 1")
    worked.add_argument("--output", metavar="FILE", type=Path, help="write there instead of to stdout")

    cut = add_command(kinds, "lm", _cut_instance, "The tree of two language models after a prompt.")
    add_pair(cut, required=True)
    cut.add_argument("--output", metavar="FILE", type=Path, help="write there instead of to stdout")


def _cut_instance(options: Any) -> int:
    from spec_oracle.language_models.cuts import cut_instance

    return _emit_instance(options, cut_instance(options.prompt, **pair_of(options)))


def _instance_usage(_: Any) -> int:
    return FAILED


def _random_instance(options: Any) -> int:
    instance = Instance.random(
        options.vocab_size,
        options.draft_length,
        num_paths=options.num_paths,
        seed=options.seed,
        kind=options.kind,
        concentration=options.concentration,
        agreement=options.agreement,
    )
    if options.denominator is not None:
        instance = instance.rounded(options.denominator)
    return _emit_instance(options, instance)


def _example_instance(options: Any) -> int:
    return _emit_instance(
        options,
        Instance.context_free(["1/3", "2/3"], ["2/3", "1/3"], draft_length=2, num_paths=options.num_paths),
    )


def _emit_instance(options: Any, instance: Instance) -> int:
    emit(options, json.dumps(instance.to_json(), indent=1) + "\n")
    return OK
