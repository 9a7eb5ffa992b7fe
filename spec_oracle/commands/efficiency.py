"""``spec-oracle efficiency`` and ``optimum``: exact figures and what bounds them."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import verifiers
from spec_oracle.commands.language_models import add_pair, pair_of, prompts_of
from spec_oracle.commands.options import (
    OK,
    add_arithmetic,
    add_command,
    add_files,
    add_jobs,
    add_output,
    emit,
    progress,
)
from spec_oracle.errors import InvalidInputError
from spec_oracle.toy import Instance


def add_efficiency(commands: Any) -> None:
    """Add ``efficiency`` to the parser."""
    command = add_command(
        commands, "efficiency", _efficiency, "Exact block efficiency, optimum and headroom."
    )
    command.add_argument("files", nargs="*", metavar="FILE", type=Path, help="instance files")
    add_pair(command, required=False)
    command.add_argument(
        "--prompts", type=Path, metavar="FILE", help="cut instances out of language models, a prompt a line"
    )
    command.add_argument("--no-optimum", action="store_true", help="with --prompts: leave out the optimum")
    add_jobs(command, "with --prompts: prompts")
    command.add_argument(
        "--verifier", action="append", metavar="NAME", help="a built-in verifier, repeatable; default: all"
    )
    command.add_argument(
        "--plot",
        metavar="FILE",
        type=Path,
        help="draw block efficiency: of one instance file against K and L, or the table of --prompts",
    )
    add_arithmetic(command)
    add_output(command, ("text", "json", "markdown"))


def _efficiency(options: Any) -> int:
    from spec_oracle.efficiency import efficiencies
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
        progress(str(path))
        results += efficiencies(str(path), instance, names, exact=options.exact, array=options.array)
    emit(options, efficiency.FORMATS[options.format](results))
    return OK


def _pair_efficiency(options: Any) -> int:
    from spec_oracle.efficiency import pair_efficiency
    from spec_oracle.report import language_models as report
    from spec_oracle.report.language_model_plot import save_pair_plot
    from spec_oracle.report.terminal import told
    from spec_oracle.sweeps import Plan, rows_for

    names = options.verifier or list(verifiers.names())
    for name in names:
        verifiers.get(name)
    prompts = prompts_of(options.prompts)
    title = (
        f"{options.target} drafted by {options.draft}: {len(prompts)} prompts, top-k {options.top_k}, "
        f"depth {options.depth}, {options.num_paths} paths, temperature {options.temperature:g}"
    )
    same = {"names": names, "optimum": not options.no_optimum, **pair_of(options)}
    plan = Plan("prompt", {"prompt": prompts, **{name: [value] for name, value in same.items()}})
    with told() as tell, rows_for(options.output, plan, options.jobs, tell) as rows:
        result = pair_efficiency(title, names, rows)
        emit(options, report.FORMATS[options.format](result))
        if options.plot is not None:
            save_pair_plot(result, options.plot)
    return OK


def _plot(options: Any, names: Sequence[str]) -> None:
    from spec_oracle.efficiency import sweeps
    from spec_oracle.report.plot import save_sweeps

    if len(options.files) != 1:
        raise InvalidInputError(f"--plot: draws one instance, got {len(options.files)} files")
    path = options.files[0]
    found = sweeps(Instance.load(path), names)
    save_sweeps(options.plot, f"Block efficiency and optimum: {path.name}", found)


def add_optimum(commands: Any) -> None:
    """Add ``optimum`` to the parser."""
    command = add_command(commands, "optimum", _optimum, "What any verifier could reach, with certificates.")
    add_files(command)
    command.add_argument("--exact", action="store_true", help="print rationals")
    add_output(command, ("text", "json"))


def _optimum(options: Any) -> int:
    from spec_oracle.optimum import checked_optima
    from spec_oracle.report import optimum

    results = {str(path): checked_optima(Instance.load(path), exact=options.exact) for path in options.files}
    emit(options, optimum.FORMATS[options.format](results))
    return OK
