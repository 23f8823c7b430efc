"""Nodes: list, describe and operate them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping
from typing import Any

from ..record import records
from ..requests import build
from ..results import Selector
from ..v1 import Node, NodeCondition, NodeState, Taint, TaintMatch, methods, node_pb2
from .call import Caller, messages_of, numbers, page_of, present

# The gateway watches the silence of an agent before it answers; seconds.
_SILENCE_DEADLINE = 60.0


class Nodes:
    """The nodes of a cell."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    async def list(
        self,
        *,
        states: Iterable[NodeState] = (),
        conditions: Iterable[NodeCondition] = (),
        selector: Selector | None = None,
        page: int | None = None,
    ) -> AsyncIterator[Node]:
        """The nodes by name: all, or those in one of these states or conditions, with labels as the selector says."""
        request = build(
            node_pb2.ListNodesRequest,
            context=self._caller.read(),
            cell=self._caller.config.cell,
            page=page_of(page),
            states=numbers("states", states),
            conditions=numbers("conditions", conditions),
            selector=messages_of(selector),
        )
        async for row in self._caller.pages(methods.LIST_NODES, request, "nodes"):
            yield Node.from_message(row)

    async def get(self, node: str) -> Node:
        """One node. Refused with `NOT_FOUND` if it does not exist."""
        request = build(node_pb2.GetNodeRequest, context=self._caller.read(), cell=self._caller.config.cell, name=node)
        answer = await self._caller.call(methods.GET_NODE, request)
        return Node.from_message(present(methods.GET_NODE, answer, "node"))

    async def cordon(self, node: str, *, request_id: str | None = None) -> Node:
        """Places nothing on the node after the answer."""
        request = build(node_pb2.CordonNodeRequest, **self._change(node, request_id))
        return node_of(await self._caller.call(methods.CORDON_NODE, request))

    async def uncordon(self, node: str, *, request_id: str | None = None) -> Node:
        """Lets the node take new tasks again, and ends a drain."""
        request = build(node_pb2.UncordonNodeRequest, **self._change(node, request_id))
        return node_of(await self._caller.call(methods.UNCORDON_NODE, request))

    async def drain(self, node: str, *, force: bool = False, request_id: str | None = None) -> Node:
        """Cordons the node, and moves its tasks elsewhere, each as soon as it has room there.

        With `force` every task is stopped now, and waits for a node. Returns when that is committed.
        """
        request = build(node_pb2.DrainNodeRequest, force=force, **self._change(node, request_id))
        return node_of(await self._caller.call(methods.DRAIN_NODE, request))

    async def taint(self, node: str, taints: Iterable[Taint], *, request_id: str | None = None) -> Node:
        """Sets taints of the node. One of the same key and effect gets the new value."""
        messages: list[Any] = records("taints", taints, Taint)
        request = build(node_pb2.TaintNodeRequest, taints=messages, **self._change(node, request_id))
        return node_of(await self._caller.call(methods.TAINT_NODE, request))

    async def untaint(self, node: str, taints: Iterable[TaintMatch], *, request_id: str | None = None) -> Node:
        """Removes taints of the node. Missing ones are no error."""
        messages: list[Any] = records("taints", taints, TaintMatch)
        request = build(node_pb2.UntaintNodeRequest, taints=messages, **self._change(node, request_id))
        return node_of(await self._caller.call(methods.UNTAINT_NODE, request))

    async def label(
        self,
        node: str,
        labels: Mapping[str, str] | None = None,
        *,
        remove: Iterable[str] = (),
        request_id: str | None = None,
    ) -> Node:
        """Sets labels of the node, and removes those with the keys in `remove`."""
        request = build(node_pb2.LabelNodeRequest, labels=labels or {}, remove=remove, **self._change(node, request_id))
        return node_of(await self._caller.call(methods.LABEL_NODE, request))

    async def admit(self, node: str, identity: str, *, request_id: str | None = None) -> Node:
        """Gives the node to the agent `DURABLE@MACHINE`, since the machine of the recorded one is gone for good."""
        request = build(node_pb2.AdmitNodeRequest, identity=identity, **self._change(node, request_id))
        return node_of(await self._caller.call(methods.ADMIT_NODE, request, deadline=_SILENCE_DEADLINE))

    async def remove(self, node: str, *, request_id: str | None = None) -> None:
        """Forgets a node that is gone. The gateway first watches the silence of its agent."""
        request = build(node_pb2.RemoveNodeRequest, **self._change(node, request_id))
        await self._caller.call(methods.REMOVE_NODE, request, deadline=_SILENCE_DEADLINE)

    def _change(self, node: str, request_id: str | None) -> dict[str, Any]:
        """What every change of one node says."""
        return {"context": self._caller.change(request_id), "cell": self._caller.config.cell, "name": node}


def node_of(answer: Any) -> Node:
    """The node of an answer to a change."""
    return Node.from_message(answer.node)
