"""A backward in two parts: the input's gradient first, the weights' own later.

The idea is Zero Bubble's (arXiv 2401.10241, section 1): the rank before waits for the input's
gradient, nobody for the weights'. Autograd has the whole backward only, so its graph is cut here.
The nodes between output and input are run first, and what comes to those that have weights beside
them is kept. Later each of these is run once more, for its weights alone: the same kernels on the
same values, so that both parts together are bitwise the whole. A backward that is not the same when
it is run again (one that draws random numbers, or changes what it is given) cannot be split, and
hooks on what lies between run once for each part.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import torch
from torch import Tensor
from torch.autograd.graph import GradientEdge, Node

_ADDS = "torch::autograd::AccumulateGrad"
Later = Callable[[], None]
"""Adds to the gradients of the weights; to be called once."""


def split_backward(
    output: Tensor, gradient: Tensor | None, x: Tensor | None
) -> tuple[Tensor | None, Later]:
    """Return the gradient of the leaf `x`, and what adds the weights' gradients later.

    Without an `x`, or where the output does not depend on it, all is left for later, and the
    gradient of `x` is None. Where a weight is used in several places between output and input,
    its nodes cannot be told apart, and the part that is left runs the whole backward again for
    the weights alone.
    """
    if output is x:
        return gradient, lambda: None
    if x is None or not x.requires_grad or output.grad_fn is None:
        return None, lambda: torch.autograd.backward(output, gradient)
    graph = _Graph(output.grad_fn, x)
    beside = graph.beside()
    if beside is None:
        (of_input,) = torch.autograd.grad(output, x, gradient, retain_graph=True, allow_unused=True)
        weights = list(graph.leaves)
        return of_input, lambda: torch.autograd.backward(output, gradient, inputs=weights)
    handles = [node.node.register_prehook(node.keep) for node in beside]
    try:
        (of_input,) = torch.autograd.grad(output, x, gradient, retain_graph=True, allow_unused=True)
    finally:
        for handle in handles:
            handle.remove()
    apart = graph.apart

    def later() -> None:
        for node in beside:
            node.run()
        if apart:  # the output does not depend on the input
            torch.autograd.backward(output, gradient)

    return of_input, later


@dataclass(slots=True)
class _Beside:
    """A node on the way from output to input, and the weights whose gradients leave it there."""

    node: Node
    weights: list[Tensor]
    came: list[tuple[int, Tensor]] = field(default_factory=list)

    def keep(self, gradients: tuple[Tensor | None, ...]) -> None:
        self.came = [(place, g) for place, g in enumerate(gradients) if g is not None]

    def run(self) -> None:
        if not self.came:
            return
        edges = [GradientEdge(self.node, place) for place, _ in self.came]
        values = [gradient for _, gradient in self.came]
        # Hooks of tensors have changed these values once, and would again.
        handle = self.node.register_prehook(self._as_it_came)
        try:
            torch.autograd.backward(edges, values, inputs=self.weights)
        finally:
            handle.remove()

    def _as_it_came(self, gradients: tuple[Tensor | None, ...]) -> tuple[Tensor | None, ...]:
        came = dict(self.came)
        return tuple(came.get(place) for place in range(len(gradients)))


class _Graph:
    """What lies between an output and a leaf of it."""

    def __init__(self, root: Node, x: Tensor) -> None:
        self.leaves: dict[Tensor, None] = {}
        """Every other leaf."""
        self._x = x
        self._order: list[Node] = []  # each after all that its gradients go to
        self._reaches: dict[Node, bool] = {}
        for node in _deepest_first(root):
            self._order.append(node)
            leaf = _leaf(node)
            if leaf is not None and leaf is not x:
                self.leaves[leaf] = None
            self._reaches[node] = leaf is x or any(self._reaches[n] for n in _next(node))
        self.apart = not self._reaches[root]

    def beside(self) -> list[_Beside] | None:
        """Return the nodes with weights beside them, the output's first; None where they share."""
        found, taken = [], 0
        weights: dict[Node, dict[Tensor, None]] = {}  # of the nodes that do not reach the input
        for node in self._order:
            mine: dict[Tensor, None] = {}
            leaf = _leaf(node)
            if leaf is not None and leaf is not self._x:
                mine[leaf] = None
            for following in _next(node):
                if not self._reaches[following]:
                    mine.update(weights[following])
            weights[node] = mine
            if self._reaches[node] and mine:
                found.append(_Beside(node, list(mine)))
                taken += len(mine)
        different = {weight for beside in found for weight in beside.weights}
        return None if len(different) < taken else found[::-1]


def _leaf(node: Node) -> Tensor | None:
    """Return the leaf that a node adds gradients to; None for one that computes."""
    leaf = getattr(node, "variable", None) if node.name() == _ADDS else None
    return leaf if isinstance(leaf, Tensor) else None


def _next(node: Node) -> Iterator[Node]:
    return (following for following, _ in node.next_functions if following is not None)


def _deepest_first(root: Node) -> Iterator[Node]:
    """Go through a graph so that each node comes after those that it leads to."""
    seen = {root}
    path = [(root, _next(root))]
    while path:
        node, following = path[-1]
        for child in following:
            if child not in seen:
                seen.add(child)
                path.append((child, _next(child)))
                break
        else:
            path.pop()
            yield node
