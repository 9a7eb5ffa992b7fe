"""Optima, beside general solvers: HiGHS on the whole program, networkx's maximum flow for one step.

Ours are in rationals and come with a proof; HiGHS and networkx compute in floats, and prove nothing. Times
are from the instance to the value.
"""

import networkx as nx

from lab.benchmarks.measure import in_turns, median, ratio, table
from spec_oracle.optimum import multi_path_optimum
from spec_oracle.optimum.drafts import trees_of
from spec_oracle.optimum.float_programs import flow_optimum
from spec_oracle.toy import Instance
from verifiers import Siblings

SIZES = ((3, 2, 2), (4, 2, 2), (3, 3, 2), (4, 2, 3), (4, 3, 2), (8, 1, 3), (16, 1, 3), (16, 1, 4))
ROUNDS = 3


def by_highs(instance):
    """Return the optimum of docs/theory.md's linear program over budgets and flows."""
    trees = trees_of(instance.floats, Siblings.INDEPENDENT)
    target = trees.prefixes.joint(instance.floats.target).astype(float)
    return target @ flow_optimum(target, trees.prefixes.parent, trees).budgets


def by_networkx(instance):
    """Return the optimum of one step: the largest flow from draft sets to the tokens in them."""
    trees = trees_of(instance.floats, Siblings.INDEPENDENT)
    graph = nx.DiGraph()
    for node, mass in enumerate(instance.floats.target.rows(0)[0], start=1):
        graph.add_edge(node, "sink", capacity=mass)
    for tree, mass in enumerate(trees.probability):
        graph.add_edge("source", ("tree", tree), capacity=float(mass))
        graph.add_edges_from((("tree", tree), int(node)) for node in trees.nodes[tree] if node)
    return 1 + nx.maximum_flow_value(graph, "source", "sink")


def row(vocab, length, paths):
    instance = Instance.random(vocab, length, seed=0, num_paths=paths)
    calls = {"ours": lambda: multi_path_optimum(instance).value, "HiGHS": lambda: by_highs(instance)}
    if length == 1:
        calls["networkx"] = lambda: by_networkx(instance)
    values = [call() for call in calls.values()]
    assert max(values) - min(values) < 1e-9, values
    times = in_turns(calls, ROUNDS)
    others = [ratio(times, name, "ours") if name in times else None for name in ("HiGHS", "networkx")]
    found = [median(times[name]) if name in times else None for name in ("ours", "HiGHS", "networkx")]
    return str(vocab), str(length), str(paths), f"{values[0]:.4f}", *found, *others


def lines():
    yield "## Optima, beside general solvers"
    yield ""
    yield "`multi_path_optimum`, milliseconds; networkx where one step makes it a maximum flow."
    yield ""
    heads = ["V", "L", "K", "tokens", "ours", "HiGHS", "networkx", "HiGHS / ours", "networkx / ours"]
    yield from table(heads, (row(*size) for size in SIZES))
