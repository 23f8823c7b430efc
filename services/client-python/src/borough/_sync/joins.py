# Generated from ../_async by `generate`. Do not edit.
"""Join tokens: how nodes join a cell."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

from ..join_token import IssuedJoinToken, join_token_new
from ..requests import build, millis, require_kind
from ..v1 import NodeJoin, methods, node_pb2
from .call import Caller, page_of, present


class Joins:
    """The join tokens of a cell, and the identities that nodes have got for them."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    def issue(
        self,
        node: str,
        *,
        token: str | None = None,
        lasts: float = 3_600.0,
        identity_lasts: float = 0.0,
        request_id: str | None = None,
    ) -> IssuedJoinToken:
        """Makes the join token of a node instead of the one that it had. The agent of that node joins by it, once.

        `token` is `borough-join-` with 64 hexadecimal digits behind it; None: a new one. It counts for `lasts` seconds,
        from a minute to 7 days. The identity of the node counts for `identity_lasts` seconds after each renewal; 0: 7
        days.
        """
        token = join_token_new() if token is None else token
        require_kind("token", token, str, "a text")
        request = build(
            node_pb2.CreateJoinTokenRequest,
            context=self._caller.change(request_id),
            cell=self._caller.config.cell,
            name=node,
            token_digest=hashlib.sha256(token.encode()).digest(),
            lasts_ms=millis("lasts", lasts),
            identity_lasts_ms=millis("identity_lasts", identity_lasts),
        )
        answer = self._caller.call(methods.CREATE_JOIN_TOKEN, request)
        join = NodeJoin.from_message(present(methods.CREATE_JOIN_TOKEN, answer, "join"))
        return IssuedJoinToken(token=token, join=join)

    def list(self, *, page: int | None = None) -> Iterator[NodeJoin]:
        """The tokens and identities by the name of the node, without secrets."""
        request = build(
            node_pb2.ListJoinTokensRequest,
            context=self._caller.read(),
            cell=self._caller.config.cell,
            page=page_of(page),
        )
        for row in self._caller.pages(methods.LIST_JOIN_TOKENS, request, "joins"):
            yield NodeJoin.from_message(row)

    def revoke(self, node: str, *, identity: bool = False, request_id: str | None = None) -> NodeJoin:
        """Takes back a token that no agent has used. `identity` also ends the identity of the node with its sessions.

        Returns what the node name had.
        """
        request = build(
            node_pb2.RevokeJoinTokenRequest,
            context=self._caller.change(request_id),
            cell=self._caller.config.cell,
            name=node,
            identity=identity,
        )
        answer = self._caller.call(methods.REVOKE_JOIN_TOKEN, request)
        return NodeJoin.from_message(present(methods.REVOKE_JOIN_TOKEN, answer, "join"))
