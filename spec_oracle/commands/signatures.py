"""Guess the parameters of a verification function by their names, so that an adapter can be written.

    >>> def verify(draft_ids: "torch.Tensor", target_logits, rng, beam, eps=0.0): return output
    >>> for argument in guess(verify).arguments: print(argument.name, "->", argument.said)
    draft_ids -> drafted tokens: draft_tokens
    target_logits -> target logits: logits_of(target_probs)
    rng -> generator: generator
    beam -> not known: TODO
    eps -> left at its default

Every guess is shown to the user, and what has no value is marked in the adapter as to be filled in.
"""

import inspect
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, TypeAlias

from spec_oracle.commands import names
from spec_oracle.commands.names import Role, role_of
from spec_oracle.commands.source import Function, FunctionSource, annotation_of, result_of
from spec_oracle.contracts.sampler import signature_of

Layout: TypeAlias = Literal["flat", "padded", "chain", "tree", "one request", "batch of one"]
"""How a batch is laid out: end to end; in padded arrays; as chains that are given as trees; as trees; or by a
call for each request, without the axis of requests or with one request along it."""

_METHODS: Final = ("verify", "verify_tree", "forward", "__call__", "sample")
_CONTRACT: Final = (names.TOKENS, names.DRAFT, names.TARGET)
_OF_TREES: Final = (names.TOKENS, names.PARENTS, names.DRAFT, names.TARGET)
_OPTIONS: Final = ("draft_lengths", "is_greedy", "generators")
_OBJECT: Final = Role("an object with the attributes that are read")
_LEFT: Final = (names.SEED, names.UNUSED, names.THRESHOLD, names.DETERMINISTIC)
"""Roles of parameters that are left at their defaults, where they have one."""
_COUNTED: Final = r"(N|(num|total|n)_\w*tokens)"
"""First sizes of arrays with a row for each token."""
_ATTRIBUTES_OF_ARRAYS: Final = frozenset(("shape", "dtype", "ndim", "size", "dim", "to", "view"))


@dataclass(frozen=True)
class Argument:
    """A parameter of the function: what it was taken for, and the expression it is given, "" for none.

    ``may_be_none`` as its default, its annotation, or a comparison in the function says; ``is_left``: it is
    left at its default, or is a collection of further arguments.
    """

    name: str
    role: Role = names.UNKNOWN
    value: str = ""
    comment: str = ""
    by_position: bool = False
    may_be_none: bool = False
    is_left: bool = False

    @property
    def without(self) -> str:
        """The meaning of None for it, "" if that is not known or it may not be None."""
        return self.role.none if self.may_be_none and not self.is_left else ""

    @property
    def said(self) -> str:
        """The guess in words, and the value that is passed."""
        if self.is_left:
            return "nothing is handed over" if self.name.startswith("*") else "left at its default"
        if not self.value:
            return "not known: TODO"
        attributes = re.findall(r"^ +(\w+)=(None,  # TODO)?", self.value, re.MULTILINE)
        shown = ", ".join(f"{name} (TODO)" if missing else name for name, missing in attributes)
        return f"{self.role.what}: {shown or self.value}"


