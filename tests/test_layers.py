"""Imports go one way: from the algorithms up to the command line, and nowhere in a circle."""

import ast
from collections import defaultdict
from functools import cache
from pathlib import Path

import networkx as nx

ROOT = Path(__file__).parents[1]

LAYERS = (
    {"verifiers.errors"},
    {"verifiers.arrays"},
    {"verifiers.rows"},
    {"verifiers.drafts"},
    {"verifiers.interface", "verifiers.sampling"},
    {"verifiers.parts"},
    {"verifiers.rules"},
    {"verifiers.registry"},
    {"verifiers"},
    {"spec_oracle"},
    {
        "spec_oracle.arrays",
        "spec_oracle.clock",
        "spec_oracle.installed",
        "spec_oracle.notebook",
        "spec_oracle.places",
    },
    {"spec_oracle.errors"},
    {"spec_oracle.threads"},
    {"spec_oracle.validation"},
    {"spec_oracle.toy", "spec_oracle.statistics"},
    {"spec_oracle.exact", "spec_oracle.optimum"},
    {"spec_oracle.contracts"},
    {"spec_oracle.audit", "spec_oracle.efficiency", "spec_oracle.language_models"},
    {"spec_oracle.acceptance", "spec_oracle.servers", "spec_oracle.third_party"},
    {"spec_oracle.gate", "spec_oracle.sweeps"},
    {"spec_oracle.report"},
    {"spec_oracle.acceptance.report"},
    {"spec_oracle.commands.options"},
    {
        "spec_oracle.commands",
        "spec_oracle.acceptance.command",
        "spec_oracle.servers.audit_server",
        "spec_oracle.servers.recorded.audit_transcripts",
        "spec_oracle.pytest_plugin",
    },
    {"spec_oracle.cli"},
    {"spec_oracle.__main__"},
    {"lab"},
    {"lab.specimens", "lab.claims", "lab.benchmarks", "lab.design"},
    {"lab.kill_matrix", "lab.studies"},
    {"lab.specimens.__main__"},
)
"""From the bottom up. Modules import from layers below their own, and, without circles, from their own."""

RANK = {name: rank for rank, layer in enumerate(LAYERS) for name in layer}

KNOWN: set[tuple[str, str]] = set()
"""Imports that still go the wrong way, (importing module, imported module): to be emptied."""


def modules():
    """Yield the dotted name of every module of the three packages, and its syntax tree."""
    for package in ("verifiers", "spec_oracle", "lab"):
        for path in sorted((ROOT / package).rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
            yield name, ast.parse(path.read_text(encoding="utf-8"))


@cache
def trees():
    """Return the syntax tree of every module, by name; read by the worker that runs these tests alone."""
    return dict(modules())


def imported(tree):
    """Yield the modules of ours that a syntax tree imports, at any depth: inside functions too."""
    known = trees()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known)
        elif isinstance(node, ast.ImportFrom) and node.module in known:
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                yield inner if inner in known else node.module


@cache
def imports():
    """Return all pairs of a module and another one that it imports."""
    return sorted({(name, o) for name, tree in trees().items() for o in imported(tree) if o != name})


def unit(module):
    """Return what `LAYERS` calls the part of the house that a module belongs to: the longest such prefix."""
    parts = module.split(".")
    return next(name for end in range(len(parts), 0, -1) if (name := ".".join(parts[:end])) in RANK)


def test_every_module_has_a_place():
    strays = [name for name in trees() if unit(name) == "spec_oracle" and name != "spec_oracle"]
    assert not strays


def test_imports_go_down():
    wrong = {(name, other) for name, other in imports() if RANK[unit(other)] > RANK[unit(name)]}
    assert wrong == KNOWN


def test_no_part_of_the_house_imports_itself_by_a_detour():
    graph = nx.DiGraph((unit(name), unit(other)) for name, other in imports())
    graph.remove_edges_from(nx.selfloop_edges(graph))
    circles = [sorted(part) for part in nx.strongly_connected_components(graph) if len(part) > 1]
    assert not circles


def test_no_modules_import_each_other():
    graph = nx.DiGraph(imports())
    circles = {frozenset(part) for part in nx.strongly_connected_components(graph) if len(part) > 1}
    assert not circles


def test_a_class_name_has_one_meaning():
    """A private class has the name of no other: who reads `Run` in two files must not wonder."""
    places = defaultdict(set)
    for module, tree in trees().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef) and not module.startswith("lab"):
                places[node.name.lstrip("_")].add(module)
    assert not {name: modules for name, modules in places.items() if len(modules) > 1}
