"""``spec-oracle audit``: whether verifiers, samplers and engines are lossless."""

from argparse import Namespace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from spec_oracle.commands import options as cli
from spec_oracle.errors import InvalidInputError

if TYPE_CHECKING:
    from spec_oracle.audit.saved_inputs import FailingInputs


def run(options: Namespace) -> int:
    """Audit the subjects, write the report, and return its exit code."""
    options = _as_fields(options)
    from spec_oracle.audit.isolation import audit_apart
    from spec_oracle.audit.options import AuditOptions, Isolation
    from spec_oracle.audit.registry import engine_availability, listed, subject_names
    from spec_oracle.gate.baseline import kept_baseline, update_baseline, with_baseline
    from spec_oracle.gate.configuration import (
        Configuration,
        find_configuration,
        given_fields,
        read_configuration,
    )
    from spec_oracle.report.audit_text import durations_text, list_to_text
    from spec_oracle.report.terminal import show, showing_progress

    if options.list:
        (show if options.output is None else partial(cli.emit, options))(list_to_text(listed()))
        return cli.OK
    subjects = list(options.subjects)
    if options.engines:
        available, missing = engine_availability()
        subjects += available
        for line in missing:
            cli.progress(f"not run: {line}")
    if options.config is not None:
        found = read_configuration(options.config)
    else:
        found = Configuration() if options.no_config else find_configuration(Path())
    if found.file is not None:
        cli.progress(f"configuration: {found.file}")
    given = given_fields(AuditOptions, options)
    # What is not given is the configuration's, else the default of `AuditOptions` or `Isolation`.
    subjects = subjects or list(found.subjects or subject_names())
    isolation = found.isolation(cli.cores(), **given_fields(Isolation, options))
    own = {name: found.options_of(name, **given) for name in subjects}
    # The instances of a command line are for looking at a subject, not for comparing it.
    baseline = options.baseline or (None if options.instance else found.baseline)
    kept = kept_baseline(baseline, update=options.update_baseline)
    with showing_progress() as tell:
        report = audit_apart(subjects, found.options_of("", **given), isolation, tell, own=own)
    if baseline and options.update_baseline:
        names = ", ".join(update_baseline(baseline, report))
        nothing = "nothing new: no lossless subject has an exact distribution"
        cli.progress(f"baseline: {baseline} holds {names or nothing}")
    elif baseline:
        report = with_baseline(report, kept)
    code = cli.write_audit(options, report)
    if options.durations is not None:
        cli.progress(durations_text(report, options.durations))
    return code


def _as_fields(options: Namespace) -> Namespace:
    """Replace options that stand for several, such as ``--quick``, by fields of `AuditOptions`."""
    from spec_oracle.toy import Instance

    options.skip, options.prompts = dict.fromkeys(options.skip or (), ""), tuple(options.prompts or ())
    if options.quick:
        options.checks, options.budget = options.checks or QUICK_CHECKS, options.budget or QUICK_SECONDS
    for axis, values in options.only or ():
        setattr(options, axis, (*getattr(options, axis, ()), *values))
    files = options.instance or ()
    again = [found for path in files if (found := _saved_inputs(path)) is not None]
    if again and len(files) > 1:
        raise InvalidInputError("--instance: expected the saved inputs of one check, or instances only")
    options.again = again[0] if again else None
    options.instances = None if again else {str(path): Instance.load(path) for path in files} or None
    return options


def _saved_inputs(path: Path) -> "FailingInputs | None":
    """Return the saved inputs of a failed check, None for an instance file."""
    from spec_oracle.audit import AuditOptions  # noqa: F401  # with it come the parts of all checks
    from spec_oracle.audit.failing_inputs import PARTS
    from spec_oracle.audit.saved_inputs import FailingInputs

    return FailingInputs.load(path, PARTS)


QUICK_CHECKS, QUICK_SECONDS = ("length", "batch", "bad-input", "inputs-kept"), 1.0
"""What ``--quick`` runs besides `joint`, and for how long where it samples."""


