"""A hook of MkDocs: what the command line says of itself, in its page, and a page for each rule and check."""

import argparse
import re
from pathlib import Path

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File

import verifiers
from spec_oracle.audit import effort
from spec_oracle.audit.checks import CHECKS
from spec_oracle.audit.reports import InstanceFigures
from spec_oracle.cli import command_parser
from spec_oracle.efficiency import efficiencies, sweeps
from spec_oracle.report.audit_html import drawing
from spec_oracle.report.audit_text import instance_lines
from spec_oracle.report.efficiency import HEAD, cells
from spec_oracle.report.explain import check_page
from spec_oracle.report.table import markdown_table
from spec_oracle.toy import Instance

RULES = Path(__file__).parent / "rules" / "README.md"


def _instance(length, paths):
    rows = ["1/2", "1/3", "1/6"], ["1/6", "1/3", "1/2"]
    return Instance.context_free(*rows, draft_length=length, num_paths=paths)


def on_config(config):
    """List the pages of the rules and checks."""
    (section,) = (entry["Rules"] for entry in config["nav"] if "Rules" in entry)
    section += [{"By name": [{name: f"reference/rules/{name}.md"} for name in verifiers.names()]}]
    (section,) = (entry["Reference"] for entry in config["nav"] if "Reference" in entry)
    section += [
        {"Checks": [{name: f"reference/checks/{name}.md"} for name in CHECKS]},
        {"Effort": "reference/effort.md"},
    ]


def on_files(files, config):
    """Add the pages of the rules and checks."""
    for name in verifiers.names():
        files.append(File.generated(config, f"reference/rules/{name}.md", content=rule_page(name)))
    for name in CHECKS:
        files.append(File.generated(config, f"reference/checks/{name}.md", content=check_page(name)))

    files.append(File.generated(config, "reference/effort.md", content=effort_page()))


def effort_page():
    """Return the constants of `spec_oracle.audit.effort` as tables: name, value, and the comment on it."""
    lines, comment = ["# Effort", "", *effort.__doc__.split("\n\n", 1)[1].splitlines()], ""
    for line in Path(effort.__file__).read_text("utf-8").splitlines():
        if title := re.match(r"# --- (.*?) -+$", line):
            lines += ["", f"## {title[1]}", "", "| constant | value | what it is |", "|---|---|---|"]
        elif line.startswith("# "):
            comment += line[2:] + " "
        elif found := re.match(r"([A-Z_]+): Final = ", line):
            said = comment or line.partition("  # ")[2]
            lines.append(f"| `{found[1]}` | {getattr(effort, found[1])} | {said.strip()} |")
            comment = ""
    return "\n".join(lines)


def on_page_markdown(markdown, **_):
    """Fill in the lists of commands and checks where a page asks for them."""
    filled = {"commands": _commands, "checks": _checks}
    return re.sub(r"<!-- (commands|checks) -->", lambda found: filled[found[1]](), markdown)


def _commands():
    parser = command_parser()
    (commands,) = (action for action in parser._actions if isinstance(action, argparse._SubParsersAction))
    return "\n\n".join(
        f"## {name}\n\n```\n{command.format_help()}```" for name, command in commands.choices.items()
    )


def _checks():
    rows = [
        (f"[`{check.name}`](../reference/checks/{check.name}.md)", check.question, str(check.share))
        for check in CHECKS.values()
    ]
    return markdown_table(("check", "question", "share of the error rate"), rows)


def rule_page(name):
    """Return a rule's page: what it does, its law on an instance, how near the optimum it is, its code."""
    further, rule, paths, drafting, source = _told(name)
    alone = verifiers.traits_of(verifiers.get(name)).single_path
    instance = _instance(length=2, paths=1 if alone else 2)
    own, token = efficiencies("", instance, [name, "token"], exact=True)
    lengths = (tuple(map(float, law.accepted_length)) for law in (own, token))
    lengths_drawn = drawing("length_chart", InstanceFigures(name, "", 0.0, None, *lengths))
    growth, *_ = next(iter(sweeps(_instance(4, 1) if alone else _instance(2, 3), [name]).values()))
    growth_drawn = drawing("sweep_chart", growth, "draft length L" if alone else "draft paths K")
    return f"""# `{name}`

{rule[0].upper()}{rule[1:]}. [Why it is right, and what it costs](../../rules/{further}).

| paths | drafting | source |
|---|---|---|
| {paths} | {drafting} | {_linked(source)} |

## Its output distribution

By enumeration, in rationals: drafts of two tokens on {"one path" if alone else "two paths"}, the same
next-token distributions after every context.

```
{chr(10).join(line.strip() for line in instance_lines(instance))}
```

{markdown_table(HEAD[1:], [cells(own)[1:]])}

TV 0: the output is distributed as the target's.

<figure style="max-width: 22rem">{lengths_drawn}<figcaption>Accepted tokens; lines: those of the token
rule.</figcaption></figure>

<figure style="max-width: 30rem">{growth_drawn}<figcaption>Tokens per call; thick: the most that any
rule reaches.</figcaption></figure>

## Algorithm

::: verifiers.rules.{name}
    options: {{show_source: true, show_root_heading: false, heading_level: 3}}
"""


def _told(name):
    """Return the cells of a rule's row of the table of rules: link, rule, paths, drafting, source."""
    cells = r" \| ".join(["(.*)"] * 4)
    row = rf"^\| \[`{name}`\]\((.*?)\) \| {cells} \|$"
    found = re.search(row, RULES.read_text("utf-8"), re.MULTILINE)
    if found is None:
        message = f"{RULES}: no row of the table begins with | [`{name}`](PAGE.md): add one for this rule"
        raise PluginError(message)
    return found.groups()


def _linked(source):
    return re.sub(r"\b(\d{4}\.\d{5})\b", r"[\1](https://arxiv.org/abs/\1)", source)
