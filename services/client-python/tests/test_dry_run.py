"""Clients of dry runs: they ask what a change would do, and never make it."""

from __future__ import annotations

from typing import Any

import grpc
import pytest

import borough
import fake
from borough.errors import Code
from borough.v1 import dry_run_pb2, job_pb2
from fake import METHODS, FakeGateway, Hang, Refuse, connect, run

STOPS = dry_run_pb2.DryRunResponse(
    changes=True, effects=[dry_run_pb2.DryRunEffect(subject="job bob/web", text="stopping")], effects_left_out=3
)


@pytest.fixture(autouse=True)
def answers(gateway: FakeGateway) -> None:
    gateway.defaults["DryRun"] = lambda _: STOPS


def test_a_dry_run_says_what_a_change_would_do(face: str, gateway: FakeGateway) -> None:
    async def work() -> None:
        gateway.scripts["DryRun"].append(Refuse(grpc.StatusCode.UNAVAILABLE, "starting"))
        async with connect(face, gateway.address) as client:
            # What is derived from a client of dry runs makes dry runs, too.
            dry = client.with_dry_run().scoped(user="bob", cell="beta")
            with pytest.raises(borough.DryRun, match="a dry run of StopJob: nothing has changed") as caught:
                await dry.jobs.stop("web", request_id="0" * 30 + "ff")
            found = caught.value
            assert (found.method, found.changes, found.effects_left_out) == ("StopJob", True, 3)
            assert found.effects == (borough.DryRunEffect(subject="job bob/web", text="stopping"),)
            assert isinstance(found, borough.BoroughError)
        first, second = gateway.requests["DryRun"]
        assert first == second and second.method == "JobService/StopJob"
        asked = job_pb2.StopJobRequest.FromString(second.request)
        assert (asked.context.user, asked.context.request_id) == ("bob", "0" * 30 + "ff")
        assert (asked.cell, asked.user, asked.name) == ("beta", "bob", "web")
        assert not gateway.requests["StopJob"]

    run(work())


def test_no_change_of_the_api_is_made_in_a_dry_run(face: str, gateway: FakeGateway) -> None:
    async def work() -> None:
        changes = [each for each in METHODS.values() if each.changes and each.name != "Exec"]
        assert len(changes) > 30 and "DryRun" not in [each.name for each in changes]
        async with connect(face, gateway.address) as client:
            caller: Any = client.with_dry_run()._caller
            for each in changes:
                with pytest.raises(borough.DryRun) as caught:
                    await caller.call(each, each.request())
                assert caught.value.method == each.name
                asked = gateway.requests["DryRun"][-1]
                assert f"/borough.v1.{asked.method}" == each.path
        assert set(gateway.requests) == {"DryRun"}

    run(work())


def test_a_dry_run_is_refused_as_the_change(face: str, gateway: FakeGateway) -> None:
    async def work() -> None:
        gateway.scripts["DryRun"].append(Refuse(grpc.StatusCode.NOT_FOUND, "no job"))
        async with connect(face, gateway.address) as client:
            with pytest.raises(borough.RefusedError, match="no job") as caught:
                await client.with_dry_run().jobs.scale("web", 3)
            assert caught.value.code is Code.NOT_FOUND
        gateway.scripts["DryRun"].append(Hang())
        async with connect(face, gateway.address, deadline=0.2) as client:
            with pytest.raises(borough.DeadlineError) as late:
                await client.with_dry_run().jobs.scale("web", 3)
            assert not late.value.changes, "a dry run that is late has changed nothing"

    run(work())


def test_a_client_of_dry_runs_reads_and_runs_no_command(face: str, gateway: FakeGateway) -> None:
    async def work() -> None:
        job = job_pb2.Job(id="j1", name="web")
        gateway.defaults["GetJob"] = lambda _: job_pb2.GetJobResponse(job=job, cursor=fake.cursor(1))
        gateway.defaults["StopJob"] = lambda _: job_pb2.StopJobResponse(job=job)
        async with connect(face, gateway.address) as client:
            dry = client.with_dry_run()
            assert (await dry.jobs.get("web")).name == "web"
            with pytest.raises(borough.DryRun) as caught:
                await dry.tasks.run("web/0", ["rm"], input=b"x")
            assert (caught.value.method, caught.value.changes, caught.value.effects) == ("Exec", False, ())
            with pytest.raises(borough.DryRun):
                async with dry.tasks.exec("web/0", ["rm"]):
                    pass
            assert not gateway.requests["Exec"]
            # The client that it comes from makes its changes.
            await client.jobs.stop("web")
            assert len(gateway.requests["StopJob"]) == 1
        with pytest.raises(borough.ClosedError):
            await dry.tasks.run("web/0", ["rm"])
        with pytest.raises(borough.ClosedError):
            await dry.jobs.stop("web")

    run(work())
