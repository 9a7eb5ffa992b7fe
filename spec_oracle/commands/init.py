"""``spec-oracle init``: an adapter, a configuration and a test for a function, as its signature suggests."""

import os
import re
import sys
import textwrap
from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from spec_oracle.commands.names import UNKNOWN, role_of
from spec_oracle.commands.options import OK, Command, flag, value
from spec_oracle.commands.signatures import Argument, Guess, Layout, guess
from spec_oracle.errors import InvalidInputError


def run(options: Namespace) -> int:
    """Write the files; print the guesses, what is not known, and the next command."""
    from spec_oracle.audit.subjects import imported, is_engine, require_name

    name = options.subject
    if ":" not in name:
        raise InvalidInputError(f"SUBJECT: expected package.module:object, got {name!r}")
    if ".py:" in name:
        module = name.replace(".py:", ":").replace("./", "").replace("/", ".")
        raise InvalidInputError(f"SUBJECT: {name!r} is a file: name its module as you import it, {module}")
    require_name(name)
    thing = imported(name)
    guessed = guess(thing)
    if not callable(thing) and not guessed.method:
        raise InvalidInputError(
            f"SUBJECT: {name!r} is {type(thing).__name__} {thing!r}, which cannot be called"
        )
    if guessed.arguments[:1] and guessed.arguments[0].name == "self":
        made = "write a function that makes the object and calls it, and name that function"
        raise InvalidInputError(f"SUBJECT: {name!r} is a method of a class: name the class, or {made}")
    is_ready = guessed.keeps_contract or is_engine(thing)
    stem = re.sub(r"\W", "_", name.partition(":")[0].rpartition(".")[2])
    adapter = Path(f"{stem}_adapter.py")
    optional = () if is_engine(thing) else guessed.optional
    verify = "verify_tree" if guessed.layout == "tree" else "verify"
    subjects = [name if is_ready else f"{adapter.stem}:{verify}"]
    subjects += [f"{adapter.stem}:{_name_without(argument)}" for argument in optional]
    configuration, notes = _configuration(subjects, guessed.array)
    folder = Path("tests") if Path("tests").is_dir() else Path()
    files = {
        **({} if is_ready and not optional else {adapter: adapter_text(name, guessed)}),
        folder / f"test_{stem}_is_lossless.py": _test_text(stem, subjects, guessed.array),
    }
    _write(files, configuration, force=options.force)
    kept = [f"{name} keeps a contract as it is: no adapter is needed"]
    lines = [*(kept if is_ready else _guesses(name, guessed)), *_audited_without(guessed)]
    if is_ready and guessed.layout == "tree":
        lines.append(f"to do, unless it is declared: {_ACCEPTS.format(verify, _TOP)}")
    fill = f"fill in the TODOs of {adapter}, then " if any("TODO" in text for text in files.values()) else ""
    lines += [f"written: {', '.join(map(str, [*files, *configuration]))}", *notes, f"next: {fill}{_NEXT}"]
    sys.stdout.write("\n".join(lines) + "\n")
    return OK


_NEXT = "spec-oracle audit"
_TEST = '''\
"""Is the sampler lossless? One test a check; written by `spec-oracle init`."""

import pytest

from spec_oracle.pytest_plugin import checks_of
'''
_TEST_OF_ONE = """

@pytest.mark.parametrize("check", checks_of("{subject}", array="{array}"))
def test_{stem}_is_lossless{without}(check):
    check()
"""


def _test_text(stem: str, subjects: Sequence[str], array: str) -> str:
    """Return the file with a test of each subject."""
    tests = [_TEST]
    for number, subject in enumerate(subjects):
        without = subject.partition(":verify")[2] if number else ""
        tests.append(_TEST_OF_ONE.format(stem=stem, subject=subject, array=array, without=without))
    return "".join(tests)


def _name_without(argument: Argument) -> str:
    """Return the name of the function that leaves out a parameter."""
    return f"verify_without_{argument.name}"


