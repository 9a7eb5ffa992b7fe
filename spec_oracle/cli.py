"""The command line: ``spec-oracle audit | efficiency | optimum | specimens | claims | instance``."""

import argparse
import json
import os
import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

import verifiers
from spec_oracle.errors import InvalidInputError, SpecOracleError
from spec_oracle.toy import KINDS, Instance
from spec_oracle.version import tool_version

OK, LOSSY, INCONCLUSIVE, FAILED = 0, 1, 2, 3
"""Exit codes: lossless, lossy, inconclusive or nothing tested, usage or internal error."""


class _Parser(argparse.ArgumentParser):
    """Usage errors exit with 3; argparse's own 2 means inconclusive here."""

    def error(self, message: str) -> NoReturn:
        sys.stderr.write(f"{self.prog}: {message} (see {self.prog} --help)\n")
        raise SystemExit(FAILED)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; return its exit code. Errors are one line on stderr and exit code 3."""
    given = sys.argv[1:] if arguments is None else list(arguments)
    options = _parser().parse_args(given)
    options.command_line = shlex.join(["spec-oracle", *given])
    try:
        code: int = options.run(options)
    except SpecOracleError as error:
        sys.stderr.write(f"spec-oracle: {error}\n")
        return FAILED
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except Exception as error:
        if "SPEC_ORACLE_TRACEBACK" in os.environ:
            raise
        sys.stderr.write(
            f"spec-oracle: internal error: {type(error).__name__}: {error} "
            "(set SPEC_ORACLE_TRACEBACK=1 to see where)\n"
        )
        return FAILED
    return code


def _parser() -> _Parser:
    parser = _Parser(prog="spec-oracle", description="Exact and statistical checks of speculative decoding.")
    parser.add_argument("--version", action="version", version=f"spec-oracle {tool_version()}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND", parser_class=_Parser)
    _add_audit(commands)
    _add_efficiency(commands)
    _add_optimum(commands)
    _add_specimens(commands)
    _add_claims(commands)
    _add_instance(commands)
    return parser


def _add_command(
    commands: Any, name: str, run: Callable[[Any], int], help_line: str
) -> argparse.ArgumentParser:
    command: argparse.ArgumentParser = commands.add_parser(name, help=help_line, description=help_line)
    command.set_defaults(run=run)
    return command


def _add_output(command: argparse.ArgumentParser, formats: Sequence[str]) -> None:
    command.add_argument("--format", choices=formats, default=formats[0], help=f"default: {formats[0]}")
    command.add_argument("--output", metavar="FILE", type=Path, help="write there instead of to stdout")


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"expected at least 1, got {value}")
    return value


def _rate(text: str) -> float:
    value = float(text)
    if not 0 < value < 1:
        raise argparse.ArgumentTypeError(f"expected a number between 0 and 1, got {text}")
    return value


def _seconds(text: str) -> float:
    value = float(text)
    if not value > 0:
        raise argparse.ArgumentTypeError(f"expected a positive number of seconds, got {text}")
    return value


def _add_sizes(command: argparse.ArgumentParser, *, vocab: int, length: int, paths: int | None) -> None:
    command.add_argument("--vocab-size", type=_positive, default=vocab, metavar="V", help=f"default: {vocab}")
    command.add_argument(
        "--draft-length", type=_positive, default=length, metavar="L", help=f"default: {length}"
    )
    command.add_argument(
        "--num-paths", type=_positive, default=paths, metavar="K", help=f"default: {paths or '1 or 2'}"
    )
    command.add_argument("--seed", type=int, default=0, help="default: 0")


def _add_arithmetic(command: argparse.ArgumentParser) -> None:
    command.add_argument("--exact", action="store_true", help="compute in rationals")
    command.add_argument("--array", choices=("numpy", "torch"), default="numpy", help="default: numpy")


def _emit(options: Any, text: str) -> None:
    if options.output is None:
        sys.stdout.write(text)
        return
    try:
        options.output.write_text(text, encoding="utf-8")
    except OSError as error:
        raise InvalidInputError(f"--output: {error}") from None


def _progress(line: str) -> None:
    sys.stderr.write(line + "\n")
    sys.stderr.flush()


def _add_audit(commands: Any) -> None:
    command = _add_command(
        commands, "audit", _audit, "Is a verifier lossless? Proof, or draws at stated rates."
    )
    command.add_argument(
        "subjects",
        nargs="*",
        metavar="SUBJECT",
        help="a built-in verifier, or package.module:callable (a verifier, or a function of the plain "
        "contract); without any, everything installed",
    )
    _add_sizes(command, vocab=3, length=3, paths=None)
    _add_arithmetic(command)
    _add_output(command, ("text", "json", "junit", "markdown", "html"))
    command.add_argument(
        "--alpha", type=_rate, default=1e-6, help="false-alarm rate of the run, default: 1e-6"
    )
    command.add_argument(
        "--budget", type=_seconds, default=60.0, metavar="SECONDS", help="per sampled subject, default: 60"
    )
    command.add_argument(
        "--instance", type=Path, action="append", metavar="FILE", help="audit on this instance; repeatable"
    )
    command.add_argument(
        "--counterexamples",
        type=Path,
        default=Path("counterexamples"),
        metavar="FOLDER",
        help="where instances of lossy subjects are saved, default: counterexamples",
    )
    command.add_argument("--engines", action="store_true", help="audit every engine available here")
    command.add_argument("--list", action="store_true", help="list the subjects by name")


def _audit(options: Any) -> int:
    from spec_oracle.audit import AuditOptions, audit
    from spec_oracle.audit.subjects import engine_availability, subject_list, subject_names
    from spec_oracle.report import AUDIT_FORMATS

    if options.list:
        _emit(options, subject_list())
        return OK
    chosen = AuditOptions(
        vocab_size=options.vocab_size,
        draft_length=options.draft_length,
        num_paths=options.num_paths,
        seed=options.seed,
        alpha=options.alpha,
        budget=options.budget,
        exact=options.exact,
        array=options.array,
        instances={str(path): Instance.load(path) for path in options.instance} if options.instance else None,
        counterexamples=options.counterexamples,
    )
    subjects = list(options.subjects)
    if options.engines:
        available, missing = engine_availability()
        subjects += available
        for line in missing:
            _progress(f"not run: {line}")
    subjects = subjects or list(subject_names())
    report = replace(audit(*subjects, options=chosen, progress=_progress), command=options.command_line)
    _emit(options, AUDIT_FORMATS[options.format](report))
    return report.exit_code


def _add_files(command: argparse.ArgumentParser) -> None:
    command.add_argument("files", nargs="+", metavar="FILE", type=Path, help="instance files")


def _add_efficiency(commands: Any) -> None:
    command = _add_command(
        commands, "efficiency", _efficiency, "Exact block efficiency, optimum and headroom."
    )
    command.add_argument("files", nargs="*", metavar="FILE", type=Path, help="instance files")
    _add_pair(command, required=False)
    command.add_argument(
        "--prompts", type=Path, metavar="FILE", help="cut instances out of language models, a prompt a line"
    )
    command.add_argument("--no-optimum", action="store_true", help="with --prompts: leave out the optimum")
    command.add_argument(
        "--verifier", action="append", metavar="NAME", help="a built-in verifier, repeatable; default: all"
    )
    command.add_argument(
        "--plot",
        metavar="FILE",
        type=Path,
        help="draw block efficiency: of one instance file against K and L, or the table of --prompts",
    )
    _add_arithmetic(command)
    _add_output(command, ("text", "json", "markdown"))


def _efficiency(options: Any) -> int:
    from spec_oracle.report import efficiency

    if (options.prompts is None) == (not options.files):
        raise InvalidInputError("efficiency: expected either instance files or --prompts")
    if options.prompts is not None:
        return _pair_efficiency(options)
    names = options.verifier or list(verifiers.names())
    for name in names:
        verifiers.get(name)
    if options.plot is not None:
        _plot(options, names)
    results = []
    for path in options.files:
        instance = Instance.load(path)
        _progress(str(path))
        results += efficiency.efficiencies(
            str(path), instance, names, exact=options.exact, array=options.array
        )
    _emit(options, efficiency.FORMATS[options.format](results))
    return OK


def _pair_efficiency(options: Any) -> int:
    from spec_oracle.report import language_models as report

    names = options.verifier or [name for name in verifiers.names() if name not in report.LEFT_OUT]
    for name in names:
        verifiers.get(name)
    prompts = report.prompts_of(options.prompts)
    title = (
        f"{options.target} drafted by {options.draft}: {len(prompts)} prompts, top-k {options.top_k}, "
        f"depth {options.depth}, {options.num_paths} paths, temperature {options.temperature:g}"
    )
    result = report.pair_efficiency(
        title, _cut_instances(options, prompts), names, optimum=not options.no_optimum, progress=_progress
    )
    if not options.verifier:
        for name, reason in report.LEFT_OUT.items():
            _progress(f"left out: {name}, {reason}")
    _emit(options, report.FORMATS[options.format](result))
    if options.plot is not None:
        report.plot(result, options.plot)
    return OK


def _add_pair(command: argparse.ArgumentParser, *, required: bool) -> None:
    """Add the options that name two language models and how to cut an instance out of them."""
    models = "smollm2 or a Hugging Face path, then :layers=N, :temperature=T, :dtype=D"
    command.add_argument("--target", default="smollm2", metavar="MODEL", help=f"{models}; default: smollm2")
    command.add_argument(
        "--draft", default="smollm2:layers=20", metavar="MODEL", help="default: smollm2:layers=20"
    )
    if required:
        command.add_argument("--prompt", required=True, help="the text to continue")
    command.add_argument("--top-k", type=_positive, default=6, metavar="V", help="default: 6")
    command.add_argument("--depth", type=_positive, default=3, metavar="L", help="default: 3")
    command.add_argument("--num-paths", type=_positive, default=2, metavar="K", help="default: 2")
    command.add_argument("--temperature", type=float, default=1.0, help="of both models; default: 1")
    command.add_argument(
        "--shortlist",
        choices=("target", "union"),
        default="target",
        help="the tokens of a context: the target's top k for both, or each model's own; default: target",
    )
    command.add_argument("--device", default="cpu", help="default: cpu")


def _cut_instances(options: Any, prompts: Sequence[str]) -> Iterator[tuple[str, Instance]]:
    """Yield each prompt with the instance cut out after it."""
    from spec_oracle.language_models import load_language_model

    target = load_language_model(options.target, device=options.device)
    draft = load_language_model(options.draft, device=options.device)
    for prompt in prompts:
        yield (
            prompt,
            Instance.from_language_models(
                target,
                draft,
                target.encode(prompt),
                top_k=options.top_k,
                depth=options.depth,
                temperature=options.temperature,
                num_paths=options.num_paths,
                shortlist=options.shortlist,
            ),
        )


def _plot(options: Any, names: Sequence[str]) -> None:
    from spec_oracle.report import plot

    if len(options.files) != 1:
        raise InvalidInputError(f"--plot: draws one instance, got {len(options.files)} files")
    path = options.files[0]
    plot.save_sweeps(options.plot, f"Block efficiency and optimum: {path.name}", Instance.load(path), names)


def _add_optimum(commands: Any) -> None:
    command = _add_command(commands, "optimum", _optimum, "What any verifier could reach, with certificates.")
    _add_files(command)
    command.add_argument("--exact", action="store_true", help="print rationals")
    _add_output(command, ("text", "json"))


def _optimum(options: Any) -> int:
    from spec_oracle.report import optimum

    results = [optimum.optima(str(path), Instance.load(path), exact=options.exact) for path in options.files]
    _emit(options, optimum.FORMATS[options.format](results))
    return OK


def _add_specimens(commands: Any) -> None:
    command = _add_command(
        commands, "specimens", _specimens, "Which check kills which known-faulty verifier or system."
    )
    command.add_argument("names", nargs="*", metavar="SPECIMEN", help="default: all")
    command.add_argument("--seed", type=int, default=0, help="default: 0")
    command.add_argument(
        "--alpha", type=_rate, default=1e-6, help="false-alarm rate of the matrix, default: 1e-6"
    )
    command.add_argument(
        "--budget", type=_seconds, default=5.0, metavar="SECONDS", help="per sampled joint law, default: 5"
    )
    _add_output(command, ("text", "json", "html"))


def _specimens(options: Any) -> int:
    from spec_oracle.audit.kill_matrix import MatrixOptions, kill_matrix
    from spec_oracle.report import specimens as report
    from spec_oracle.specimens.registry import specimens

    known = specimens()
    for name in options.names:
        if name not in known:
            raise InvalidInputError(f"specimen: unknown {name!r}; known ones are {', '.join(known)}")
    chosen = [known[name] for name in options.names or known]
    matrix = kill_matrix(
        chosen, MatrixOptions(alpha=options.alpha, seed=options.seed, budget=options.budget), _progress
    )
    _emit(options, report.FORMATS[options.format](matrix))
    return matrix.exit_code


def _add_claims(commands: Any) -> None:
    command = _add_command(commands, "claims", _claims, "Published claims, decided by exact enumeration.")
    _add_output(command, ("markdown", "json"))


def _claims(options: Any) -> int:
    from spec_oracle.claims import decided_claims
    from spec_oracle.report import claims

    groups = {}
    for heading, decided in decided_claims():
        _progress(heading)
        groups[heading] = decided
    _emit(options, claims.FORMATS[options.format](groups))
    return OK


def _add_instance(commands: Any) -> None:
    command = _add_command(commands, "instance", _instance_usage, "Make instance files.")
    kinds = command.add_subparsers(required=True, metavar="KIND", parser_class=_Parser)
    random = _add_command(kinds, "random", _random_instance, "Random rows, other ones after every context.")
    _add_sizes(random, vocab=3, length=2, paths=1)
    random.add_argument("--kind", choices=tuple(KINDS), default="dirichlet", help="default: dirichlet")
    random.add_argument(
        "--concentration", type=float, default=1.0, help="flat above 1, peaked below; default: 1"
    )
    random.add_argument(
        "--agreement", type=float, default=0.0, help="share of the target in the draft; default: 0"
    )
    random.add_argument("--denominator", type=_positive, metavar="N", help="round to multiples of 1/N")
    random.add_argument("--output", metavar="FILE", type=Path, help="write there instead of to stdout")
    worked = _add_command(
        kinds, "example", _example_instance, "The two-token example of block verification (arXiv 2403.10444)."
    )
    worked.add_argument("--num-paths", type=_positive, default=1, metavar="K", help="default: 1")
    worked.add_argument("--output", metavar="FILE", type=Path, help="write there instead of to stdout")

    cut = _add_command(kinds, "lm", _cut_instance, "The tree of two language models after a prompt.")
    _add_pair(cut, required=True)
    cut.add_argument("--output", metavar="FILE", type=Path, help="write there instead of to stdout")


def _cut_instance(options: Any) -> int:
    ((_, instance),) = _cut_instances(options, [options.prompt])
    return _emit_instance(options, instance)


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
    _emit(options, json.dumps(instance.to_json(), indent=1) + "\n")
    return OK


if __name__ == "__main__":
    sys.exit(main())
