"""Reports on terminals of any width, and where there is none."""

import io
import re
import time

import pytest
from rich.console import Console

import verifiers
from spec_oracle.audit.registry import listed
from spec_oracle.report import AUDIT_FORMATS, terminal
from spec_oracle.report.audit_text import list_to_text


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
    tables = [part for part in shown.split("\n\n") if "\n----" in part]
    rows = tables[0].splitlines()
    assert {len(table.splitlines()) for table in tables} == {2 + len(report.subjects)}
    if width == 200:
        assert "\x1b[32mlossless\x1b[0m" in rows[2]
        assert "\x1b[1;31mlossy" in shown
        assert "\x1b[33mdeclared-lossy" in shown


@pytest.mark.parametrize("width", [60, 80])
def test_a_narrow_terminal_shows_every_column(report, width):
    console = on(width)
    text = AUDIT_FORMATS["text"](report)
    terminal.show(text, console)
    shown = re.sub(r"\x1b\[[\d;]*m", "", console.file.getvalue())
    table = "\n\n".join(part for part in shown.split("\n\n") if "\n----" in part)
    assert "…" not in table
    assert max(map(len, table.splitlines())) <= width
    (row,) = (line for line in text.splitlines() if line.startswith("token "))
    for cell in re.split(r" {2,}", row):
        assert cell in table


@pytest.mark.parametrize("width", [60, 200])
def test_the_list_of_subjects_is_a_line_a_name(width):
    console = on(width)
    every = list(listed())
    terminal.show(list_to_text(every), console)
    shown = console.file.getvalue()
    for one in every:
        assert any(line.startswith(f"{one.name} ") for line in shown.splitlines()), one
    tables = shown.split("\n\n")
    assert [table.split()[0] for table in tables[:3]] == ["rules", "engines", "not"]
    assert len(tables[0].splitlines()) == 2 + len(verifiers.names())
    assert max(map(len, shown.splitlines())) <= width


@pytest.mark.parametrize("is_long", [True, False])
def test_a_bar_appears_only_where_the_work_takes_long(monkeypatch, is_long):
    class Patience:
        """A timer that has run out at once, or never."""

        def __init__(self, _, start):
            self.start = start if is_long else lambda: None
            self.cancel = self.join = lambda: None

    monkeypatch.setattr(terminal, "Timer", Patience)
    console = on(80)
    with terminal.showing_progress(console) as tell:
        tell("first [bold]: lossless", 1, 2)
        tell("second: lossy", 2, 2)
    shown = console.file.getvalue()
    assert "[1/2] first [bold]: lossless" in shown
    assert ("━" in shown) is is_long


def test_the_bar_names_the_running_subject_and_steps_have_no_line(monkeypatch):
    console = on(80)
    with terminal.showing_progress(console) as tell:
        tell("mine: joint passed, 0.3 s", 1, 9, step=True, now="mine: shapes, 1 s")
        tell("mine: lossless", 9, 9)
    shown = console.file.getvalue()
    assert "joint passed" not in shown
    assert "[9/9] mine: lossless" in shown


def test_without_a_terminal_steps_have_lines_and_names_are_no_emoji():
    console = Console(file=io.StringIO())
    with terminal.showing_progress(console) as tell:
        tell("bad:x: joint passed, 0.3 s", 1, 9, step=True, now="bad:x: shapes, 1 s")
        tell("", 1, 9, now="bad:x: shapes, 2 s")
    assert console.file.getvalue() == "[1/9] bad:x: joint passed, 0.3 s\n"


def test_without_a_terminal_a_line_names_the_running_check_after_silence(monkeypatch):
    monkeypatch.setattr(terminal, "EVERY", 0.01)
    console = Console(file=io.StringIO())

    def wait_for(line):
        while line not in console.file.getvalue():
            time.sleep(0.01)

    with terminal.showing_progress(console) as tell:
        wait_for(" s so far")
        tell("joint", 1, 100)
        tell("joint", 2, 100)
        wait_for("[2/100] joint, ")
        tell("", 3, 100, now="mine: shapes, 2 s")
        wait_for("[3/100] mine: shapes, 2 s")
    assert console.file.getvalue().count("joint\n") == 1