@dataclass(frozen=True)
class Guess:
    """The guess for a function: its arguments, the layout and library of its arrays, and its result.

    ``result`` turns ``output`` into the contract's result, "" where that is not known; ``method`` is the one
    that is called of an object, "" for the object itself; ``is_class``: an object of it is to be made,
    ``needs`` are the parameters of that; ``takes_some_generators``: it asks which requests have a generator
    of their own, so that others may have none.
    """

    arguments: tuple[Argument, ...]
    layout: Layout
    array: str
    result: str
    method: str = ""
    is_class: bool = False
    needs: tuple[str, ...] = ()
    takes_some_generators: bool = False

    @property
    def given(self) -> tuple[Argument, ...]:
        """The arguments that a call passes."""
        return tuple(argument for argument in self.arguments if not argument.is_left)

    @property
    def called(self) -> str:
        """The method that a call names, such as ".verify"; "" for the object itself."""
        return f".{self.method}" if self.method else ""

    @property
    def keeps_contract(self) -> bool:
        """Whether it is a sampler of the contract, or a rule, by its parameters: it needs no adapter."""
        named = [argument for argument in self.arguments if not argument.name.startswith("*")]
        of_rule = [one for one in named if one.name != "state"]
        if self.method == "verify" and len(of_rule) == len(("drafts", "decisions")) and not self.needs:
            return of_rule[1].role in (names.UNKNOWN, names.GENERATOR)
        roles = tuple(one.role for one in self.given)
        if self.layout == "tree":
            is_called = self.method in ("", "verify_tree") and not self.needs
            return is_called and roles == (*_OF_TREES, names.GENERATOR)
        if roles[:3] != _CONTRACT or self.layout != "padded" or self.needs or len(roles) == len(_CONTRACT):
            return False
        fourth, *options = self.given[3:]
        takes_randomness = fourth.role == names.GENERATOR or fourth.name == "uniforms"
        return takes_randomness and all(option.name in _OPTIONS for option in options)

    @property
    def optional(self) -> tuple[Argument, ...]:
        """The parameters that have a value, and are left out by None in its place.

        An audit itself leaves out the options of the contract.
        """
        kept = _OPTIONS if self.keeps_contract else ()
        return tuple(one for one in self.given if one.value and one.without and one.name not in kept)

    def leaving_out(self, argument: Argument) -> "Guess":
        """Return the same with None for one of these parameters."""
        given = (replace(one, value="None") if one == argument else one for one in self.arguments)
        return replace(self, arguments=tuple(given))

    @property
    def unknown(self) -> tuple[str, ...]:
        """The parameters that nothing is known about."""
        return tuple(argument.name for argument in self.given if not argument.value)


def guess(thing: Any) -> Guess:
    """Return what a function, or an object or class with a method for it, takes and returns."""
    holder = thing if isinstance(thing, type) else None if inspect.isroutine(thing) else type(thing)
    method = next((name for name in _METHODS if holder is not None and name in vars(holder)), "")
    function: Function = vars(holder)[method] if method else getattr(thing, "fn", thing)
    source = FunctionSource(function, holder)
    returned, parameters = source.returned(), source.parameters[bool(method) :]
    roles = {one.name: _role(one.name, function, returns=bool(returned)) for one in parameters}
    drafted = [name for name, role in roles.items() if role is names.TOKENS]
    usual = [name for name in drafted if name in names.WHOLE_NAMES]
    if len(usual) < len(drafted):  # beside drafts that are named so, input_ids are the text before them
        roles |= dict.fromkeys(usual, names.UNKNOWN)
    layout = _layout(source, parameters, roles)
    array = _array(source, parameters)
    values = _Values(source, roles, layout, array)
    arguments = _without_generators([values.argument(one) for one in parameters])
    written = {role: name for name, role in roles.items()}
    return Guess(
        tuple(arguments),
        layout,
        array,
        result_of(returned, written, array, layout),
        "" if method in ("forward", "__call__") and _is_callable(holder) else method,
        thing is holder,
        tuple(name for name, one in signature_of(thing).items() if _is_required(one))
        if isinstance(thing, type)
        else (),
        source.looks_up(r"\w*generators"),
    )


def _role(name: str, function: Function, *, returns: bool) -> Role:
    """Return the role of a parameter of a function; one that returns something writes into none."""
    role = role_of(name)
    if role is names.DRAFT and "target_only" in getattr(function, "__name__", ""):
        role = names.REJECTED
    return names.UNKNOWN if returns and role.is_written else role


def _layout(
    source: FunctionSource, parameters: Sequence[inspect.Parameter], roles: Mapping[str, Role]
) -> Layout:
    """Return the layout that names, shapes and code show; padded arrays where nothing does."""
    shapes = {one.name: source.shape(one) for one in parameters}
    firsts = [sizes[0] for sizes in shapes.values() if sizes]
    # One row more than there are tokens: the row of the only bonus token.
    has_one_bonus = any(re.fullmatch(rf"{_COUNTED} *\+ *1", size) for size in firsts)
    is_counted = any(re.fullmatch(_COUNTED, size) for size in firsts)
    is_cumulative = any(role.what.startswith(names.CUMULATIVE.what) for role in roles.values())
    if is_cumulative or (is_counted and not has_one_bonus):
        return "flat"
    if any(role.is_of_trees for role in roles.values()):
        return "chain" if "chain" in getattr(source.function, "__name__", "") else "tree"
    for one in parameters:
        role, sizes = roles[one.name], shapes[one.name]
        if role is names.TOKENS:
            is_list = re.fullmatch(r"(\w+\.)*(list|Sequence)\[int\]", annotation_of(one), re.IGNORECASE)
            if len(sizes) == 1 or is_list or source.takes_one_request(one.name):
                return "one request"
            if sizes[:1] == ("1",) or (not sizes and source.takes_a_batch_of_one(one.name)):
                return "batch of one"
        elif role in (names.DRAFT, names.TARGET) and len(sizes) == len(("length", "vocabulary")):
            return "one request"
    return "padded"


