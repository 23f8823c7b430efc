"""The client for asyncio."""

from __future__ import annotations

import os
from types import TracebackType

from ..config import ClientConfig, Tls
from ..retry import RetryPolicy
from .access import Access
from .audit import Audit
from .call import Caller
from .cells import Cells
from .federated import FederatedJobs
from .jobs import Jobs
from .joins import Joins
from .members import Members
from .names import Names
from .nodes import Nodes
from .quotas import Quotas
from .tasks import Tasks


class AsyncClient:
    """A client of Borough for asyncio. Use it in `async with`, or close it.

    It connects at the first call. It uses one gateway until that fails, and then the next one. It tries failed calls
    again: reads change nothing, and each change carries an id, so that it has its effect once. Pass an id of your own
    as `request_id` to repeat a change yourself.
    """

    def __init__(
        self,
        *gateways: str,
        user: str,
        cell: str,
        token: str | None = None,
        token_file: str | os.PathLike[str] | None = None,
        tls: Tls | None = None,
        deadline: float = 10.0,
        connect_timeout: float = 2.0,
        retry: RetryPolicy | None = None,
        patience: float | None = None,
    ) -> None:
        """A client of gateways at `HOST:PORT`. `ClientConfig` says what each setting means.

        Reads the token file and the files of TLS. Raises `InvalidError` with everything that is wrong.
        """
        config = ClientConfig(
            gateways=gateways,
            user=user,
            cell=cell,
            token=token,
            token_file=token_file,
            tls=tls,
            deadline=deadline,
            connect_timeout=connect_timeout,
            retry=retry or RetryPolicy(),
            patience=patience,
        )
        self._bind(Caller(config))

    @classmethod
    def of(cls, config: ClientConfig) -> AsyncClient:
        """A client with these settings."""
        client = cls.__new__(cls)
        client._bind(Caller(config))
        return client

    def scoped(self, *, user: str | None = None, cell: str | None = None) -> AsyncClient:
        """The same client for another user or cell. Both share their connections, and close together."""
        return self._derived(Caller(self.config.with_scope(user, cell), self._caller))

    def with_dry_run(self) -> AsyncClient:
        """The same client, which changes nothing. Both share their connections, and close together.

        Each call that would change something raises `DryRun`, which says what would happen, or the refusal of the
        change. No command is run. Other calls are as before.
        """
        return self._derived(Caller(self.config, self._caller, dry_run=True))

    def _derived(self, caller: Caller) -> AsyncClient:
        client = type(self).__new__(type(self))
        client._bind(caller)
        return client

    def _bind(self, caller: Caller) -> None:
        self._caller = caller
        self.jobs = Jobs(caller)
        """Submit, plan, scale, stop, list and wait for jobs."""
        self.tasks = Tasks(caller)
        """List tasks, read their output, and run commands in them."""
        self.names = Names(caller)
        """List and watch endpoints."""
        self.nodes = Nodes(caller)
        self.joins = Joins(caller)
        """List and operate nodes."""
        self.cells = Cells(caller)
        """The state of cells, their events, and the watch of their changes."""
        self.quotas = Quotas(caller)
        self.audit = Audit(caller)
        """How much users may have admitted."""
        self.access = Access(caller)
        """Who may do what."""
        self.federated = FederatedJobs(caller)
        """Run, plan, scale, stop and list federated jobs, and order their releases. The client's cell is the home."""
        self.members = Members(caller)
        """The member cells of the federation whose home is the client's cell."""

    @property
    def config(self) -> ClientConfig:
        """The settings of the client."""
        return self._caller.config

    async def close(self) -> None:
        """Closes all connections. Calls and watches that run end."""
        await self._caller.close()

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
