"""What the parameters of a verification function are, by their names: what an adapter for it is made of.

    >>> def verify(draft_ids: "torch.Tensor", target_logits, rng, beam): return output
    >>> adapted = guess(verify)
    >>> [(argument.name, argument.value) for argument in adapted.arguments]
    [('draft_ids', 'draft_tokens'), ('target_logits', 'logits_of(target_probs)'), ('rng', 'generator'), \
('beam', '')]

Every guess is shown to the user, and what has no value is marked in the adapter as to be filled in.
"""

import ast
import inspect
import re
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

_Role: TypeAlias = tuple[str, str, str]

_LENGTHS: Final = "drafted tokens of each request"
_CUMULATIVE: Final = "cumulative lengths"
_TOKENS, _DRAFT, _TARGET = "drafted tokens", "draft probabilities", "target probabilities"
_GENERATOR, _UNIFORMS, _BONUS = "generator", "uniforms", "bonus token"
_FULL: Final = "torch.full((len(draft_tokens),), draft_tokens.shape[1])"
_GREEDY: Final = ("batch.is_greedy", "is_greedy")

_DRAFTED: Final = ("batch.tokens", "draft_tokens")
_AFTER_ONE: Final = "torch.nn.functional.pad(draft_tokens, (1, 0))"
_OF_DRAFT: Final = r"(draft|q|propos\w*|assistant|candidate|small)_?\w*"
_ROLES: Final = (
    (r"cu_\w+|\w*cumul\w*|\w*offsets?|\w*indptr", _CUMULATIVE, "batch.ends", ""),
    (
        r"max_\w*(len|draft|spec|tok)\w*|(draft|candidate|spec)_len(gth)?|gamma",
        "longest draft",
        "batch.max_length",
        "draft_tokens.shape[1]",
    ),
    (r"num_(draft|spec)\w*|draft_len\w*|\w*lengths|\w*lens", _LENGTHS, "batch.lengths", _FULL),
    (r"bonus\w*logits", "bonus logits", "logits_of(batch.bonus_probs)", "logits_of(target_probs[:, -1])"),
    (r"bonus\w*prob\w*", "bonus probabilities", "batch.bonus_probs", "target_probs[:, -1]"),
    (r"bonus\w*", _BONUS, "batch.sample_bonus()", "sample_bonus(target_probs[:, -1])"),
    (r"all_greedy", "whether all are greedy", *(f"bool({who}.all())" for who in _GREEDY)),
    (r"all_random", "whether none is greedy", *(f"not {who}.any()" for who in _GREEDY)),
    (r"\w*greedy\w*", "greedy requests", "batch.is_greedy", "is_greedy"),
    (r"temperatures?", "0 for greedy requests", *(f"torch.where({who}, 0.0, 1.0)" for who in _GREEDY)),
    (r"generators", "a generator a request", "batch.generators(generator)", ""),
    (r"\w*generator|rng|prng|gen", _GENERATOR, "generator", "generator"),
    (r"\w*seeds?", "seed", "fresh_seed(generator)", "fresh_seed(generator)"),
    (r"\w*(uniform|coin|rand)\w*|u", _UNIFORMS, "uniforms", "uniforms"),
    (rf"{_OF_DRAFT}logits", "draft logits", "logits_of(batch.draft_probs)", "logits_of(draft_probs)"),
    (r"\w*logits", "target logits", "logits_of({flat_target})", "logits_of({target})"),
    (rf"{_OF_DRAFT}(prob|dist)\w*|q|draft_p", _DRAFT, "batch.draft_probs", "draft_probs"),
    (r"\w*(prob|dist)\w*|p|target_p|target", _TARGET, "{flat_target}", "{target}"),
    (r"candidates", "the token before the draft, then the draft", "", _AFTER_ONE),
    (rf"{_OF_DRAFT}(id|token)s?|(spec|input)_?(token_?)?ids|drafts?|tokens|x", _TOKENS, *_DRAFTED),
    (r"device", "device", "draft_tokens.device", "draft_tokens.device"),
    (r"vocab_size|V", "vocabulary", "draft_probs.shape[-1]", "draft_probs.shape[-1]"),
    (r"batch_size|B", "batch", "len(draft_tokens)", "len(draft_tokens)"),
)
"""Names of parameters, what they mean, and their values: of a flat batch, of padded tensors, "" for none."""

_NONE_MEANS: Final[Mapping[str, str]] = {
    _DRAFT: "the drafts are taken as certain",
    "draft logits": "the drafts are taken as certain",
    "greedy requests": "no request is greedy",
    "0 for greedy requests": "no request is greedy",
    "a generator a request": "all requests share one generator",
}
"""What None says in the place of a value, by the role of a parameter: without it the contract is kept."""

_METHODS: Final = ("verify", "forward", "__call__", "sample")
_CONTRACT: Final = (_TOKENS, _DRAFT, _TARGET)


