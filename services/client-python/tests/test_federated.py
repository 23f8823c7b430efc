"""Federated jobs and member cells, with both clients."""

from __future__ import annotations

import json
from types import MappingProxyType
from typing import Any

import grpc
import pytest
from google.rpc import error_details_pb2

import borough
from borough.v1 import federated_pb2, member_pb2
from fake import FakeGateway, Refuse, connect, run

FILE = {"name": "web", "count": 3, "task": {"command": ["serve"]}, "federation": {"split": "weight"}}


def job(**fields: Any) -> federated_pb2.FederatedJob:
    return federated_pb2.FederatedJob(id="f1", user="alice", name="web", **fields)


def test_a_job_file_is_sent_as_json_with_its_name_and_its_owner(face: str, gateway: FakeGateway) -> None:
    async def work() -> None:
        gateway.defaults["RunFederatedJob"] = lambda _: federated_pb2.RunFederatedJobResponse(
            job=job(revision=4), changed=True
        )
        async with connect(face, gateway.address, cell="federation") as client:
            submitted = await client.federated.run(FILE, expected_revision=3, request_id="0" * 32)
            assert submitted.changed and submitted.job.revision == 4
            nested = {
                "user": "bob",
                "name": "web",
                "federation": MappingProxyType({"weights": MappingProxyType({"a": 2})}),
            }
            await client.federated.run(MappingProxyType(nested))
            await client.federated.run(json.dumps(FILE))
        first, second, third = gateway.requests["RunFederatedJob"]
        assert (first.cell, first.user, first.name, first.expected_revision) == ("federation", "alice", "web", 3)
        assert first.context.request_id == "0" * 32
        assert json.loads(first.job_file) == FILE == json.loads(third.job_file)
        assert (second.user, second.expected_revision) == ("bob", 0)
        assert json.loads(second.job_file)["federation"] == {"weights": {"a": 2}}
        assert second.context.request_id != third.context.request_id

    run(work())


@pytest.mark.parametrize(
    ("file", "field"),
    [
        (["web"], "job_file"),
        ("{", "job_file"),
        ("[]", "job_file"),
        ({"federation": {}}, "job_file.name"),
        ({"name": 3}, "job_file.name"),
        ({"name": "web", "user": None}, "job_file.user"),
        ({"name": "web", "task": {"command": {1, 2}}}, "job_file"),
        ({"name": "web", "count": float("nan")}, "job_file"),
    ],
)
def test_what_is_no_job_file_is_refused_before_it_is_sent(
    face: str, gateway: FakeGateway, file: Any, field: str
) -> None:
    async def work() -> None:
        async with connect(face, gateway.address) as client:
            for call in (client.federated.run, client.federated.plan):
                with pytest.raises(borough.InvalidError) as caught:
                    await call(file)
                assert [each.field for each in caught.value.fields] == [field]
        assert not gateway.requests["RunFederatedJob"] and not gateway.requests["PlanFederatedJob"]

    run(work())


def test_a_plan_has_what_is_there_and_what_would_be(face: str, gateway: FakeGateway) -> None:
    async def work() -> None:
        part = federated_pb2.FederatedPart(cell="eu1", count=3)
        gateway.scripts["PlanFederatedJob"].extend(
            [
                federated_pb2.PlanFederatedJobResponse(after=job(parts=[part]), changed=True),
                federated_pb2.PlanFederatedJobResponse(before=job(), after=job()),
            ]
        )
        async with connect(face, gateway.address) as client:
            plan = await client.federated.plan(FILE)
            assert (plan.before, plan.changed, plan.after.parts[0].count) == (None, True, 3)
            assert (await client.federated.plan(FILE)).before.name == "web"

    run(work())


def test_a_silent_federation_is_a_refusal_and_is_not_asked_again(face: str, gateway: FakeGateway) -> None:
    async def work() -> None:
        info = error_details_pb2.ErrorInfo(reason="FEDERATION_SILENT")
        gateway.scripts["PlanFederatedJob"].append(Refuse(grpc.StatusCode.UNAVAILABLE, "no process", info))
        async with connect(face, gateway.address) as client:
            with pytest.raises(borough.RefusedError) as caught:
                await client.federated.plan(FILE)
        assert caught.value.reason == "FEDERATION_SILENT"
        assert len(gateway.requests["PlanFederatedJob"]) == 1

    run(work())


