"""Read the code of a function: comments, shapes and attributes of its parameters, and the form of its result.

`result_of` turns what it returns, or writes into buffers, into the result of the contract.
"""

import ast
import inspect
import re
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple, TypeAlias

from spec_oracle.commands.names import ACCEPTED_PLACES, COUNT, NEXT, OUTPUT, Role, role_of, words_of
from spec_oracle.contracts.sampler import signature_of

Function: TypeAlias = Callable[..., object]

_SIZE = r"\w+(?:\s*[+*-]\s*\w+)*"
_SHAPES = (
    rf"\[\s*({_SIZE}(?:\s*,\s*{_SIZE})*)\s*\]",
    rf"\(\s*({_SIZE}(?:\s*,\s*{_SIZE})+|{_SIZE}\s*,)\s*\)",
)


class Returned(NamedTuple):
    """One value that a function returns: how it is reached from ``output``, and its expression.

    ``is_list``: the function appends to it, so that it is neither a number nor one token.
    """

    access: str
    expression: str
    is_list: bool = False


class FunctionSource:
    """The code of a function; nothing is found in code that Python cannot show.

    ``holder`` is the class that has the function as a method, None for others.
    """

    def __init__(self, function: Function, holder: type | None = None) -> None:
        self.function, self.holder = function, holder

    @cached_property
    def text(self) -> str:
        """The code, without the indentation of its class."""
        try:
            return textwrap.dedent(inspect.getsource(self.function))
        except (OSError, TypeError):
            return ""

    @cached_property
    def tree(self) -> ast.AST:
        """The parsed code."""
        try:
            (function,) = ast.parse(self.text).body
        except (SyntaxError, ValueError):
            return ast.Pass()
        return function

    @cached_property
    def parameters(self) -> list[inspect.Parameter]:
        """The parameters, the object of a method among them."""
        return [*signature_of(self.function).values()]

    def comment(self, name: str) -> str:
        """Return the comment behind a parameter, or above it, which is often a shape."""
        behind = rf"^\s+{name}\b[^#\n]*#\s*(.+)$"
        above = rf"^\s*#\s*(.+)\n\s+{name}\b"
        found = re.search(behind, self.text, re.MULTILINE) or re.search(above, self.text, re.MULTILINE)
        return found[1] if found else ""

    def documented(self, name: str) -> str:
        """Return the docstring's entry on a parameter, without its type in brackets."""
        entry = rf"^\s*{name}\s*(?:\([^)]*\))?\s*:(.*(?:\n(?!\s*\w+\s*[:(]|\s*$).*)*)"
        found = re.search(entry, inspect.getdoc(self.function) or "", re.MULTILINE)
        return found[1] if found else ""

    def shape(self, parameter: inspect.Parameter) -> tuple[str, ...]:
        """Return the sizes that a comment, an annotation or the docstring names, () where none does."""
        if quoted := re.search(r"""['"]([\w +*-]+)['"]\]""", annotation_of(parameter)):
            return tuple(quoted[1].split())
        name, doc = parameter.name, inspect.getdoc(self.function) or ""
        behind = re.search(rf"\b{name}:? (\[[^\]\n]*\])", doc)
        for text in (self.comment(name), self.documented(name), behind[1] if behind else ""):
            for pattern in _SHAPES:
                if found := re.search(pattern, text):
                    return tuple(size.strip() for size in found[1].split(",") if size.strip())
        return ()

    def may_be_none(self, parameter: inspect.Parameter) -> bool:
        """Whether a parameter may be None: by its default, its annotation, or a comparison in the code."""
        annotated = re.search(r"\b(None|Optional)\b", annotation_of(parameter))
        compared = re.search(rf"\b{parameter.name} is (not )?None\b", self.text)
        return parameter.default is None or bool(annotated or compared)

    def looks_up(self, name: str) -> bool:
        """Whether the module of the function asks which keys a dict, of this name by pattern, has."""
        try:
            text = inspect.getsource(inspect.getmodule(self.function) or self.function)
        except (OSError, TypeError):
            return False
        return bool(re.search(rf"\b{name}\.(items|keys|get)\(|\bin (\w+\.)*{name}\b", text))

    def attributes(
        self, name: str, seen: frozenset[tuple[Function, str]] = frozenset()
    ) -> Mapping[str, bool]:
        """Return the attributes that are read of a parameter, and whether each is called.

        Functions and methods of the same code that are handed the parameter are read, too.
        """
        if (self.function, name) in seen:
            return {}
        seen |= {(self.function, name)}
        nodes = list(_nodes(self.tree, inner=True))
        called = {id(node.func) for node in nodes if isinstance(node, ast.Call)}
        found: dict[str, bool] = {}
        for node in nodes:
            if isinstance(node, ast.Attribute) and _is_name(node.value, name):
                found[node.attr] = found.get(node.attr, False) or id(node) in called
            elif isinstance(node, ast.Call) and (helper := self._helper(node.func)):
                for theirs in helper.names_given(node, name):
                    found |= helper.attributes(theirs, seen)
        return found

    def _helper(self, called: ast.expr) -> "FunctionSource | None":
        """Return the code of a function of this module, or of a method of this class, that is called."""
        if isinstance(called, ast.Name):
            found = getattr(self.function, "__globals__", {}).get(called.id)
        elif isinstance(called, ast.Attribute) and _is_name(called.value, "self"):
            found = getattr(self.holder, called.attr, None)
        else:
            return None
        return FunctionSource(found, self.holder) if inspect.isfunction(found) else None

    def names_given(self, call: ast.Call, name: str) -> Iterator[str]:
        """Yield the parameters for which a call passes a variable."""
        own = self.parameters[isinstance(call.func, ast.Attribute) :]
        yield from (
            theirs.name for theirs, given in zip(own, call.args, strict=False) if _is_name(given, name)
        )
        yield from (given.arg for given in call.keywords if given.arg and _is_name(given.value, name))

    def takes_one_request(self, name: str) -> bool:
        """Whether the code reads a parameter as the tokens of one request, without an axis for requests.

        One token is then the index into one row, or all tokens index as many rows by their places.
        """
        nodes = list(ast.walk(self.tree))
        places, tokens = _counters(nodes), set[str]()
        for node in nodes:
            if isinstance(node, ast.Assign) and _is_element(node.value, name):
                tokens |= {target.id for target in node.targets if isinstance(target, ast.Name)}
            elif isinstance(node, ast.For | ast.comprehension):
                tokens |= _elements(node, name)
        for node in nodes:
            if not isinstance(node, ast.Subscript):
                continue
            *others, last = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
            if _is_name(last, name) and len(others) == 1 and "range(" in ast.unparse(others[0]):
                return True
            is_token = _is_element(last, name) or (isinstance(last, ast.Name) and last.id in tokens)
            if is_token and all(isinstance(one, ast.Name) and one.id in places for one in others):
                return True
        return False

    def takes_a_batch_of_one(self, name: str) -> bool:
        """Whether the code reads the first request of a parameter, and no other one."""
        nodes = list(ast.walk(self.tree))
        read = [one.slice for one in nodes if isinstance(one, ast.Subscript) and _is_name(one.value, name)]
        firsts = {ast.unparse(one.elts[0] if isinstance(one, ast.Tuple) else one) for one in read}
        calls = {ast.unparse(one) for one in nodes if isinstance(one, ast.Call)}
        if firsts == {"0"} or ".squeeze(0, 1)" in self.text:
            return True
        return not firsts and f"{name}.squeeze(0)" in calls

    def returned(self, seen: frozenset[Function] = frozenset()) -> list[Returned]:
        """Return the values that the last return statement returns; [] where nothing is returned.

        Of a call of a function of the same code these are its values.
        """
        found = [node.value for node in _nodes(self.tree) if isinstance(node, ast.Return) and node.value]
        if not found or self.function in seen:
            return []
        last = found[-1]
        if isinstance(last, ast.Tuple):
            return [self._value(f"output[{place}]", one) for place, one in enumerate(last.elts)]
        if isinstance(last, ast.Call) and (helper := self._helper(last.func)):
            return helper.returned(seen | {self.function})
        if columns := _columns(last):
            return [Returned(f"output[..., {place}]", _named(one)) for place, one in enumerate(columns)]
        if isinstance(last, ast.Call) and isinstance(last.func, ast.Name) and last.func.id[0].isupper():
            return [
                Returned(f"output.{one.arg}", one.arg)
                for one in last.keywords
                if one.arg and not isinstance(one.value, ast.Constant)
            ]
        return [self._value("output", last)]

    def _value(self, access: str, node: ast.expr) -> Returned:
        is_list = isinstance(node, ast.Name) and bool(re.search(rf"\b{node.id}\.append\(", self.text))
        return Returned(access, _named(node), is_list)


