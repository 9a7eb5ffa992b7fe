"""``spec-oracle audit``: whether verifiers, samplers and engines are lossless."""

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from spec_oracle.commands.options import (
    OK,
    Command,
    arithmetic,
    cores,
    emit,
    jobs,
    option,
    positive,
    positive_number,
    progress,
    rate,
    report_options,
    sizes,
    token_ids,
)
from spec_oracle.toy import Instance


def run(options: Any) -> int:
    """Audit the subjects, write the report, and return its exit code."""
    from spec_oracle.audit.isolation import Isolation, audit_apart
    from spec_oracle.audit.options import AuditOptions
    from spec_oracle.audit.subjects import engine_availability, listed, subject_names
    from spec_oracle.gate.baseline import beside_baseline
    from spec_oracle.gate.configuration import (
        Configuration,
        find_configuration,
        given_fields,
        read_configuration,
    )
    from spec_oracle.report import formatted
    from spec_oracle.report.audit_text import list_to_text
    from spec_oracle.report.progress import showing_progress
    from spec_oracle.report.terminal import show

    write = partial(emit, options) if options.output or options.format != "text" else show
    if options.list:
        write(list_to_text(listed()))
        return OK
    subjects = list(options.subjects)
    if options.engines:
        available, missing = engine_availability()
        subjects += available
        for line in missing:
            progress(f"not run: {line}")
    if options.config is not None:
        found = read_configuration(options.config)
    else:
        found = Configuration() if options.no_config else find_configuration(Path())
    if found.file is not None:
        progress(f"configuration: {found.file}")
    options.skip, options.prompts = dict.fromkeys(options.skip or (), ""), tuple(options.prompts or ())
    given = given_fields(AuditOptions, options)
    if options.instance:
        given["instances"] = {str(path): Instance.load(path) for path in options.instance}
    # What is not given is the configuration's, else the default of `AuditOptions` or `Isolation`.
    subjects = subjects or list(found.subjects or subject_names())
    limits = {"jobs": cores(), **found.limits, **given_fields(Isolation, options)}
    own = {name: found.options_of(name, **given) for name in subjects}
    # The instances of a command line are for looking at a subject, not for comparing it.
    baseline = options.baseline or (None if options.instance else found.baseline)
    compared = beside_baseline(baseline, update=options.update_baseline)
    with showing_progress() as tell:
        report = audit_apart(subjects, found.options_of("", **given), Isolation(**limits), tell, own=own)
    report, line = compared(report)
    if line:
        progress(line)
    report = replace(report, command=options.command_line)
    write(formatted(report, options.format, verbose=options.verbose))
    return report.exit_code


_WHAT = (
    option(
        "subjects",
        nargs="*",
        metavar="SUBJECT",
        help="a built-in verifier, an engine, or package.module:object (a verifier, a sampler function, an "
        "engine); default: what the configuration names, else everything installed",
    ),
    option("--engines", action="store_true", help="audit every engine available here"),
    option("--list", action="store_true", help="list what can be audited by name, and stop"),
    option(
        "--instance",
        type=Path,
        action="append",
        metavar="FILE",
        help="audit on this toy instance, not on the built-in ones; repeatable",
    ),
    option(
        "--prompt",
        dest="prompts",
        type=token_ids,
        action="append",
        metavar="IDS",
        help="token ids (0,1) after which engines generate, in place of their own prompts; repeatable",
    ),
    option(
        "--tokens",
        type=positive,
        metavar="N",
        help="tokens of an engine's longest completions; default: as many as are cheap, at least 3",
    ),
)
_CHECKS = (
    option(
        "--check",
        action="append",
        dest="checks",
        metavar="CHECK",
        help="run joint and this check only; repeatable; default: all; see `spec-oracle explain`",
    ),
    option("--skip", action="append", metavar="CHECK", help="leave this check out; repeatable"),
)
_EFFORT = (
    *sizes(vocab=3, length=3, paths=None),
    *arithmetic(),
    option("--budget", type=positive_number, metavar="SECONDS", help="of a check that samples; default: 60"),
    option("--alpha", type=rate, help="false-alarm rate of the whole run; default: 1e-6"),
)
_PROJECT = (
    option(
        "--config",
        type=Path,
        metavar="FILE",
        help="default: spec-oracle.toml, or [tool.spec-oracle] of pyproject.toml, in this folder",
    ),
    option("--no-config", action="store_true", help="read no configuration"),
    option(
        "--baseline", type=Path, metavar="FILE", help="fail where block efficiency is below that of this file"
    ),
    option("--update-baseline", action="store_true", help="write the baseline instead"),
)
_PROCESSES = (
    jobs("subjects to audit"),
    option(
        "--timeout",
        type=positive_number,
        metavar="SECONDS",
        help="of a subject, after which its process is ended; default: 900",
    ),
    option("--memory", type=positive_number, metavar="GIB", help="of a subject; default: any"),
)
_REPORT = (
    *report_options("text", "json", "junit", "markdown", "html", "github"),
    option("-v", "--verbose", action="store_true", help="show scope, sizes, rates and samples of checks"),
    option(
        "--counterexamples",
        type=Path,
        metavar="FOLDER",
        help="where instances of lossy subjects are saved; default: counterexamples",
    ),
)
AUDIT = Command(
    run,
    "Is a verifier, a sampler or an engine lossless? Proof where code can be traced, else samples.",
    "spec-oracle audit my_module:verify --check joint",
    options={
        "what is audited": _WHAT,
        "which checks": _CHECKS,
        "sizes, effort and error rate": _EFFORT,
        "the project": _PROJECT,
        "processes": _PROCESSES,
        "the report": _REPORT,
    },
    defaults=dict.fromkeys(("vocab_size", "draft_length", "seed", "exact", "array", "jobs")),
)
