"""``spec-oracle instance``: make instance files."""

import json
from argparse import Namespace

from spec_oracle.commands import options as cli
from spec_oracle.toy import KINDS, Instance


def run(options: Namespace) -> int:
    """Write the instance that the kind makes."""
    cli.emit(options, json.dumps(options.made(options).to_json(), indent=1) + "\n")
    return cli.OK


def _random(options: Namespace) -> Instance:
    instance = Instance.random(
        options.vocab_size,
        options.draft_length,
        num_paths=options.num_paths,
        seed=options.seed,
        kind=options.kind,
        concentration=options.concentration,
        agreement=options.agreement,
    )
    return instance if options.denominator is None else instance.rounded(options.denominator)


def _worked(options: Namespace) -> Instance:
    return Instance.context_free(["1/3", "2/3"], ["2/3", "1/3"], draft_length=2, num_paths=options.num_paths)


def _cut(options: Namespace) -> Instance:
    from spec_oracle.language_models.cuts import cut_instance
    from spec_oracle.report.terminal import showing_progress

    with showing_progress():
        return cut_instance(options.prompt, **cli.pair_of(options))


_DISTRIBUTIONS = (
    cli.value("--kind", None, "", default="dirichlet", choices=tuple(KINDS)),
    cli.value("--concentration", "C", "flat above 1, peaked below", float, 1.0),
    cli.value("--agreement", "SHARE", "of the target in the draft", float, 0.0),
    cli.value("--denominator", "N", "round to multiples of 1/N", cli.positive),
)
_PATHS = cli.value("--num-paths", "K", "draft paths", cli.positive, 1)
_PROMPT = cli.value("--prompt", "TEXT", "what they continue", required=True)
_REPORT = cli.report_options("json")
INSTANCE = cli.Command(
    run,
    "Make instance files.",
    "spec-oracle instance random --vocab-size 4 --output toy.json",
    kinds={
        "random": cli.Command(
            run,
            "Random next-token distributions, a new one after every context.",
            "spec-oracle instance random --vocab-size 4 --seed 1",
            options={
                "sizes and seed": cli.sizes(vocab=3, length=2, paths=1),
                "distributions": _DISTRIBUTIONS,
                "the file": _REPORT,
            },
            defaults={"made": _random},
        ),
        "example": cli.Command(
            run,
            "The two-token example of block verification (arXiv 2403.10444).",
            "spec-oracle instance example --num-paths 2",
            options={"sizes": [_PATHS], "the file": _REPORT},
            defaults={"made": _worked},
        ),
        "lm": cli.Command(
            run,
            "The likeliest tokens of two language models after a prompt.",
            'spec-oracle instance lm --prompt "Once upon a time"',
            options={"two language models": [_PROMPT, *cli.PAIR], "the file": _REPORT},
            defaults={"made": _cut},
        ),
    },
)
