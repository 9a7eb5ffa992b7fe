"""The code that a check runs on one subject lies in few files, and a reader seldom goes back to one.

A stay is a run of functions in one file, in the order of their first calls; a return is a stay in a file that
was left before. What a reader trusts is not counted: mathematics and errors.
"""

import random
import sys
from itertools import chain, groupby
from pathlib import Path

import pytest

import spec_oracle
import verifiers
from spec_oracle.audit import AuditOptions, audit
from spec_oracle.audit.context import Context, ShapeLimits
from spec_oracle.audit.suite import result_of
from spec_oracle.contracts import as_sampler
from spec_oracle.servers.checks.subject import ServerPlan, ServerSubject
from spec_oracle.servers.checks.suite import SERVER
from tests.spec_oracle.audit.engine.engines import TARGET, Right
from tests.spec_oracle.servers.client.stand_in import StandIn, server_of
from tests.subjects import sampler

ROOT = Path(spec_oracle.__file__).parent
TRUSTED = {
    *("errors", "exact", "language_models", "optimum", "plain", "statistics", "threads", "toy"),
    *("clock", "installed", "places", "validation"),
}
"""Top-level modules and packages of `spec_oracle`."""
TRACERS = {"audit/engine/tracer.py", "audit/sampler/tracer.py"}
"""Enumeration of what traced code returns: trusted as `spec_oracle.exact` is."""


def files_on_the_way(function):
    """Return the files of the stays, in order."""
    seen, files = set(), []

    def note(frame, event, _):
        code = frame.f_code
        if event != "call" or code in seen or code.co_name.startswith("<"):
            return
        seen.add(code)
        file = Path(code.co_filename)
        if not file.is_relative_to(ROOT) or (name := str(file.relative_to(ROOT))) in TRACERS:
            return
        if name.partition("/")[0].removesuffix(".py") not in TRUSTED:
            files.append(name)

    sys.setprofile(note)
    try:
        function()
    finally:
        sys.setprofile(None)
    return [file for file, _ in groupby(files)]


def forget_what_was_computed():
    """Clear all caches, so that the same functions are called as in a process of its own."""
    ours = [module for name, module in sys.modules.items() if name.startswith(("spec_oracle", "verifiers"))]
    for thing in [*chain.from_iterable(vars(module).values() for module in ours)]:
        if hasattr(thing, "cache_clear"):
            thing.cache_clear()


class Least:
    """An engine with no more than an audit needs, which draws its tokens from the target."""

    prompts = ((0,),)
    next_token_probs = Right.next_token_probs

    def generate(self, prompt, max_new_tokens):
        text = []
        while len(text) < max_new_tokens:
            text += random.choices(range(len(TARGET(prompt))), TARGET((*prompt, *text)))
        return text


def server():
    return ServerSubject("here", server_of(StandIn(), prompts=["bc"]), ServerPlan(detect=0.4))


@pytest.mark.parametrize(
    ("made", "suite", "stays", "returns"),
    [
        (lambda: "token", None, 19, 5),
        (lambda: as_sampler(verifiers.get("token")), None, 27, 9),
        (Least, None, 38, 19),
        (server, SERVER, 32, 12),
    ],
    ids=["verifier", "sampler", "engine", "server"],
)
@pytest.mark.usefixtures("less_effort")
def test_readers_of_a_check_jump_rarely_between_files(made, suite, stays, returns):
    options, subject = AuditOptions(vocab_size=2, draft_length=1, checks=("joint",), budget=20.0), made()
    forget_what_was_computed()
    files = files_on_the_way(lambda: audit(subject, options=options, suite=suite))
    left = [file for number, file in enumerate(files) if file in files[:number]]
    assert (len(files) <= stays, len(left) <= returns) == (True, True), ", ".join(files)


@pytest.mark.parametrize(("check", "stays", "returns"), [("shapes", 36, 16), ("batch", 19, 7)])
@pytest.mark.usefixtures("less_effort")
def test_the_way_of_a_check_of_samplers_does_not_grow(check, stays, returns):
    """A check alone, on a right sampler; of the shapes the first four."""
    subject = sampler(as_sampler(verifiers.get("token")))
    context = Context(budget=20.0, shapes=ShapeLimits(most=4))
    forget_what_was_computed()
    files = files_on_the_way(lambda: result_of(check, subject, context))
    left = [file for number, file in enumerate(files) if file in files[:number]]
    assert (len(files) <= stays, len(left) <= returns) == (True, True), ", ".join(files)
