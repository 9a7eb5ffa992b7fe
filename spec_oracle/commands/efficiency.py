"""``spec-oracle efficiency`` and ``optimum``: exact figures and what bounds them."""

from argparse import Namespace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import verifiers
from spec_oracle.commands import options as cli
from spec_oracle.errors import InvalidInputError
from spec_oracle.toy import Instance
from verifiers import Siblings, drafting_of

if TYPE_CHECKING:
    from spec_oracle.efficiency.trees import DraftTrees


def run(options: Namespace) -> int:
    """Write the figures of every verifier on every instance, or on a pair of language models."""
    from spec_oracle.efficiency import Efficiency, efficiencies, sweeps
    from spec_oracle.report import efficiency
    from spec_oracle.report.terminal import showing_progress

    cli.require_files_or_prompts(options, "efficiency")
    names, tree = _asked(options)
    if options.prompts is not None:
        return _run_pair(options, names)
    instances = {path: Instance.load(path) for path in options.files}
    if options.plot is not None and len(options.files) != 1:
        raise InvalidInputError(f"--plot: expected one instance file, got {len(options.files)}")
    results: list[Efficiency] = []
    write = partial(cli.write_report, options, efficiency.FORMATS, results)
    with cli.written_if_interrupted(write, results), showing_progress() as tell:
        for path, instance in instances.items():
            tell(str(path), len(results), len(names) * len(instances))

            def note(found: Efficiency) -> None:
                results.append(found)
                done = f"{found.file}: {found.verifier} is done"
                tell("", len(results), len(names) * len(instances), now=done)

            exact, array = options.exact, options.array
            efficiencies(str(path), instance, names, exact=exact, array=array, tree=tree, note=note)
            if options.plot is not None:
                from spec_oracle.report.plot import save_sweeps

                tell(f"{path}: {options.plot}", len(results), len(results))
                title = f"Block efficiency and optimum: {path.name}"
                save_sweeps(options.plot, title, sweeps(instance, names, tree))
    write()
    return cli.OK


def _asked(options: Namespace) -> "tuple[list[str], DraftTrees | None]":
    """Return the names of the rules, and the draft trees, if the drafts are others than K paths."""
    from spec_oracle.audit.subjects import named_verifier
    from spec_oracle.efficiency.trees import DraftTrees, FanOuts

    for name in options.verifier or ():  # before anything is computed
        named_verifier(name)
    if options.tree is None:
        return options.verifier or list(verifiers.names()), None
    if options.prompts is not None:
        raise InvalidInputError(
            "--tree: trees are measured on instance files; `python -m lab.design` measures them after prompts"
        )
    tree = DraftTrees(FanOuts.named(options.tree), Siblings(options.siblings))
    if not options.verifier:
        return [name for name in verifiers.names() if tree.is_accepted(verifiers.get(name))], tree
    for name in options.verifier:
        tree.require_accepted(name, named_verifier(name))
    return options.verifier, tree


def _run_pair(options: Namespace, names: list[str]) -> int:
    from spec_oracle.language_models.efficiency import pair_efficiency
    from spec_oracle.report import efficiency
    from spec_oracle.report.terminal import showing_progress
    from spec_oracle.sweeps import Plan, rows_for

    prompts = cli.prompts_of(options.prompts)
    title = (
        f"{options.target} drafted by {options.draft}: {len(prompts)} prompts, top-k {options.top_k}, "
        f"depth {options.depth}, {options.num_paths} paths, temperature {options.temperature:g}"
    )
    same = {"names": names, "optimum": not options.no_optimum, **cli.pair_of(options)}
    plan = Plan("prompt", {"prompt": prompts, **{name: [value] for name, value in same.items()}})
    with showing_progress() as tell, rows_for(options.output, plan, options.jobs, tell) as rows:
        result = pair_efficiency(title, names, rows)
        cli.write_report(options, efficiency.PAIR_FORMATS, result)
        if options.plot is not None:
            efficiency.save_pair_plot(result, options.plot)
    return cli.OK


def run_optimum(options: Namespace) -> int:
    """Write the optima of every instance, their certificates checked."""
    from spec_oracle.audit.subjects import named_verifier
    from spec_oracle.optimum import Optimum, checked_optima
    from spec_oracle.report import efficiency
    from spec_oracle.report.terminal import showing_progress

    drafting = drafting_of(named_verifier(options.verifier)) if options.verifier else Siblings.INDEPENDENT
    results: dict[str, dict[str, Optimum]] = {}
    write = partial(cli.write_report, options, efficiency.OPTIMUM_FORMATS, results)
    with cli.written_if_interrupted(write, results), showing_progress() as tell:
        for path in options.files:
            tell(str(path), len(results), len(options.files))
            found = checked_optima(Instance.load(path), drafting=drafting, exact=options.exact)
            results[str(path)] = found
    write()
    return cli.OK


_NAME = "a built-in rule, or package.module:object of yours; default: all built-in ones"
_TREE = "what is drafted in place of the K paths: 'delay 1, K = 2, L = 2', 'fan-outs 2, 2'"
_SIBLINGS = "how the drafts after a node of these trees are drawn"
_LAWS = tuple(law.value for law in Siblings if law is not Siblings.BEAM)
_DRAFTING = "whose drafts it is for: a built-in rule, or package.module:object of yours; default: independent"
_PLOT = (
    "draw block efficiency: of one instance against K and L or the levels of --tree, or after every prompt"
)
EFFICIENCY = cli.Command(
    run,
    "Exact block efficiency, optimum and headroom of verifiers, built in or yours.",
    "spec-oracle efficiency toy.json --verifier token --verifier block",
    options={
        "what is measured": [
            cli.value("files", "FILE", "instance files", Path, nargs="*"),
            cli.several("--verifier", "NAME", _NAME),
            cli.value("--tree", "SHAPE", _TREE),
            cli.value("--siblings", None, _SIBLINGS, default="independent", choices=_LAWS),
            *cli.arithmetic(),
        ],
        "two language models, in place of instance files": [
            cli.value("--prompts", "FILE", "measure after these prompts, one a line", Path),
            *cli.PAIR,
            cli.flag("--no-optimum", "leave out the optimum, which takes longest"),
            cli.jobs("prompts"),
        ],
        "the report": [
            *cli.report_options("text", "json", "markdown", "csv", "latex"),
            cli.value("--plot", "FILE", _PLOT, cli.file_to_write),
        ],
    },
)

OPTIMUM = cli.Command(
    run_optimum,
    "The most tokens per call that any verifier could reach, with certificates.",
    "spec-oracle optimum toy.json --exact",
    options={
        "what is measured": [
            cli.value("files", "FILE", "instance files", Path, nargs="+"),
            cli.value("--verifier", "NAME", _DRAFTING),
            cli.flag("--exact", "print rationals"),
        ],
        "the report": cli.report_options("text", "markdown", "json", "csv", "latex"),
    },
)
