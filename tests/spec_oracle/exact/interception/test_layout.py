"""The modules of interception use each other in one direction."""

import ast
from graphlib import TopologicalSorter
from pathlib import Path

from spec_oracle.exact import interception

ROOT = Path(interception.__file__).parent
PACKAGE = interception.__name__
LAYERS = ["run", "symbols", "draws", "races", "algebra", "libraries", "calls"]


def modules():
    """Map the names of modules, the package's own ``__init__`` apart, to their syntax trees."""
    for path in ROOT.rglob("*.py"):
        name = ".".join((PACKAGE, *path.relative_to(ROOT).with_suffix("").parts)).removesuffix(".__init__")
        if name != PACKAGE:
            yield name, ast.parse(path.read_text())


def imports(tree):
    """Yield everything of the package that is imported anywhere in a tree, in functions too."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
            yield node.module


def graph():
    trees = dict(modules())
    return {name: {used for used in imports(tree) if used in trees} for name, tree in trees.items()}


def test_imports_have_no_circle():
    assert len(list(TopologicalSorter(graph()).static_order())) > 15


def test_modules_only_use_those_below():
    height = {}
    for level, layer in enumerate(LAYERS):
        for name in [layer] if isinstance(layer, str) else layer:
            height[f"{PACKAGE}.{name}"] = level

    def level_of(name):
        return next((level for top, level in height.items() if f"{name}.".startswith(f"{top}.")), None)

    for name, used in graph().items():
        for other in used:
            if None not in (level_of(name), level_of(other)):
                assert level_of(other) <= level_of(name), f"{name} imports {other}"


def test_a_planted_circle_is_found():
    assert "a.b" in set(imports(ast.parse("def f():\n    from a import b")))
