"""The integration rule of each part: trapezoids for many parts together, or panels for one at a time."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from discreet.accounting.pld.contour.nodes import Rule, node_count, rule
from discreet.accounting.pld.contour.panels import NODES, panel_rule, panels
from discreet.accounting.pld.contour.sampled_parts import Parts

BLOCK = 2**17
"""The most numbers in a temporary array, so that it fits in the cache."""

_MANY_NODES, _FEW = 2048, 8
"""Panels are tried if a part takes more nodes than that on average, and parts are few."""


def are_enough(nodes: float, parts: Parts, order: float, top: float, need: float) -> bool:
    """Whether `nodes` quadrature nodes, over all parts, suffice for the error that `nodes.node_count` allows."""
    if parts.symmetric:
        return _in_panels(parts, order, top, need, nodes + 1) <= nodes
    even = float(node_count(parts, order, top, need).sum())
    # Panels that would take more are not looked for to the end.
    tried = even > nodes and _tries_panels(parts, top, even)
    return even <= nodes or (tried and _in_panels(parts, order, top, need, nodes + 1) <= nodes)


def _tries_panels(parts: Parts, top: float, even: float) -> bool:
    return top > 0 and len(parts) <= _FEW and even > _MANY_NODES * len(parts)


def _in_panels(parts: Parts, order: float, top: float, need: float, even: float = np.inf) -> float:
    """The nodes of all panels together; infinite if too many, or if one part has `even` nodes or more."""
    chosen = [panels(one, order, top, need, even) for one in _each(parts)]
    sides = 2 if parts.symmetric else 1
    return sum(np.inf if one is None else float(sides * NODES * len(one)) for one in chosen)


def _each(parts: Parts) -> Iterator[Parts]:
    return (parts[np.array([row])] for row in range(len(parts)))


def rules(
    parts: Parts, order: float, top: float, need: float, width: int = 1, finer: float = 1.0
) -> Iterator[tuple[Parts, Rule]]:
    """The rule for batches of parts that need similar numbers of nodes, with at most `BLOCK` / `width` numbers each."""
    nodes = np.ceil(finer * node_count(parts, order, top, need))
    even = float(nodes.sum())
    if parts.symmetric or (_tries_panels(parts, top, even) and _in_panels(parts, order, top, need, even) < even):
        yield from _panel_rules(parts, order, top, need)
        return
    by_size = np.argsort(nodes, kind="stable")[::-1]
    start = 0
    while start < len(by_size):
        most = float(nodes[by_size[start]])
        rows = max(1, int(BLOCK // (most * width)))
        batch = by_size[start : start + rows]
        batch = batch[nodes[batch] > 0.7 * most - 8]
        chosen = parts[batch] if len(parts) > 1 else parts
        yield chosen, rule(chosen, order, top, need, int(most))
        start += len(batch)


def _panel_rules(parts: Parts, order: float, top: float, need: float) -> Iterator[tuple[Parts, Rule]]:
    for one in _each(parts):
        chosen = panels(one, order, top, need)
        if chosen is None:
            raise ArithmeticError("too many panels")
        yield one, panel_rule(one, order, top, need, chosen)