@dataclass(frozen=True)
class Argument:
    """A parameter of the function: what it was taken for, and the expression it is given, "" for none.

    ``may_be_none`` as its default, its annotation, or a comparison in the function says.
    """

    name: str
    role: str
    value: str
    comment: str = ""
    by_position: bool = False
    may_be_none: bool = False

    @property
    def without(self) -> str:
        """What None in its place means, "" where that is not known or it may not be None."""
        return _NONE_MEANS.get(self.role, "") if self.may_be_none else ""


@dataclass(frozen=True)
class Guess:
    """What was guessed of a function: its arguments, the library of its arrays, and what it returns.

    ``method`` is the one that is called of an object, "" for functions; ``is_class``: an object of it is to
    be made, ``needs`` are the parameters of that; ``defaults`` are parameters that are left alone; ``result``
    turns ``output`` into the contract's result; ``result_known``: whether the code shows that.
    """

    arguments: tuple[Argument, ...]
    is_flat: bool
    array: str
    result: str
    result_known: bool
    method: str = ""
    is_class: bool = False
    needs: tuple[str, ...] = ()
    defaults: tuple[str, ...] = ()

    @property
    def called(self) -> str:
        """What follows the object in a call: ".verify" of one that has it."""
        return "" if self.method in ("", "forward", "__call__") else f".{self.method}"

    @property
    def keeps_contract(self) -> bool:
        """Whether it is a sampler of the contract, or a rule, by its parameters: it needs no adapter."""
        if self.method == "verify" and len(self.arguments) + len(self.defaults) < len(_CONTRACT) + 1:
            return True
        if tuple(argument.role for argument in self.arguments[:3]) != _CONTRACT or self.is_flat or self.needs:
            return False
        return [one.role for one in self.arguments[3:]] == [_GENERATOR] or (
            [one.name for one in self.arguments[3:]] == [_UNIFORMS]
        )

    @property
    def optional(self) -> tuple[Argument, ...]:
        """The parameters that have a value, and are left out by None in its place."""
        return tuple(argument for argument in self.arguments if argument.without)

    def leaving_out(self, argument: Argument) -> "Guess":
        """Return the same with None for one of these parameters."""
        given = (replace(one, value="None") if one == argument else one for one in self.arguments)
        return replace(self, arguments=tuple(given))

    @property
    def unknown(self) -> tuple[str, ...]:
        """The parameters that nothing is known about."""
        return tuple(argument.name for argument in self.arguments if not argument.value)


def guess(thing: Any) -> Guess:
    """Return what a function, or an object or class with a method for it, takes and returns."""
    holder = thing if isinstance(thing, type) else None if inspect.isroutine(thing) else type(thing)
    method = next((name for name in _METHODS if holder is not None and name in vars(holder)), "")
    function = vars(holder)[method] if method else getattr(thing, "fn", thing)
    source, parameters = _source(function), _parameters(function)[bool(method) :]
    told = {one.name: f"{_annotation(one)} {_comment(one, source)}" for one in parameters}
    is_flat = any(_is_flat(name, text) for name, text in told.items())
    roles = {one.name: _role(one.name) for one in parameters}
    array = _array(function, " ".join(told.values()))
    values = {one.name: _value(one.name, _annotation(one), roles, is_flat=is_flat) for one in parameters}
    for name in [name for name, value in values.items() if not value]:
        values[name] = _namespace(name, source, roles, is_flat=is_flat)
        roles[name] = ("an object with the attributes that are read", "", "") if values[name] else roles[name]
    if array == "numpy":
        values = {name: _in_numpy(value) for name, value in values.items()}
    if any("uniforms" in value for value in values.values()):
        # All randomness is an argument: there is no generator to sample anything else from.
        values = {
            name: "" if re.search("generator|sample_", value) else value for name, value in values.items()
        }
    asked = [one for one in parameters if one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD)]
    left = [one for one in asked if not values[one.name] and one.default is not one.empty]
    result = _result(source)
    return Guess(
        tuple(
            Argument(
                one.name,
                roles[one.name][0] if values[one.name] else "",
                values[one.name],
                _comment(one, source),
                one.kind is one.POSITIONAL_ONLY,
                _may_be_none(one, source),
            )
            for one in asked
            if one not in left
        ),
        is_flat,
        array,
        result or "from_padded(output)",
        bool(result) and array == "torch",
        method,
        thing is holder,
        tuple(one.name for one in _parameters(thing) if _is_required(one)) if thing is holder else (),
        tuple(one.name for one in left),
    )


