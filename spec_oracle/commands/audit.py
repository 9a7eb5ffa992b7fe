"""``spec-oracle audit``: say whether subjects are lossless."""

from collections.abc import Callable
from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spec_oracle.commands.options import (
    OK,
    add_arithmetic,
    add_command,
    add_jobs,
    add_output,
    add_sizes,
    cores,
    emit,
    positive,
    positive_number,
    progress,
    prompt,
    rate,
)
from spec_oracle.errors import InvalidInputError
from spec_oracle.toy import Instance

if TYPE_CHECKING:
    from spec_oracle.audit import AuditReport
    from spec_oracle.gate.configuration import Configuration

_CONFIGURED = (
    *("vocab_size", "draft_length", "seed", "exact", "array", "alpha", "budget", "counterexamples"),
    *("jobs", "timeout"),
)


def add_audit(commands: Any) -> None:
    """Add ``audit`` to the parser."""
    command = add_command(
        commands, "audit", _audit, "Is a verifier lossless? Proof, or draws at stated rates."
    )
    command.add_argument(
        "subjects",
        nargs="*",
        metavar="SUBJECT",
        help="a built-in verifier, an engine, or package.module:object (a verifier, a function of the plain "
        "contract, or an engine of the system contract); without any, what the configuration names, else "
        "everything installed",
    )
    command.add_argument(
        "--config",
        type=Path,
        metavar="FILE",
        help="default: spec-oracle.toml or [tool.spec-oracle] of pyproject.toml, here",
    )
    command.add_argument("--no-config", action="store_true", help="read no configuration")
    add_sizes(command, vocab=3, length=3, paths=None)
    add_arithmetic(command)
    add_output(command, ("text", "json", "junit", "markdown", "html", "github"))
    command.add_argument("--alpha", type=rate, help="false-alarm rate of the run, default: 1e-6")
    command.add_argument(
        "--budget", type=positive_number, metavar="SECONDS", help="per sampled subject, default: 60"
    )
    command.add_argument(
        "--instance", type=Path, action="append", metavar="FILE", help="audit on this instance; repeatable"
    )
    command.add_argument(
        "--tokens",
        type=positive,
        metavar="N",
        help="tokens of the longest texts of whole engines, default: as many as are cheap, at least 3",
    )
    command.add_argument(
        "--prompt",
        dest="prompts",
        type=prompt,
        action="append",
        metavar="IDS",
        help="decode whole engines after these token ids (0,1), not after their own prompts; repeatable",
    )
    command.add_argument(
        "--counterexamples",
        type=Path,
        metavar="FOLDER",
        help="where instances of lossy subjects are saved, default: counterexamples",
    )
    command.add_argument(
        "--check",
        action="append",
        dest="checks",
        metavar="CHECK",
        help="run `joint` and this check only; repeatable; default: all that apply",
    )
    command.add_argument(
        "--skip", action="append", default=[], metavar="CHECK", help="leave this check out; repeatable"
    )
    command.add_argument(
        "--baseline",
        type=Path,
        metavar="FILE",
        help="fail where a lossless subject accepts less than this file says",
    )
    command.add_argument(
        "--update-baseline", action="store_true", help="write the baseline instead: what is accepted now"
    )
    add_jobs(command, "subjects to audit")
    command.add_argument(
        "--timeout",
        type=positive_number,
        metavar="SECONDS",
        help="per subject, after which its process is ended; default: 900",
    )
    command.add_argument(
        "--memory", type=positive_number, metavar="GIB", help="per subject; default: no limit"
    )
    command.add_argument("--engines", action="store_true", help="audit every engine available here")
    command.add_argument("--list", action="store_true", help="list the subjects by name")
    # What is not given is the configuration's, else the default of `AuditOptions` or `Isolation`.
    command.set_defaults(**dict.fromkeys(_CONFIGURED))


def _audit(options: Any) -> int:
    from spec_oracle.audit import AuditOptions
    from spec_oracle.audit.isolation import Isolation, audit_apart
    from spec_oracle.audit.subjects.resolve import engine_availability, listed, subject_names
    from spec_oracle.report import AUDIT_FORMATS
    from spec_oracle.report.audit_text import list_to_text
    from spec_oracle.report.terminal import told

    if options.list:
        _tell(options, list_to_text(listed()))
        return OK
    found = _configuration(options)
    given = _given(options, AuditOptions)
    if options.instance:
        given["instances"] = {str(path): Instance.load(path) for path in options.instance}
    if options.prompts:
        given["prompts"] = tuple(options.prompts)
    if options.skip:
        given["skip"] = dict.fromkeys(options.skip, "")
    beside_baseline = _baseline(options, found)
    subjects = list(options.subjects)
    if options.engines:
        available, missing = engine_availability()
        subjects += available
        for line in missing:
            progress(f"not run: {line}")
    subjects = subjects or list(found.subjects or subject_names())
    with told() as tell:
        report = audit_apart(
            subjects,
            AuditOptions(**{**found.options, **given}),
            Isolation(**{**found.limits, **_given(options, Isolation)}),
            tell,
            own={name: found.options_of(name, **given) for name in subjects},
        )
    report = replace(beside_baseline(report), command=options.command_line)
    _tell(options, AUDIT_FORMATS[options.format](report))
    return report.exit_code


def _tell(options: Any, text: str) -> None:
    """Write the result where it is wanted; text on a terminal is shown as terminals can."""
    from spec_oracle.report.terminal import show

    if options.format == "text" and options.output is None:
        show(text)
    else:
        emit(options, text)


def _baseline(options: Any, found: "Configuration") -> "Callable[[AuditReport], AuditReport]":
    """Return what compares a report with the baseline, or writes that; read before anything is audited."""
    from spec_oracle.gate.baseline import read_baseline, update_baseline, with_baseline

    # The instances of a command line are for looking at a subject, not for comparing it.
    file = options.baseline or (None if options.instance else found.baseline)
    if file is None:
        if options.update_baseline:
            raise InvalidInputError("--update-baseline: expected --baseline FILE, or one configured")
        return lambda report: report
    if not options.update_baseline:
        return partial(with_baseline, entries=read_baseline(file))

    def updating(report: "AuditReport") -> "AuditReport":
        kept = ", ".join(update_baseline(file, report))
        progress(f"baseline: {file} holds {kept or 'nothing new: no exact law of what is lossless'}")
        return report

    return updating


def _configuration(options: Any) -> "Configuration":
    """Return the configuration that applies, and tell which; what is saved goes to a folder by default."""
    from spec_oracle.gate.configuration import Configuration, find_configuration, read_configuration

    if options.config is not None:
        found = read_configuration(options.config)
    else:
        found = Configuration() if options.no_config else find_configuration(Path())
    if found.file is not None:
        progress(f"configuration: {found.file}")
    saved = {"counterexamples": Path("counterexamples"), **found.options}
    return replace(found, options=saved, limits={"jobs": cores(), **found.limits})


def _given(options: Any, kind: type) -> dict[str, Any]:
    """Return the fields of a class of options that the command line sets."""
    said = {field.name: getattr(options, field.name, None) for field in fields(kind)}
    return {name: value for name, value in said.items() if value is not None and name != "skip"}
