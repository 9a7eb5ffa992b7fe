"""``spec-oracle acceptance``: compare the accepted tokens of an engine with those of its rule."""

from argparse import Namespace
from pathlib import Path

from spec_oracle.commands.options import Command, rate, report_options, value, write_report
from spec_oracle.errors import InvalidInputError


def run(options: Namespace) -> int:
    """Read the log, write its figures, and return the exit code."""
    from spec_oracle.acceptance import acceptance
    from spec_oracle.acceptance.log import read_calls, read_reported
    from spec_oracle.acceptance.report import FORMATS
    from spec_oracle.report.terminal import showing_progress

    reported = read_reported(options.reported) if options.reported else {}
    with showing_progress():
        try:
            with Path(options.log).open(encoding="utf-8") as file:
                calls = read_calls(file, options.log)
        except OSError as error:
            raise InvalidInputError(f"LOG: {error}") from None
        except UnicodeDecodeError as error:
            raise InvalidInputError(f"LOG: {options.log} is not UTF-8: {error}") from None
        found = acceptance(
            calls,
            file=options.log,
            rule=options.rule,
            alpha=options.alpha,
            at_least=options.at_least,
            detect=options.detect,
            noise=options.noise,
            reported=reported,
        )
    write_report(options, FORMATS, found)
    return found.exit_code


_MORE = """\
Each line of LOG is JSON, one call: "drafted" (token ids), "accepted" (how many of them the rule accepted,
before a stop token or a limit cuts the completion), "p" and "q" (the probabilities that the target and the
draft model give each drafted token; q is 1 for drafts that were not sampled). Optional: "prompt" (a label),
and for rules that depend on more than p and q either "surplus", "largest" and "entropy" or whole or top-k
rows "target" and "draft": docs/guide/acceptance.md. `spec_oracle.acceptance.recorder` writes such logs for
transformers and vLLM. Exit codes: 0 the counts are as expected, 1 they are not, 2 too few calls, 3 a mistake
in the log or the options. The false-alarm rate holds however often a growing log is looked at.
"""
_AT_LEAST = "share of the expected tokens that is enough, such as 0.95; default: the counts must agree"
_DETECT = "a pass without --at-least needs enough calls to detect acceptance lower by this share"
_REPORTED = "what the engine reports of these calls, such as accepted/drafted=0.61,length=1.9"
_NOISE = "nats by which log p - log q may be off; raise it if the engine computes in lower precision"
ACCEPTANCE = Command(
    run,
    "Does an engine accept as many tokens as its rule should, on the drafts that it logged?",
    "spec-oracle acceptance calls.jsonl --rule token --at-least 0.95",
    _MORE,
    options={
        "the log": [
            value("log", "LOG", "one JSON object a line"),
            value("--rule", "NAME", "token, block, sample_and_match, greedy or typical", default="token"),
            value("--noise", "NATS", _NOISE, float, 1e-4),
        ],
        "the engine's own figures": [
            value("--reported", "FIGURES", _REPORTED),
        ],
        "the gate and its error rate": [
            value("--at-least", "SHARE", _AT_LEAST, rate),
            value("--detect", "SHARE", _DETECT, rate, 0.1),
            value("--alpha", "RATE", "false-alarm rate", rate, 1e-6),
        ],
        "the report": report_options("text", "json", "markdown"),
    },
)