def test_a_list_goes_over_all_pages(face: str, gateway: FakeGateway) -> None:
    def pages(request: federated_pb2.ListFederatedJobsRequest) -> federated_pb2.ListFederatedJobsResponse:
        at = int(request.page.page or 0)
        # With a member cell, a page may be empty although others follow.
        jobs = [] if at == 1 else [federated_pb2.FederatedJob(name=f"job-{at}")]
        return federated_pb2.ListFederatedJobsResponse(jobs=jobs, next_page=str(at + 1) if at < 2 else "")

    async def work() -> None:
        gateway.defaults["ListFederatedJobs"] = pages
        async with connect(face, gateway.address) as client:
            rows = client.federated.list(user="bob", stopped=True, member="eu1", page=1)
            assert [each.name async for each in rows] == ["job-0", "job-2"]
        sent = gateway.requests["ListFederatedJobs"]
        assert [each.page.page for each in sent] == ["", "1", "2"]
        assert {(each.user, each.stopped, each.member, each.page.limit) for each in sent} == {("bob", True, "eu1", 1)}

    run(work())


def test_a_job_is_read_with_its_file_and_run_again(face: str, gateway: FakeGateway) -> None:
    async def work() -> None:
        answer = federated_pb2.GetFederatedJobResponse(job=job(revision=7), job_file=json.dumps(FILE))
        gateway.defaults["GetFederatedJob"] = lambda _: answer
        gateway.defaults["RunFederatedJob"] = lambda _: federated_pb2.RunFederatedJobResponse(job=job())
        version = federated_pb2.FederatedJobVersion(version=2, by="user/ann", job_file=json.dumps(FILE))
        gateway.defaults["GetFederatedJobHistory"] = lambda _: federated_pb2.GetFederatedJobHistoryResponse(
            versions=[version]
        )
        async with connect(face, gateway.address) as client:
            details = await client.federated.describe("bob/web")
            assert (await client.federated.get("web")).revision == 7
            await client.federated.run({**details.job_file, "count": 9}, expected_revision=details.job.revision)
            (only,) = await client.federated.history("web")
            assert (only.version, only.by) == (2, "user/ann")
            await client.federated.run(only.job_file)
            answer.ClearField("job_file")
            with pytest.raises(borough.IncompleteError):
                await client.federated.describe("web")
        assert [each.user for each in gateway.requests["GetFederatedJob"]] == ["bob", "alice", "alice"]
        changed, again = gateway.requests["RunFederatedJob"]
        assert (json.loads(changed.job_file)["count"], changed.expected_revision) == (9, 7)
        assert json.loads(again.job_file) == FILE

    run(work())


def test_changes_of_a_job_say_what_they_want(face: str, gateway: FakeGateway) -> None:
    orders = federated_pb2.OrderFederatedReleaseRequest

    async def work() -> None:
        ids = [f"{number:032x}" for number in range(7)]
        unavailable = Refuse(grpc.StatusCode.UNAVAILABLE, "starting")
        gateway.scripts["ScaleFederatedJob"].append(unavailable)
        for name in (
            "ScaleFederatedJob",
            "RebalanceFederatedJob",
            "StopFederatedJob",
            "OrderFederatedRelease",
            "ForgetFederatedJob",
        ):
            response = fake_answer(name)
            gateway.defaults[name] = lambda _, response=response: response(job=job())
        async with connect(face, gateway.address) as client:
            jobs = client.federated
            await jobs.scale("web", 5, request_id=ids[0])
            await jobs.rebalance("web", stuck=True, expected_revision=3)
            await jobs.pause_release("web", request_id=ids[1])
            await jobs.resume_release("web", request_id=ids[2])
            await jobs.approve_release("web", 1, request_id=ids[3])
            await jobs.undo_release("bob/web", request_id=ids[4])
            await jobs.stop("web", request_id=ids[5])
            assert (await jobs.forget("web", request_id=ids[6])).name == "web"
            gateway.scripts["ForgetFederatedJob"].append(federated_pb2.ForgetFederatedJobResponse())
            assert await jobs.forget("web", request_id=ids[6]) is None
            with pytest.raises(borough.InvalidError, match="count"):
                await jobs.scale("web", -1)
            with pytest.raises(borough.InvalidError, match="stage"):
                await jobs.approve_release("web", -1)
        first, second = gateway.requests["ScaleFederatedJob"]
        assert first == second and (first.count, first.context.request_id) == (5, ids[0])
        (rebalance,) = gateway.requests["RebalanceFederatedJob"]
        assert (rebalance.which, rebalance.expected_revision) == (federated_pb2.REBALANCED_TASKS_STUCK, 3)
        sent = [(each.order, each.stage, each.user) for each in gateway.requests["OrderFederatedRelease"]]
        assert sent == [
            (orders.PAUSE, 0, "alice"),
            (orders.RESUME, 0, "alice"),
            (orders.APPROVE, 1, "alice"),
            (orders.REVERT, 0, "bob"),
        ]
        assert [each.context.request_id for each in gateway.requests["OrderFederatedRelease"]] == ids[1:5]
        assert gateway.requests["StopFederatedJob"][0].context.request_id == ids[5]

    run(work())


