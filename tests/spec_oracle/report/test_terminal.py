"""Reports on terminals of any width, and where there is none."""

import io

import pytest
from rich.console import Console

from spec_oracle.report import AUDIT_FORMATS, terminal


def on(width, **more):
    return Console(file=io.StringIO(), width=width, force_terminal=True, color_system="standard", **more)


def test_a_report_in_a_pipe_is_plain(report, capsys):
    text = AUDIT_FORMATS["text"](report)
    terminal.show(text)
    assert capsys.readouterr().out == text


@pytest.mark.parametrize("width", [40, 80, 200])
def test_no_row_of_the_table_is_broken_and_verdicts_are_coloured(report, width):
    console = on(width)
    terminal.show(AUDIT_FORMATS["text"](report), console)
    shown = console.file.getvalue()
    rows = shown.split("\n\n")[0].splitlines()
    assert len(rows) == 2 + len(report.subjects)
    if width == 200:
        assert "\x1b[32mlossless\x1b[0m" in rows[2]
        assert "\x1b[1;31mlossy" in shown
        assert "\x1b[33mdeclared-lossy" in shown


@pytest.mark.parametrize("is_long", [True, False])
def test_a_bar_appears_only_where_the_work_takes_long(monkeypatch, is_long):
    class Patience:
        """A timer that has run out at once, or never."""

        def __init__(self, _, start):
            self.start = start if is_long else lambda: None
            self.cancel = self.join = lambda: None

    monkeypatch.setattr(terminal, "Timer", Patience)
    console = on(80)
    with terminal.told(2, None, console) as tell:
        tell("[1/2] first [bold]: lossless")
        tell("[2/2] second: lossy")
    shown = console.file.getvalue()
    assert "[1/2] first [bold]: lossless" in shown
    assert ("━" in shown) is is_long


def test_without_a_terminal_lines_are_told():
    told = []
    with terminal.told(1, told.append, Console(file=io.StringIO())) as tell:
        tell("line")
    assert told == ["line"]