def _audited_without(guessed: Guess) -> Iterator[str]:
    """Yield which parameters may be None, and whether that is audited, too."""
    for argument in guessed.optional:
        audited = f"{_name_without(argument)} is audited, too"
        yield f"{argument.name} may be None, for which {argument.without}: {audited}"
    others = [one.name for one in guessed.given if one.value and one.may_be_none and not one.without]
    if others:
        yield f"may be None, but are audited only with a value: {', '.join(others)}"


def _configuration(subjects: Sequence[str], array: str) -> tuple[dict[Path, str], list[str]]:
    """Return the configuration file with the lines to add to it, or the lines that the user has to add."""
    from spec_oracle.gate.configuration import FILES, find_configuration

    found = find_configuration(Path())
    if found.file is not None:
        missing = [f'{{name = "{one}", array = "{array}"}}' for one in subjects if one not in found.subjects]
        return {}, [f"to do: add {', '.join(missing)} to the subjects of {found.file}"] if missing else []
    (own, _), (project, table) = FILES
    head = f"\n[{'.'.join(table)}]\n" if Path(project).is_file() else ""
    listed = ", ".join(f'"{one}"' for one in subjects)
    said = f'{head}subjects = [{listed}]\narray = "{array}"\n'
    return {Path(project if head else own): said}, []


def _write(files: Mapping[Path, str], added: Mapping[Path, str], *, force: bool) -> None:
    """Write new files, and add to others; raises `InvalidInputError` before anything is written."""
    there = [] if force else [str(file) for file in files if file.exists()]
    if there:
        raise InvalidInputError(f"{', '.join(there)}: there already; --force overwrites them")
    refused = [str(file.parent) for file in [*files, *added] if not os.access(file.parent, os.W_OK)]
    try:
        if refused:
            raise PermissionError(f"no permission to write to the folder {refused[0]!r}")
        for file, text in files.items():
            file.write_text(text, encoding="utf-8")
        for file, text in added.items():
            with file.open("a", encoding="utf-8") as stream:
                stream.write(text)
    except OSError as error:
        raise InvalidInputError(f"{error}; run `spec-oracle init` in a folder of your own") from None


def _guesses(name: str, guessed: Guess) -> Iterator[str]:
    """Yield the guess for each parameter, and what is not known."""
    yield f"{name}: {_LAYOUTS[guessed.layout]}; {guessed.array}"
    said = [(argument.name, argument.said) for argument in guessed.arguments]
    said += [(need, "of the constructor, not known: TODO") for need in guessed.needs]
    said.append(("returns", guessed.result or "not known: TODO"))
    width = max(len(name) for name, _ in said)
    yield "guessed from names, annotations, comments and code, to be looked over:"
    yield from (f"  {name:{width}}  {what}" for name, what in said)
    unknown = (*guessed.unknown, *guessed.needs)
    if models := [one for one in unknown if one == "model" or one.endswith("_model")]:
        about = f"{' and '.join(models)} {'is a model' if len(models) == 1 else 'are models'}"
        yield f"{about}: what drafts by itself is audited as an engine, see docs/guide/audit-your-engine.md"
    if guessed.array == "numpy" and any(role_of(name) is not UNKNOWN for name in guessed.unknown):
        yield "the helpers for flat tensors and bonus tokens are for torch: numpy arrays are left to you"


_LAYOUTS: Final[Mapping[Layout, str]] = {
    "flat": "flat tensors, requests end to end",
    "padded": "padded tensors",
    "chain": "a chain for each request, given as a tree",
    "tree": "a draft tree for each request",
    "one request": "one request at a time",
    "batch of one": "one request at a time, as a batch of one",
}


