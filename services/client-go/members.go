package borough

import (
	"context"

	"google.golang.org/protobuf/proto"

	pb "example.invalid/borough/services/client-go/boroughpb"
)

// Members returns the member cells of a federation, by name, each with what was last seen of it. Their labels meet all
// of the conditions. The cell of the client is the home of the federation.
func (c *Client) Members(ctx context.Context, selector ...*LabelMatch) ([]*Member, error) {
	request := &pb.ListMembersRequest{Context: c.reading(), Cell: c.cell, Selector: selector}
	answer := new(pb.ListMembersResponse)
	err := c.call(ctx, pb.MemberService_ListMembers_FullMethodName, request, answer)
	return answer.GetMembers(), err
}

// memberAnswer is an answer with the member cell that a call read or changed.
type memberAnswer interface {
	proto.Message
	GetMember() *Member
}

func (c *Client) member(
	ctx context.Context, method string, request proto.Message, answer memberAnswer,
) (*Member, error) {
	err := c.call(ctx, method, request, answer)
	if err == nil && answer.GetMember() == nil {
		err = incompleteError(method, "member")
	}
	return answer.GetMember(), err
}

// GetMember returns a member cell.
func (c *Client) GetMember(ctx context.Context, member string) (*Member, error) {
	request := &pb.GetMemberRequest{Context: c.reading(), Cell: c.cell, Member: member}
	return c.member(ctx, pb.MemberService_GetMember_FullMethodName, request, new(pb.GetMemberResponse))
}

// JoinMember adds a cell to the federation. Its gateways, at HOST:PORT, know it by this name.
func (c *Client) JoinMember(
	ctx context.Context, member string, gateways []string, labels map[string]string, options ...ChangeOption,
) (*Member, error) {
	request := &pb.JoinMemberRequest{
		Context: c.changing(changeOf(options)), Cell: c.cell, Member: member, Gateways: gateways, Labels: labels,
	}
	return c.member(ctx, pb.MemberService_JoinMember_FullMethodName, request, new(pb.JoinMemberResponse))
}

// RemoveMember takes a cell out of the federation, and returns it as it was. Its jobs go on.
func (c *Client) RemoveMember(ctx context.Context, member string, options ...ChangeOption) (*Member, error) {
	request := &pb.RemoveMemberRequest{Context: c.changing(changeOf(options)), Cell: c.cell, Member: member}
	return c.member(ctx, pb.MemberService_RemoveMember_FullMethodName, request, new(pb.RemoveMemberResponse))
}

// CordonMember gives a member cell no new work. What it has goes on.
func (c *Client) CordonMember(ctx context.Context, member string, options ...ChangeOption) (*Member, error) {
	return c.changeMember(ctx, member, &pb.ChangeMemberRequest{Cordoned: proto.Bool(true)}, options)
}

// UncordonMember gives a member cell new work again, and ends a drain.
func (c *Client) UncordonMember(ctx context.Context, member string, options ...ChangeOption) (*Member, error) {
	request := &pb.ChangeMemberRequest{Cordoned: proto.Bool(false), Draining: proto.Bool(false)}
	return c.changeMember(ctx, member, request, options)
}

// DrainMember lets the federated tasks of a cell go to other cells, as far as those have room. It gets no new ones. The
// call returns when that is committed. [Client.FederatedJobs] with Member lists the jobs that still have tasks there.
func (c *Client) DrainMember(ctx context.Context, member string, options ...ChangeOption) (*Member, error) {
	return c.changeMember(ctx, member, &pb.ChangeMemberRequest{Draining: proto.Bool(true)}, options)
}

// LabelMember sets and removes labels of a member cell. A label to remove that is missing is no error.
func (c *Client) LabelMember(
	ctx context.Context, member string, set map[string]string, remove []string, options ...ChangeOption,
) (*Member, error) {
	return c.changeMember(ctx, member, &pb.ChangeMemberRequest{Labels: set, LabelsRemoved: remove}, options)
}

// SetMemberGateways replaces the addresses at which a member cell is reached: 1 to 8 of HOST:PORT.
func (c *Client) SetMemberGateways(
	ctx context.Context, member string, gateways []string, options ...ChangeOption,
) (*Member, error) {
	if len(gateways) == 0 {
		// The gateway would change nothing.
		return nil, &InvalidError{Fields: []InvalidField{{"gateways", "[]", "1 to 8 addresses HOST:PORT"}}}
	}
	return c.changeMember(ctx, member, &pb.ChangeMemberRequest{Gateways: gateways}, options)
}

// changeMember makes the change of a request, which says only what changes.
func (c *Client) changeMember(
	ctx context.Context, member string, request *pb.ChangeMemberRequest, options []ChangeOption,
) (*Member, error) {
	change := changeOf(options)
	request.Context, request.Cell, request.Member = c.changing(change), c.cell, member
	request.ExpectedRevision = change.expectedRevision
	return c.member(ctx, pb.MemberService_ChangeMember_FullMethodName, request, new(pb.ChangeMemberResponse))
}
