"""Pages of HTML and pictures in them, from the folder templates."""

from jinja2 import Environment, PackageLoader, StrictUndefined, Template
from markupsafe import Markup

from spec_oracle.audit.results import UNTRIED, Status
from spec_oracle.report.audit_junit import NO_XML
from spec_oracle.report.table import percent, short

DOTS = {Status.PASSED: "●", Status.FAILED: "✗", Status.INCONCLUSIVE: "?", **dict.fromkeys(UNTRIED, "")}
"""The cells of a heat map of checks."""


def environment() -> Environment:
    """Return what reads our templates: everything that they show is escaped, nothing may be missing."""
    made = Environment(
        loader=PackageLoader("spec_oracle.report"),
        autoescape=True,
        keep_trailing_newline=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )
    made.filters.update(short=short, percent=percent)
    made.globals.update(DOTS=DOTS, UNTRIED=UNTRIED)
    return made


def page(template: Template, **shown: object) -> str:
    """Return a template with what it shows; characters that HTML cannot hold are replaced."""
    return NO_XML.sub("\ufffd", template.render(**shown))


def drawing(name: str, *shown: object) -> Markup:
    """Return a picture of `drawings.html` as inline SVG, on one line: a page of Markdown may hold it."""
    made = getattr(environment().get_template("drawings.html").module, name)(*shown)
    return Markup(" ".join(made.split("\n")))  # noqa: S704  # it was escaped by the template