def adapter_text(name: str, guessed: Guess) -> str:
    """Return the adapter of a function, and one more for each parameter that may be None.

    A function that keeps the contract needs only these.
    """
    module, _, thing = name.partition(":")
    top, dot, rest = thing.partition(".")
    called = f"under_test{dot}{rest}" + guessed.called
    about = "Keep the sampler contract; see docs/guide/from-your-signature.md of spec-oracle."
    verify = "verify_tree" if guessed.layout == "tree" else "verify"
    functions = [] if guessed.keeps_contract else [_function(verify, about, guessed, called)]
    for one in guessed.optional:
        left = guessed.leaving_out(one)
        if guessed.keeps_contract:
            left = replace(left, result="output")
        about = f"Keep the contract with None for {one.name}: {one.without}."
        functions.append(_function(_name_without(one), about, left, called))
    made = f"under_test = {top}({', '.join(f'{need}=None' for need in guessed.needs)})"
    text = "\n\n".join(
        [*([f"{made}{'  # TODO' * bool(guessed.needs)}\n"] if guessed.is_class else []), *functions]
    )
    blocks = [
        f'"""{name} under the sampler contract; written by `spec-oracle init`."""',
        "\n".join(said for library, said in _LIBRARIES.items() if re.search(rf"\b{library}", text)),
        f"from {module} import {top}" + " as under_test" * (not guessed.is_class),
        "\n".join(_helpers(text)),
    ]
    return "\n\n".join(filter(None, blocks)) + ("\n\n" if guessed.is_class else "\n\n\n") + text


def _function(name: str, about: str, guessed: Guess, called: str) -> str:
    """Return a function with the sampler contract as its parameters, and a call of the user's as its body.

    Where that takes one request at a time, a second function calls it for one.
    """
    values = " ".join(argument.value for argument in guessed.given)
    takes_uniforms, is_flat = "uniforms" in values, guessed.layout == "flat" and guessed.array == "torch"
    options = ["draft_lengths"] * (is_flat and not takes_uniforms) + ["is_greedy"] * ("is_greedy" in values)
    if guessed.takes_some_generators and "batch.generators(" in values:
        options.append("generators")
    fourth = "uniforms" if takes_uniforms else "generator"
    drafted = "tokens, parents" if guessed.layout == "tree" else "draft_tokens"
    given = f"{drafted}, draft_probs, target_probs, {fourth}"
    keywords = "".join(f", {option}=None" for option in options)
    body = [*_batch(guessed, options), *_call(guessed, called, fourth)]
    if guessed.layout == "tree":
        # Where no q is read, any tree will do that no random number chose.
        law = _DISTINCT if re.search(r"\bdraft_probs\b", values) else _TOP
        accepts = _ACCEPTS.format(name, law)
        return f"{_defined(name, given, about, body)}\n\n{accepts}  # TODO: {_LAWS}\n"
    if guessed.layout not in _OF_ONE:
        return _defined(name, f"{given}, *{keywords}" if options else given, about, body)
    one = name.replace("verify", "verify_one", 1)
    sizes, more = _OF_ONE[guessed.layout]
    both = (
        _defined(name, given, about, [f"return one_by_one({one}, {given}{more})"]),
        _defined(one, given, f"Return the tokens that one request emits: of {sizes}.", body),
    )
    return "\n\n".join(both)


_OF_ONE: Final[Mapping[Layout, tuple[str, str]]] = {
    "one request": ("[L], [L, V], [L+1, V]", ""),
    "batch of one": ("[1, L], [1, L, V], [1, L+1, V]", ", is_batch=True"),
}
"""Layouts of functions that are called for each request: the sizes of their arrays, and how that is said."""


def _defined(name: str, parameters: str, about: str, body: Sequence[str]) -> str:
    lines = textwrap.indent("\n".join(body), "    ")
    return f'def {name}({parameters}):\n    """{about}"""\n{lines}\n'


_TOP, _DISTINCT = "top", "distinct"
_ACCEPTS = '{}.accepts = {{"{}"}}'
_LAWS = "how does your drafter choose the children of a node? see docs/reference/sampler-contract.md"
_LIBRARIES = {
    r"SimpleNamespace\(": "from types import SimpleNamespace\n",
    r"np\.": "import numpy as np",
    r"torch\.": "import torch",
}
_HELPERS = {
    "adapting": (
        *("drawing_from", "fresh_seed", "fresh_seeds", "from_accepted", "from_lengths", "from_padded"),
        *("logits_of", "sample_bonus"),
    ),
    "flat": ("flat",),
    "one_by_one": ("one_by_one",),
    "trees": (
        *("ancestors", "depths", "first_child", "from_node", "next_sibling"),
        *("parents_with_root", "with_root"),
    ),
}
"""Our functions that an adapter may call, by their modules."""