_QUICK = f"a first verdict in ten seconds: only joint, {', '.join(QUICK_CHECKS)}; --budget {QUICK_SECONDS:g}"
_SUBJECT = (
    "a built-in rule (block, eagle), an engine, or package.module:object (a rule, a sampler "
    "function, an engine); "
    "default: what the configuration names, else everything installed"
)
_IDS = "token ids (0,1) after which engines generate, in place of their own prompts"
_TOKENS = "tokens of an engine's longest completions; default: as many as are cheap, at least 3"
_CONFIG = "default: spec-oracle.toml, or [tool.spec-oracle] of pyproject.toml, in this folder"
_SAVED = "where the inputs of failed checks are saved; default: counterexamples"
_TIMEOUT = "after which a subject is ended; default: 900"
_CACHE = "keep lossless results here, and reuse those whose code, imports and options are the same"
_ONLY = (
    "all that a sampler takes, such as layouts=contiguous or lengths=1,2,4; axes: vocabularies, lengths, "
    "batches, paths, layouts, ids"
)
_TYPES = "number type of rows in which a difference counts; default: float64 and float32"
AUDIT = cli.Command(
    run,
    "Is a verifier, a sampler or an engine lossless? Proof where code can be traced, else samples.",
    "spec-oracle audit my_module:verify --check joint",
    options={
        "what is audited": [
            cli.value("subjects", "SUBJECT", _SUBJECT, nargs="*"),
            cli.flag("--engines", "audit every engine available here"),
            cli.flag("--list", "list what can be audited by name, and stop"),
            cli.several(
                "--instance",
                "FILE",
                "audit on this toy instance, or on inputs saved by a failed check",
                Path,
            ),
            cli.several("--prompt", "IDS", _IDS, cli.token_ids, dest="prompts"),
            cli.value("--tokens", "N", _TOKENS, cli.positive),
            cli.flag("--assume-speculating", "an engine drafts, though nothing shows it"),
        ],
        "which checks": [
            cli.several(
                "--check", "CHECK", "run joint and this check only; see `spec-oracle explain`", dest="checks"
            ),
            cli.several("--skip", "CHECK", "leave this check out"),
            cli.flag("--quick", _QUICK),
        ],
        "sizes, effort and error rate": [
            *cli.sizes(vocab=3, length=3, paths=None),
            *cli.arithmetic(),
            cli.value("--device", "DEVICE", "of a sampler's tensors, such as cuda; default: cpu"),
            cli.several("--dtype", "TYPE", _TYPES, dest="dtypes"),
            cli.several("--only", "AXIS=VALUES", _ONLY, cli.axis_values),
            cli.value(
                "--budget",
                "SECONDS",
                "of each check that samples, of each subject; default: 60",
                cli.positive_number,
            ),
            cli.value("--alpha", "RATE", "false-alarm rate of the whole run; default: 1e-6", cli.rate),
        ],
        "the project": [
            cli.value("--config", "FILE", _CONFIG, Path),
            cli.flag("--no-config", "read no configuration"),
            cli.value("--baseline", "FILE", "fail where block efficiency is below that of this file", Path),
            cli.flag("--update-baseline", "write the baseline instead"),
        ],
        "processes": [
            cli.jobs("subjects to audit"),
            cli.value("--timeout", "SECONDS", _TIMEOUT, cli.positive_number),
            cli.value("--memory", "GIB", "of a subject; default: any", cli.positive_number),
            cli.value("--cache", "FOLDER", _CACHE, Path),
        ],
        "the report": [
            *cli.report_options("text", "json", "junit", "markdown", "html", "github"),
            cli.value("--durations", "N", "show the N checks that took longest, on stderr", cli.positive),
            cli.flag("--verbose", "show scope, sizes, rates and samples of checks", "-v"),
            cli.value("--counterexamples", "FOLDER", _SAVED, Path),
        ],
    },
    defaults=dict.fromkeys(("vocab_size", "draft_length", "seed", "exact", "array", "jobs")),
)