def annotation_of(parameter: inspect.Parameter) -> str:
    """Return the annotation of a parameter as text, "" without one."""
    return "" if parameter.annotation is parameter.empty else str(parameter.annotation)


def _named(node: ast.expr) -> str:
    """Return an expression as text; of a call, what is called."""
    return ast.unparse(node.func if isinstance(node, ast.Call) else node)


def _columns(node: ast.expr) -> list[ast.expr]:
    """Return what is stacked as the last axis of an array, [] for other expressions."""
    is_last = re.search(r"(?:dim=|axis=|, )-?1\)$", ast.unparse(node))
    if not (is_last and isinstance(node, ast.Call) and ast.unparse(node.func).endswith("stack")):
        return []
    return node.args[0].elts if isinstance(node.args[0], ast.List | ast.Tuple) else []


def _is_name(node: ast.expr, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name


def _is_element(node: ast.expr, name: str) -> bool:
    """Whether an expression is ``name[i]``, ``int(name[i])`` or ``name[i].item()``."""
    if isinstance(node, ast.Call) and ast.unparse(node.func) == "int" and len(node.args) == 1:
        return _is_element(node.args[0], name)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "item":
        return _is_element(node.func.value, name)
    simple = (ast.Name, ast.Constant, ast.BinOp)
    return isinstance(node, ast.Subscript) and _is_name(node.value, name) and isinstance(node.slice, simple)


def _counters(nodes: list[ast.AST]) -> set[str]:
    """Return the variables that count: of loops over a range or an enumeration, or increased by a number."""
    found = set()
    for node in nodes:
        if isinstance(node, ast.AugAssign) and isinstance(node.value, ast.Constant):
            found.add(ast.unparse(node.target))
        elif isinstance(node, ast.For | ast.comprehension) and isinstance(node.iter, ast.Call):
            kind = ast.unparse(node.iter.func)
            if kind == "range":
                found.add(ast.unparse(node.target))
            elif kind == "enumerate" and isinstance(node.target, ast.Tuple):
                found.add(ast.unparse(node.target.elts[0]))
    return found


def _elements(loop: ast.For | ast.comprehension, name: str) -> set[str]:
    """Return the variables of a loop that are elements of ``name``, alone, enumerated or zipped."""
    over, target = loop.iter, loop.target
    if isinstance(over, ast.Call) and ast.unparse(over.func) == "enumerate" and isinstance(target, ast.Tuple):
        over, target = over.args[0], target.elts[-1]
    if isinstance(over, ast.Call) and ast.unparse(over.func) == "zip" and isinstance(target, ast.Tuple):
        pairs = zip(over.args, target.elts, strict=False)
    else:
        pairs = zip([over], [target], strict=True)
    return {ast.unparse(element) for sequence, element in pairs if _is_name(sequence, name)}


def _nodes(node: ast.AST, *, inner: bool = False) -> Iterator[ast.AST]:
    """Yield the nodes of a function as they are written, of functions within it only with ``inner``."""
    for child in ast.iter_child_nodes(node):
        yield child
        if inner or not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            yield from _nodes(child, inner=inner)


_COUNTS = frozenset(("num", "n", "count", "counts", "length", "lengths", "tau"))
_NEXT = frozenset(
    ("next", "nxt", "bonus", "recovered", "resampled", "corrected", "correction", "last", "new")
)
_NODES = frozenset(("node", "leaf"))
_UNCLEAR = frozenset(("index", "mask"))
_UNCLEAR_NUMBER = r" [-*/] | \+ (?!1$)|ind(ex|ices)|idx"
_MORE_THAN_ACCEPTED = frozenset(("emit", "sample", "output", "generated", "new"))
"""Words of a number of tokens that counts the one after the accepted tokens, too."""


def result_of(returned: Sequence[Returned], written: Mapping[Role, str], array: str, layout: str) -> str:
    """Return the expression that makes the contract's result of ``output``; "" where that is not clear.

    ``written``: the parameters by role, of which a function that returns nothing writes into some. In the
    layout "one request" the result is a list of the tokens that it emits.
    """
    of_one = layout in ("one request", "batch of one")
    if array == "numpy" and not of_one:
        return ""
    if not returned:
        return "" if of_one else _of_buffers(written)
    roles = {role_of(one.expression): one.access for one in returned}
    if roles.keys() >= {COUNT, NEXT, ACCEPTED_PLACES}:
        return _of_buffers(roles)
    if layout == "batch of one":
        return _of_values(returned, of_one=True, row="[0]").replace("draft_tokens[:", "draft_tokens[0, :")
    return _of_trees(returned) if layout == "tree" else _of_values(returned, of_one=of_one)


def _of_values(returned: Sequence[Returned], *, of_one: bool, row: str = "") -> str:
    """Return the result of a function that returns values, of paths; tokens are in that row of theirs."""
    tokens, counts, nexts = _sorted(returned, of_one=of_one)
    # A difference may be the number of rejected tokens.
    is_clear = len(tokens) <= 1 and len(counts) <= 1 and bool(tokens or nexts)
    is_clear = is_clear and not any(_UNCLEAR & set(words_of(one.expression)) for one in tokens)
    is_clear = is_clear and not any(re.search(_UNCLEAR_NUMBER, one.expression) for one in counts)
    if not is_clear or (not of_one and any(one.is_list for one in returned)):
        return ""
    token, after = (found[0].access if found else "" for found in (tokens, nexts))
    if token and counts and after and "accept" in words_of(tokens[0].expression):
        token = ""  # the accepted tokens alone
    if of_one:
        return _of_one(f"{token}{row}" if token else "", counts, after)
    if not counts:
        return f"from_padded({token or after})" if len(returned) == 1 else ""
    accepted = _accepted(counts[0], "draft_tokens.shape[1]")
    return (
        f"from_lengths({token}, {accepted})" if token else f"from_accepted(draft_tokens, {accepted}, {after})"
    )


def _sorted(
    returned: Sequence[Returned], *, of_one: bool = False
) -> tuple[list[Returned], list[Returned], list[Returned]]:
    """Return the values that are tokens, numbers of tokens, and the token after the accepted ones.

    A list of one request is of its tokens; that of a batch may be of numbers.
    """
    tokens, counts, nexts = list[Returned](), list[Returned](), list[Returned]()
    for one in returned:
        words = set(words_of(one.expression))
        if of_one and one.is_list:
            tokens.append(one)
            continue
        is_count = words & _COUNTS or ("accept" in words and "token" not in words)
        (counts if is_count else nexts if words & _NEXT else tokens).append(one)
    return tokens, counts, nexts


def _of_one(token: str, counts: Sequence[Returned], after: str) -> str:
    """Return the list of the emitted tokens of one request."""
    if not counts:
        return f"[*{token}, {after}]" if token and after else token or after
    accepted = _accepted(counts[0], "len(draft_tokens)")
    if not token:
        return f"[*draft_tokens[:{accepted}], {after}]" if after else ""
    emitted = accepted.removesuffix(" - 1") if accepted.endswith(" - 1") else f"{accepted} + 1"
    return f"{token}[: {emitted}]"


def _accepted(count: Returned, length: str) -> str:
    """Return the number of accepted tokens, of drafts of that length."""
    words = set(words_of(count.expression))
    if words & {"reject", "rejected"}:
        return f"{length} - {count.access}"
    is_more = count.expression.endswith("+ 1") or (words & _MORE_THAN_ACCEPTED and "draft" not in words)
    return f"{count.access} - 1" if is_more else count.access


def _of_trees(returned: Sequence[Returned]) -> str:
    """Return the result of a function of trees: tokens and their number, or the last accepted node."""
    nodes = [one for one in returned if _NODES & set(words_of(one.expression))]
    if len(returned) == len(nodes) + 1 == 2:
        (after,) = (one for one in returned if one not in nodes)
        return f"from_node(tokens, parents, {nodes[0].access}, {after.access})"
    tokens, counts, nexts = _sorted(returned)
    if len(tokens) == len(counts) == 1 and not nexts:
        return f"from_lengths({tokens[0].access}, {_accepted(counts[0], '')})"
    return f"from_padded({tokens[0].access})" if len(tokens) == len(returned) == 1 else ""


def _of_buffers(written: Mapping[Role, str]) -> str:
    """Return the result of a function that writes into its arguments."""
    count, after, output, places = (written.get(role, "") for role in (COUNT, NEXT, OUTPUT, ACCEPTED_PLACES))
    if count and after and places:
        return f"from_lengths({after}[{places}.long()], {count})"
    if output:
        return f"from_lengths({output}, {count})" if count else f"from_padded({output})"
    return f"from_accepted(draft_tokens, {count}, {after})" if count and after else ""