def _helpers(text: str) -> Iterator[str]:
    """Yield the imports of our functions that an adapter calls."""
    for module, names in _HELPERS.items():
        if used := [name for name in names if re.search(rf"(?<!\.)\b{name}\(", text)]:
            yield f"from spec_oracle.contracts.{module} import {', '.join(used)}"


def _batch(guessed: Guess, options: Sequence[str]) -> Iterator[str]:
    """Yield the lines before the call that lay out the batch."""
    if guessed.layout == "flat" and guessed.array == "torch":
        given = ["draft_tokens", "draft_probs", "target_probs", *(f"{name}={name}" for name in options)]
        yield f"batch = flat({', '.join(given)})"
    elif options:
        yield "if is_greedy is None:"
        yield "    is_greedy = torch.zeros(len(draft_tokens), dtype=torch.bool)"
    if guessed.layout == "chain":
        yield "places = torch.nn.functional.pad(draft_tokens, (1, 0))  # a root before the chain"
    elif guessed.layout == "tree" and any("places" in argument.value for argument in guessed.given):
        yield "places = with_root(tokens)  # [B, N+1]: the root comes first"


def _call(guessed: Guess, called: str, fourth: str) -> Iterator[str]:
    """Yield the lines of the call: values that need the generator first, then the call, then the result."""
    is_handed = any(re.search(r"(^|=)generator", argument.value) for argument in guessed.given)
    arguments = []
    for one in guessed.given:
        is_made = re.search(r"\(generator\b|=generator|SimpleNamespace\(", one.value)
        if is_made or one.role.is_written or one.role.is_of_trees:
            yield f"{one.name} = {one.value}"
        elif "sample_bonus" in one.value and is_handed:
            # Two that sample from one stream must not both begin where it is.
            yield from ("with drawing_from(generator):", f"    {one.name} = {one.value}")
        else:
            arguments.append(one)
            continue
        arguments.append(replace(one, value=one.name))
    result = guessed.result or ("output" if guessed.layout in _OF_ONE else "from_padded(output)")
    if guessed.array == "numpy" and guessed.layout not in _OF_ONE:
        result = "output"
    call = [
        f"output = {called}(" if "output" in result else f"{called}(",
        *(f"    {_argument(one)}" for one in arguments),
    ]
    if left := [one.name for one in guessed.arguments if one.is_left]:
        call.append(f"    # left at their defaults: {', '.join(left)}")
    call.append(")")
    if fourth == "generator" and not is_handed and guessed.array == "torch":
        call = ["with drawing_from(generator):", *(f"    {line}" for line in call)]
    yield from call
    if guessed.layout == "flat" and result.startswith(("from_padded", "from_lengths")):
        result = f"batch.{result}"
    yield f"return {result}" + "  # TODO: what does it return?" * (not guessed.result)


def _argument(argument: Argument) -> str:
    """Return the line of an argument in a call, with the guess and the user's comment behind it."""
    handed = argument.value or "None"
    given = f"{handed}," if argument.by_position else f"{argument.name}={handed},"
    if not argument.value:
        return f"{given}  # TODO: {argument.comment or 'what is it?'}"
    between = " " if re.fullmatch(r"\[[^\]]*\]", argument.comment) else "; " * bool(argument.comment)
    return f"{given}  # {argument.role.what}{between}{argument.comment}"


INIT = Command(
    run,
    "Write an adapter, a configuration and a test for a function of your engine.",
    "spec-oracle init my_engine.sampler:verify",
    more="What its parameters are is guessed from their names, annotations and comments, and shown.",
    options={
        "the function": [value("subject", "SUBJECT", "package.module:object")],
        "the files": [flag("--force", "overwrite the adapter and the test, if they are there already")],
    },
)