def _is_callable(holder: type | None) -> bool:
    return any("__call__" in vars(one) for one in (holder.__mro__ if holder else ()))


def _is_required(parameter: inspect.Parameter) -> bool:
    kinds = (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
    return parameter.default is parameter.empty and parameter.kind not in kinds


def _is_number(parameter: inspect.Parameter) -> bool:
    """Whether a parameter is one number for all requests, by its annotation, else by its default."""
    if annotation := annotation_of(parameter):
        is_array = re.search("tensor|array|list|sequence", annotation, re.IGNORECASE)
        return not is_array and bool(re.search(r"\b(float|int|bool)\b", annotation))
    return isinstance(parameter.default, int | float)


def _array(source: FunctionSource, parameters: Sequence[inspect.Parameter]) -> str:
    """Return the library of a function's arrays, "torch" or "numpy", by its annotations, else by its code."""
    told = " ".join(f"{annotation_of(one)} {source.comment(one.name)}" for one in parameters)
    code = getattr(inspect.unwrap(source.function), "__code__", None)
    used = " ".join(code.co_names) if code else ""
    for text in (told, used):
        if re.search(r"\b(torch|Tensor)\b", text):
            return "torch"
        if re.search(r"\b(np|numpy|ndarray|NDArray)\b", text):
            return "numpy"
    return "torch" if "torch" in getattr(source.function, "__globals__", {}) else "numpy"


@dataclass(frozen=True)
class _Values:
    """The values of parameters, which depend on the roles of the others, the layout and the library."""

    source: FunctionSource
    roles: Mapping[str, Role]
    layout: Layout
    array: str

    def argument(self, parameter: inspect.Parameter) -> Argument:
        """Return a parameter with its value, or as left at its default."""
        name, role = parameter.name, self.roles[parameter.name]
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            stars = "*" if parameter.kind is parameter.VAR_POSITIONAL else "**"
            return Argument(f"{stars}{name}", is_left=True)
        annotation = annotation_of(parameter).lower()
        if role is names.LONGEST and re.search("tensor|array", annotation):
            role = names.LENGTHS
        value = self.of(name, role, annotation, self.source.shape(parameter))
        if role.none == names.NO_GREEDY and _is_number(parameter):
            value = "1.0" if "temperature" in role.what else "False"
        if not value and (value := self._object(parameter)):
            role = _OBJECT
        return Argument(
            name,
            role if value else names.UNKNOWN,
            value,
            self.source.comment(name),
            parameter.kind is parameter.POSITIONAL_ONLY,
            self.source.may_be_none(parameter),
            not _is_required(parameter) and (not value or role in _LEFT),
        )

    def of(self, name: str, role: Role, annotation: str = "", shape: Sequence[str] = ()) -> str:
        """Return the expression for a parameter or an attribute, "" for none."""
        is_flat = self.layout == "flat"
        value = role.flat if is_flat else self._of_arrays(role)
        # Who gets bonus tokens, or rows for them, gets no such rows with the others.
        has_bonus = any(other.what.startswith("bonus") for other in self.roles.values())
        value = value.format(
            flat_target="batch.target_probs" if has_bonus else "batch.all_target_probs",
            target="target_probs[:, :-1]" if has_bonus else "target_probs",
        )
        is_list = "list" in annotation
        if role is names.UNIFORMS:
            value = self._part(name, value)
        elif role is names.PARENTS and len(shape) > 1 and "1" in shape[1]:
            value = names.OF_PARENTS
        elif role is names.CUMULATIVE and "1" in "".join(shape):
            value = "batch.offsets"
        elif role.what.startswith(names.CUMULATIVE.what) and "1" in "".join(shape):
            value = "batch.offsets + torch.arange(len(batch.offsets))"
        elif role is names.SEED and len(shape) == 1:
            value = "torch.tensor(fresh_seeds(generator, len(draft_tokens)))"
        elif role in (names.DRAFT, names.DRAFT_LOGITS) and is_flat and len(shape) == len(("B", "L", "V")):
            value = role.padded
        elif role is names.LENGTHS and re.search(r"\bint\b", annotation) and not is_list:
            value = names.LONGEST.flat if is_flat else names.LONGEST.padded
        elif role in (names.LENGTHS, names.TOKENS) and is_list:
            value += ".tolist()"
        elif role is names.BONUS and len(shape) == 1:
            value += "[:, 0]"
        if self.layout == "one request":
            value = _replaced(value, _OF_ONE_REQUEST)
        elif self.layout == "batch of one":
            value = _replaced(value, _OF_A_BATCH_OF_ONE)
        return _in_numpy(value) if self.array == "numpy" else value

    def _of_arrays(self, role: Role) -> str:
        """Return the expression for arrays of requests: padded ones, chains, or trees."""
        if self.layout == "chain":
            return role.chain or role.padded
        if self.layout != "tree":
            return role.padded
        # Lengths and bonus tokens of a chain have no like in a tree.
        has_none = role in (names.LENGTHS, names.LONGEST) or role.what.startswith("bonus")
        return role.tree or role.chain or ("" if has_none else role.padded.replace("draft_tokens", "tokens"))

    def _part(self, name: str, value: str) -> str:
        """Return which uniforms a parameter gets: those of the draft, or the last one of each request."""
        of_uniforms = [other for other, role in self.roles.items() if role is names.UNIFORMS]
        last = [other for other in of_uniforms if re.search("final|bonus|last|next", other)]
        if self.layout == "tree":
            return "torch.rand(len(tokens), generator=generator)" if name in last else value
        if self.layout == "flat":
            return "torch.rand(len(batch.lengths), generator=generator)" if name in last else value
        if name in last:
            return f"{value}[:, -1]"
        return f"{value}[:, :-1]" if last and self.layout != "chain" else value

    def _object(self, parameter: inspect.Parameter) -> str:
        """Return an object for a parameter of which attributes are read, "" where none of these is known."""
        read = self.source.attributes(parameter.name)
        declared = getattr(parameter.annotation, "__annotations__", {})
        values = {
            one: self.of(one, role_of(one), str(declared.get(one, "")).lower())
            for one, is_called in read.items()
            if not is_called
        }
        if not any(values.values()) or _ATTRIBUTES_OF_ARRAYS & set(read):
            return ""
        lines = [
            f"    {one}={value},  # {role_of(one).what}" if value else f"    {one}=None,  # TODO"
            for one, value in values.items()
        ]
        lines += [f"    {one}=None,  # TODO: a method" for one, is_called in read.items() if is_called]
        return "\n".join(["SimpleNamespace(", *lines, ")"])


def _without_generators(arguments: list[Argument]) -> list[Argument]:
    """Return the arguments; of a function that takes its random numbers, none needs a generator."""
    if not any("uniforms" in one.value for one in arguments):
        return arguments
    needs = [one for one in arguments if re.search("generator|sample_", one.value)]
    return [replace(one, value="", role=names.UNKNOWN) if one in needs else one for one in arguments]


_OF_ONE_REQUEST: Final = {
    "torch.full((len(draft_tokens),), draft_tokens.shape[1])": "len(draft_tokens)",
    "draft_tokens.shape[1]": "len(draft_tokens)",
    "sample_bonus(target_probs[:, -1])": "sample_bonus(target_probs[-1:])[0]",
    "torch.where(is_greedy, 0.0, 1.0)": "1.0",
    "bool(is_greedy.all())": "False",
    "not is_greedy.any()": "True",
    "is_greedy": "False",
    "len(draft_tokens), dtype": "1, dtype",
    "[:, ": "[",
}


_OF_A_BATCH_OF_ONE: Final = {
    "torch.where(is_greedy, 0.0, 1.0)": "torch.ones(1)",
    "bool(is_greedy.all())": "False",
    "not is_greedy.any()": "True",
    "is_greedy": "torch.zeros(1, dtype=torch.bool)",
}


def _replaced(value: str, parts: Mapping[str, str]) -> str:
    """Turn a value for padded arrays into one for a single request."""
    for padded, one in parts.items():
        value = value.replace(padded, one)
    return value


def _in_numpy(value: str) -> str:
    """Return a value in numpy, "" where it needs one of the helpers for torch."""
    is_torchs = re.search(r"batch\.|sample_bonus|fresh_seed|torch\.(nn|rand)|device", value)
    return "" if is_torchs else value.replace("logits_of(", "np.log(").replace("torch.", "np.")
