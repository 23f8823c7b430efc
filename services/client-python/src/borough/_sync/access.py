# Generated from ../_async by `generate`. Do not edit.
"""Access: who may do what in a cell."""

from __future__ import annotations

import builtins
from collections.abc import Iterable, Iterator

from ..requests import build, millis, require_kind
from ..v1 import AccessAnswer, AccessHolders, Grant, GrantHistory, IdentityKey, access_pb2, methods
from .call import Caller, page_of, present


class Access:
    """The grants of a cell, and the keys that sign the identities of its tasks."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    def list(self, *, page: int | None = None) -> Iterator[Grant]:
        """The grants by subject."""
        request = build(
            access_pb2.ListGrantsRequest, context=self._caller.read(), cell=self._caller.config.cell, page=page_of(page)
        )
        for row in self._caller.pages(methods.LIST_GRANTS, request, "grants"):
            yield Grant.from_message(row)

    def get(self, subject: str) -> GrantHistory:
        """The grant of `user/NAME` or `group/NAME`, with its last changes. One that was never set gives nothing."""
        request = build(
            access_pb2.GetGrantRequest, context=self._caller.read(), cell=self._caller.config.cell, subject=subject
        )
        return GrantHistory.from_message(self._caller.call(methods.GET_GRANT, request))

    def set(self, grant: Grant, *, expected_revision: int = 0, request_id: str | None = None) -> Grant:
        """Sets the grant of its subject as a whole. Without roles and rights it is taken away."""
        request = build(
            access_pb2.SetGrantRequest,
            context=self._caller.change(request_id),
            cell=self._caller.config.cell,
            expected_revision=expected_revision,
        )
        require_kind("grant", grant, Grant, "a Grant")
        request.grant.MergeFrom(grant.to_message())
        answer = self._caller.call(methods.SET_GRANT, request)
        return Grant.from_message(present(methods.SET_GRANT, answer, "grant"))

    def check(self, action: str, *, owner: str = "", subject: str = "", groups: Iterable[str] = ()) -> AccessAnswer:
        """Whether the caller, or another subject, may do something, and why.

        `action` is the name of a right, such as `read`, or of a method of the API, such as `StopJob`. `owner` is the
        user that owns the jobs; empty: the caller. `groups` are those of another subject.
        """
        request = build(
            access_pb2.CheckAccessRequest,
            context=self._caller.read(),
            cell=self._caller.config.cell,
            action=action,
            owner=owner,
            subject=subject,
            groups=groups,
        )
        return AccessAnswer.from_message(self._caller.call(methods.CHECK_ACCESS, request))

    def holders(self, action: str, *, owner: str = "") -> AccessHolders:
        """The users and groups that may do something, for the work of `owner`; empty: of everybody."""
        request = build(
            access_pb2.ListHoldersRequest,
            context=self._caller.read(),
            cell=self._caller.config.cell,
            action=action,
            owner=owner,
        )
        return AccessHolders.from_message(self._caller.call(methods.LIST_HOLDERS, request))

    def identity_keys(self) -> builtins.list[IdentityKey]:
        """The keys that sign the identities of tasks: their public halves, by number."""
        request = build(access_pb2.ListIdentityKeysRequest, context=self._caller.read(), cell=self._caller.config.cell)
        answer = self._caller.call(methods.LIST_IDENTITY_KEYS, request)
        return [IdentityKey.from_message(key) for key in answer.keys]

    def rotate_identity_keys(self, *, ahead: float = 0.0, request_id: str | None = None) -> builtins.list[IdentityKey]:
        """Makes another key before it is due. It is published at once, and signs after `ahead` seconds, up to 7 days.

        Returns the keys after it.
        """
        request = self._rotation(request_id, ahead_ms=millis("ahead", ahead))
        answer = self._caller.call(methods.ROTATE_IDENTITY_KEYS, request)
        return [IdentityKey.from_message(key) for key in answer.keys]

    def withdraw_identity_keys(self, *, request_id: str | None = None) -> builtins.list[IdentityKey]:
        """Makes another key that signs at once, and withdraws all keys before it: no token of them counts any more.

        Returns the keys after it.
        """
        request = self._rotation(request_id, withdraw=True)
        answer = self._caller.call(methods.ROTATE_IDENTITY_KEYS, request)
        return [IdentityKey.from_message(key) for key in answer.keys]

    def _rotation(
        self, request_id: str | None, *, ahead_ms: int = 0, withdraw: bool = False
    ) -> access_pb2.RotateIdentityKeysRequest:
        return build(
            access_pb2.RotateIdentityKeysRequest,
            context=self._caller.change(request_id),
            cell=self._caller.config.cell,
            ahead_ms=ahead_ms,
            withdraw=withdraw,
        )
