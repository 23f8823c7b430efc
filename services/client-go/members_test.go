package borough

import (
	"errors"
	"testing"

	"google.golang.org/protobuf/proto"

	pb "example.invalid/borough/services/client-go/boroughpb"
	"example.invalid/borough/services/client-go/internal/fake"
)

func TestMemberCellsAreReadJoinAndLeave(t *testing.T) {
	gateway, member := fake.New(t), &Member{Cell: "eu1", Revision: 3}
	lists := onRequest[pb.ListMembersRequest](gateway, "ListMembers", &pb.ListMembersResponse{Members: []*Member{member}})
	onRequest[pb.GetMemberRequest](gateway, "GetMember", &pb.GetMemberResponse{Member: member}, &pb.GetMemberResponse{})
	joins := onRequest[pb.JoinMemberRequest](gateway, "JoinMember", &pb.JoinMemberResponse{Member: member})
	leaves := onRequest[pb.RemoveMemberRequest](gateway, "RemoveMember", &pb.RemoveMemberResponse{Member: member})
	client, ctx := clientOf(t, Config{}, gateway.Address).WithCell("federation"), t.Context()
	members, err := client.Members(ctx, &LabelMatch{Key: "region", Value: "eu"})
	if err != nil || len(members) != 1 || lists.all()[0].GetSelector()[0].GetValue() != "eu" {
		t.Fatal(members, err)
	}
	if found, err := client.GetMember(ctx, "eu1"); err != nil || found.GetRevision() != 3 {
		t.Error(found, err)
	}
	if _, err := client.GetMember(ctx, "eu1"); err == nil {
		t.Error("an answer without a cell is no answer")
	}
	id := NewRequestID()
	labels := map[string]string{"region": "eu"}
	if _, err := client.JoinMember(ctx, "eu1", []string{"eu1:7400"}, labels, WithRequestID(id)); err != nil {
		t.Fatal(err)
	}
	want := &pb.JoinMemberRequest{
		Context: &pb.RequestContext{User: "ann", RequestId: id}, Cell: "federation", Member: "eu1",
		Gateways: []string{"eu1:7400"}, Labels: labels,
	}
	if request := joins.all()[0]; !proto.Equal(request, want) {
		t.Errorf("%v", request)
	}
	if _, err := client.RemoveMember(ctx, "eu1"); err != nil || leaves.all()[0].GetMember() != "eu1" {
		t.Error(err)
	}
}

func TestAChangeOfAMemberCellSaysOnlyWhatChanges(t *testing.T) {
	gateway := fake.New(t)
	changes := onRequest[pb.ChangeMemberRequest](gateway, "ChangeMember", &pb.ChangeMemberResponse{Member: &Member{}})
	client, ctx, yes, no := clientOf(t, Config{}, gateway.Address), t.Context(), proto.Bool(true), proto.Bool(false)
	for at, each := range []struct {
		change func() (*Member, error)
		want   *pb.ChangeMemberRequest
	}{
		{
			func() (*Member, error) { return client.CordonMember(ctx, "eu1", IfRevision(3)) },
			&pb.ChangeMemberRequest{Cordoned: yes, ExpectedRevision: 3},
		},
		{
			func() (*Member, error) { return client.UncordonMember(ctx, "eu1") },
			&pb.ChangeMemberRequest{Cordoned: no, Draining: no},
		},
		{func() (*Member, error) { return client.DrainMember(ctx, "eu1") }, &pb.ChangeMemberRequest{Draining: yes}},
		{
			func() (*Member, error) {
				return client.LabelMember(ctx, "eu1", map[string]string{"tier": "prod"}, []string{"zone"})
			},
			&pb.ChangeMemberRequest{Labels: map[string]string{"tier": "prod"}, LabelsRemoved: []string{"zone"}},
		},
		{
			func() (*Member, error) { return client.SetMemberGateways(ctx, "eu1", []string{"eu3:7400"}) },
			&pb.ChangeMemberRequest{Gateways: []string{"eu3:7400"}},
		},
	} {
		if _, err := each.change(); err != nil {
			t.Fatal(at, err)
		}
		request := changes.all()[at]
		if len(request.GetContext().GetRequestId()) != 32 {
			t.Error(at, request)
		}
		each.want.Context, each.want.Cell, each.want.Member = request.GetContext(), "alpha", "eu1"
		if !proto.Equal(request, each.want) {
			t.Errorf("%d: %v", at, request)
		}
	}
	var invalid *InvalidError
	if _, err := client.SetMemberGateways(ctx, "eu1", nil); !errors.As(err, &invalid) {
		t.Error(err)
	}
}