def fake_answer(name: str) -> Any:
    return getattr(federated_pb2, f"{name}Response")


def test_a_refusal_of_a_federated_job_has_its_fields(face: str, gateway: FakeGateway) -> None:
    async def work() -> None:
        bad = error_details_pb2.BadRequest()
        bad.field_violations.add(field="job_file", description="federation.split: up; accepted: free")
        gateway.scripts["RunFederatedJob"].append(Refuse(grpc.StatusCode.INVALID_ARGUMENT, "split", bad))
        async with connect(face, gateway.address) as client:
            with pytest.raises(borough.RefusedError) as caught:
                await client.federated.run(FILE)
        assert [each.field for each in caught.value.fields] == ["job_file"]

    run(work())


def test_member_cells_are_read_and_changed(face: str, gateway: FakeGateway) -> None:
    member = member_pb2.Member(cell="eu1", gateways=["eu1:7400"], health=2, revision=3)

    async def work() -> None:
        gateway.defaults["ListMembers"] = lambda _: member_pb2.ListMembersResponse(members=[member])
        for name in ("GetMember", "JoinMember", "ChangeMember", "RemoveMember"):
            response = getattr(member_pb2, f"{name}Response")
            gateway.defaults[name] = lambda _, response=response: response(member=member)
        async with connect(face, gateway.address, cell="federation") as client:
            members = client.members
            selector = borough.Selector(equal={"region": "eu"}, different={"tier": "test"})
            (only,) = await members.list(selector=selector)
            assert only == await members.get("eu1") and only.health is borough.MemberHealth.NOT_LOOKED
            await members.join("eu1", ["eu1:7400", "eu2:7400"], labels={"region": "eu"}, request_id="0" * 32)
            await members.cordon("eu1", expected_revision=3)
            await members.uncordon("eu1")
            await members.drain("eu1")
            await members.label("eu1", {"tier": "prod"}, remove=["zone"])
            await members.set_gateways("eu1", ["eu3:7400"])
            assert (await members.leave("eu1")).revision == 3
            for wrong in ([7400], "eu1:7400", [], None):
                for call in (members.join, members.set_gateways):
                    with pytest.raises(borough.InvalidError, match="gateways"):
                        await call("eu1", wrong)
        assert [
            (each.key, each.value, getattr(each, "not")) for each in gateway.requests["ListMembers"][0].selector
        ] == [
            ("region", "eu", False),
            ("tier", "test", True),
        ]
        (joined,) = gateway.requests["JoinMember"]
        assert (joined.cell, joined.member, list(joined.gateways)) == ("federation", "eu1", ["eu1:7400", "eu2:7400"])
        assert dict(joined.labels) == {"region": "eu"} and joined.context.request_id == "0" * 32
        changed = []
        for each in gateway.requests["ChangeMember"]:
            assert each.member == "eu1" and each.context.request_id
            for name in ("context", "cell", "member"):
                each.ClearField(name)
            changed.append(each)
        change = member_pb2.ChangeMemberRequest
        assert changed == [
            change(cordoned=True, expected_revision=3),
            change(cordoned=False, draining=False),
            change(draining=True),
            change(labels={"tier": "prod"}, labels_removed=["zone"]),
            change(gateways=["eu3:7400"]),
        ]
        assert gateway.requests["RemoveMember"][0].member == "eu1"

    run(work())