def _is_required(parameter: inspect.Parameter) -> bool:
    kinds = (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
    return parameter.default is parameter.empty and parameter.kind not in kinds


def _parameters(function: Any) -> list[inspect.Parameter]:
    try:
        return list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return []


def _source(function: Any) -> str:
    try:
        return textwrap.dedent(inspect.getsource(function))
    except (OSError, TypeError):
        return ""


def _comment(parameter: inspect.Parameter, source: str) -> str:
    """Return the comment behind a parameter, or above it, which is often a shape."""
    behind = rf"^\s+{parameter.name}\b[^#\n]*#\s*(.+)$"
    above = rf"^\s*#\s*(.+)\n\s+{parameter.name}\b"
    found = re.search(behind, source, re.MULTILINE) or re.search(above, source, re.MULTILINE)
    return found[1] if found else ""


def _annotation(parameter: inspect.Parameter) -> str:
    return "" if parameter.annotation is parameter.empty else str(parameter.annotation)


def _may_be_none(parameter: inspect.Parameter, source: str) -> bool:
    """Whether a parameter may be None: by its default, its annotation, or what the function compares."""
    annotated = re.search(r"\b(None|Optional)\b", _annotation(parameter))
    compared = re.search(rf"\b{parameter.name} is (not )?None\b", source)
    return parameter.default is None or bool(annotated or compared)


def _is_flat(name: str, told: str) -> bool:
    return _role(name)[0] == _CUMULATIVE or bool(re.search(r"\[\W*(num|total|n)_\w*tokens|\[N\b", told))


def _role(name: str) -> _Role:
    """Return what a parameter of that name means, and its values: flat, padded."""
    for pattern, role, flat, padded in _ROLES:
        if re.fullmatch(pattern, name, re.IGNORECASE):
            return role, flat, padded
    return "", "", ""


def _namespace(name: str, source: str, roles: Mapping[str, _Role], *, is_flat: bool) -> str:
    """Return an object for a parameter of which attributes are read, "" where none of these is known."""
    read = dict.fromkeys(re.findall(rf"\b{name}\.([a-z]\w*)\b(?!\()", source))
    values = {one: _value(one, "", {**roles, one: _role(one)}, is_flat=is_flat) for one in read}
    if not any(values.values()):
        return ""
    lines = (f"    {one}={value or 'None'}," + "  # TODO" * (not value) for one, value in values.items())
    return "\n".join(["SimpleNamespace(", *lines, ")"])


def _value(name: str, annotation: str, roles: Mapping[str, tuple[str, str, str]], *, is_flat: bool) -> str:
    """Return a value beside those of the other parameters, and of the type that the annotation asks for."""
    role, flat, padded = roles[name]
    if role == _UNIFORMS:
        last = [other for other in roles if re.search("final|bonus|last|next", other)]
        part = "" if not last else "[:, -1]" if name in last else "[:, :-1]"
        return f"uniforms{part}"
    # Who gets bonus tokens, or rows for them, gets no such rows with the others.
    has_bonus = any(other.startswith("bonus") for other, _, _ in roles.values())
    value = (flat if is_flat else padded).format(
        flat_target="batch.target_probs" if has_bonus else "batch.all_target_probs",
        target="target_probs[:, :-1]" if has_bonus else "target_probs",
    )
    annotation = annotation.lower()
    if role == _LENGTHS and re.search(r"\bint\b", annotation) and "list" not in annotation:
        return "batch.max_length" if is_flat else "draft_tokens.shape[1]"
    return f"{value}.tolist()" if role == _LENGTHS and "list" in annotation else value


def _in_numpy(value: str) -> str:
    """Return a value in numpy, "" where it needs one of the helpers for torch."""
    is_torchs = re.search(r"batch\.|sample_bonus|fresh_seed|torch\.nn|device", value)
    return "" if is_torchs else value.replace("logits_of(", "np.log(").replace("torch.", "np.")


def _array(function: Any, annotations: str) -> str:
    """Return the library of a function's arrays, "torch" or "numpy", by its annotations, else by its code."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    names = " ".join(code.co_names) if code else ""
    for told in (annotations, names):
        if re.search(r"\b(torch|Tensor)\b", told):
            return "torch"
        if re.search(r"\b(np|numpy|ndarray|NDArray)\b", told):
            return "numpy"
    return "torch" if "torch" in getattr(function, "__globals__", {}) else "numpy"


def _result(source: str) -> str:
    """Return how to turn ``output`` into the contract's result, by the return statements; "" if unclear."""
    try:
        (function,) = ast.parse(source).body
    except (SyntaxError, ValueError):
        return ""
    found = [
        node.value for node in _outside_functions(function) if isinstance(node, ast.Return) and node.value
    ]
    if not found:
        return ""
    last = found[-1]
    if not isinstance(last, ast.Tuple):
        return "from_padded(output)"
    names = [ast.unparse(one) for one in last.elts]
    counts = [name for name in names if re.search(r"num|acc|len|count|\bn_|\btau\b", name)]
    nexts = [name for name in names if re.search(r"next|bonus|recover|correct|new", name)]
    if len(names) != 2 or len(counts) != 1:
        return ""
    count = f"output[{names.index(counts[0])}]"
    count += " - 1" if re.search("emit|sampled|output|generated|new", counts[0]) else ""
    other = f"output[{1 - names.index(counts[0])}]"
    return f"from_accepted(draft_tokens, {count}, {other})" if nexts else f"from_lengths({other}, {count})"


def _outside_functions(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes of a function that belong to no function within it."""
    for child in ast.iter_child_nodes(node):
        yield child
        if not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            yield from _outside_functions(child)
