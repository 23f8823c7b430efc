"""Member cells: the cells of a federation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ..errors import InvalidError
from ..requests import build
from ..results import Selector
from ..v1 import Member, member_pb2, methods
from .call import Caller, messages_of, present


class Members:
    """The member cells of a federation. The client's cell is its home."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    async def list(self, *, selector: Selector | None = None) -> tuple[Member, ...]:
        """The member cells by name, each with what was last seen of it: all, or those with labels as the selector says.

        Refused with `NOT_FOUND` if the gateways do not serve the home.
        """
        request = build(
            member_pb2.ListMembersRequest,
            context=self._caller.read(),
            cell=self._caller.config.cell,
            selector=messages_of(selector),
        )
        answer = await self._caller.call(methods.LIST_MEMBERS, request)
        return tuple(Member.from_message(member) for member in answer.members)

    async def get(self, member: str) -> Member:
        """One member cell. Refused with `NOT_FOUND` if no such cell is a member."""
        context = self._caller.read()
        request = build(member_pb2.GetMemberRequest, context=context, cell=self._caller.config.cell, member=member)
        answer = await self._caller.call(methods.GET_MEMBER, request)
        return Member.from_message(present(methods.GET_MEMBER, answer, "member"))

    async def join(
        self,
        member: str,
        gateways: Iterable[str],
        *,
        labels: Mapping[str, str] | None = None,
        request_id: str | None = None,
    ) -> Member:
        """Adds a cell to the federation. Its gateways, at `HOST:PORT`, know it by the name `member`."""
        request = build(
            member_pb2.JoinMemberRequest,
            gateways=addresses_of(gateways),
            labels=labels or {},
            **self._named(member, request_id),
        )
        answer = await self._caller.call(methods.JOIN_MEMBER, request)
        return Member.from_message(present(methods.JOIN_MEMBER, answer, "member"))

    async def leave(self, member: str, *, request_id: str | None = None) -> Member:
        """Takes a cell out of the federation, and returns it as it was. Its jobs go on."""
        request = build(member_pb2.RemoveMemberRequest, **self._named(member, request_id))
        answer = await self._caller.call(methods.REMOVE_MEMBER, request)
        return Member.from_message(present(methods.REMOVE_MEMBER, answer, "member"))

    async def cordon(self, member: str, *, expected_revision: int = 0, request_id: str | None = None) -> Member:
        """Gives the cell no new work. What it has goes on."""
        return await self._change(member, request_id, cordoned=True, expected_revision=expected_revision)

    async def uncordon(self, member: str, *, expected_revision: int = 0, request_id: str | None = None) -> Member:
        """Gives the cell new work again, and ends a drain."""
        return await self._change(
            member, request_id, cordoned=False, draining=False, expected_revision=expected_revision
        )

    async def drain(self, member: str, *, expected_revision: int = 0, request_id: str | None = None) -> Member:
        """Lets the federated tasks of the cell go to other cells, as far as those have room. It gets no new ones.

        Returns when that is committed. `client.federated.list(member=…)` shows the jobs that still have tasks there.
        """
        return await self._change(member, request_id, draining=True, expected_revision=expected_revision)

    async def label(
        self,
        member: str,
        labels: Mapping[str, str] | None = None,
        *,
        remove: Iterable[str] = (),
        expected_revision: int = 0,
        request_id: str | None = None,
    ) -> Member:
        """Sets labels of the cell, and removes those with the keys in `remove`. A missing one is no error."""
        return await self._change(
            member, request_id, labels=labels or {}, labels_removed=remove, expected_revision=expected_revision
        )

    async def set_gateways(
        self, member: str, gateways: Iterable[str], *, expected_revision: int = 0, request_id: str | None = None
    ) -> Member:
        """Replaces the addresses at which the cell is reached: 1 to 8 of `HOST:PORT`."""
        return await self._change(
            member, request_id, gateways=addresses_of(gateways), expected_revision=expected_revision
        )

    async def _change(self, member: str, request_id: str | None, **changed: Any) -> Member:
        """Changes what is given. With `expected_revision`, a cell that has changed since is refused."""
        request = build(member_pb2.ChangeMemberRequest, **changed, **self._named(member, request_id))
        answer = await self._caller.call(methods.CHANGE_MEMBER, request)
        return Member.from_message(present(methods.CHANGE_MEMBER, answer, "member"))

    def _named(self, member: str, request_id: str | None) -> dict[str, Any]:
        """What every change of one member cell says."""
        return {"context": self._caller.change(request_id), "cell": self._caller.config.cell, "member": member}


def addresses_of(gateways: Iterable[str]) -> list[str]:
    """The addresses of gateways. One text is no list of them, and none would change nothing."""
    if isinstance(gateways, str) or not isinstance(gateways, Iterable):
        raise InvalidError.of("gateways", gateways, "a list of addresses HOST:PORT")
    addresses = list(gateways)
    if not addresses:
        raise InvalidError.of("gateways", addresses, "1 to 8 addresses HOST:PORT")
    return addresses
