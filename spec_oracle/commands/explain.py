"""``spec-oracle explain``: what a check asks, how it knows, what it found, how to reproduce its result."""

from argparse import Namespace

from spec_oracle.commands.options import OK, Command, emit, report_options, value


def run(options: Namespace) -> int:
    """Write the page of a check, or a line on every check."""
    from spec_oracle.report.explain import check_page, list_of_checks

    page = check_page(options.check).replace("](../../", "](docs/") if options.check else list_of_checks()
    emit(options, page)
    return OK


EXPLAIN = Command(
    run,
    "What does a check ask, how does it know, and what did it find in the wild?",
    "spec-oracle explain joint",
    options={
        "the check": [value("check", "CHECK", "default: a line on every check", nargs="?")],
        "the report": report_options("markdown"),
    },
)
