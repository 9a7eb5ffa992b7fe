"""The picture of README's first screen: what a terminal shows of an audit that finds a defect.

python -m lab.studies.verdict_picture --output docs/verdict.svg
"""

import argparse
import re
from collections.abc import Sequence
from contextlib import chdir, redirect_stdout
from io import StringIO
from pathlib import Path
from shutil import copytree
from tempfile import TemporaryDirectory

from rich.console import Console
from rich.text import Text

from spec_oracle.cli import main as spec_oracle

COMMAND = "audit same_uniform:verify"
"""Of a sampler in docs/examples that uses one random number twice."""

COLOURS = {
    r"^\$ .*": "bold",
    r"\blossy\b|✗.*failed": "bold red",
    r"✓": "green",
    r"smallest counterexample|0 found|1/4": "bold yellow",
    r"reproduce: .*": "cyan",
}
WIDTH = 118


def printed() -> str:
    """Run the command in its folder and return what it prints, time left out."""
    out = StringIO()
    examples = Path(__file__).parents[2] / "docs/examples"
    with TemporaryDirectory() as folder, chdir(folder), redirect_stdout(out):
        copytree(examples, ".", dirs_exist_ok=True)
        spec_oracle(COMMAND.split())
    shown = re.sub(r"\d+(\.\d)? s, seed", "... s, seed", out.getvalue())
    return re.sub(r"(?<=position 0), although .*", " ...", shown)


def picture(text: str) -> str:
    """Return a terminal that shows the command and its output, as SVG without fonts from elsewhere."""
    console = Console(record=True, width=WIDTH, file=StringIO(), force_terminal=True)
    shown = Text(f"$ spec-oracle {COMMAND}\n{text.rstrip()}", no_wrap=True, overflow="ellipsis")
    for pattern, style in COLOURS.items():
        shown.highlight_regex(re.compile(pattern, re.MULTILINE), style)
    console.print(shown)
    made = console.export_svg(title="spec-oracle", unique_id="verdict")
    return re.sub(r"@font-face \{.*?\}\s*", "", made, flags=re.DOTALL)


def main(arguments: Sequence[str] | None = None) -> None:
    """Audit, and write the picture."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=Path("docs/verdict.svg"))
    options = parser.parse_args(arguments)
    options.output.write_text(picture(printed()), encoding="utf-8")


if __name__ == "__main__":
    main()
