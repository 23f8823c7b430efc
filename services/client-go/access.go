package borough

import (
	"context"
	"iter"

	pb "example.invalid/borough/services/client-go/boroughpb"
)

// Grants iterates over the grants of the cell, by subject. An error is the last item.
func (c *Client) Grants(ctx context.Context) iter.Seq2[*Grant, error] {
	return pages(0, func(page *pb.PageRequest) ([]*Grant, string, error) {
		request := &pb.ListGrantsRequest{Context: c.reading(), Cell: c.cell, Page: page}
		answer := new(pb.ListGrantsResponse)
		err := c.call(ctx, pb.AccessService_ListGrants_FullMethodName, request, answer)
		return answer.GetGrants(), answer.GetNextPage(), err
	})
}

// GetGrant returns the grant of user/NAME or group/NAME, with its last changes. One that was never set gives nothing.
func (c *Client) GetGrant(ctx context.Context, subject string) (*pb.GetGrantResponse, error) {
	request := &pb.GetGrantRequest{Context: c.reading(), Cell: c.cell, Subject: subject}
	answer := new(pb.GetGrantResponse)
	return reply(answer, c.call(ctx, pb.AccessService_GetGrant_FullMethodName, request, answer))
}

// SetGrant replaces the grant of its subject as a whole. Without roles and rights it is taken away.
func (c *Client) SetGrant(ctx context.Context, grant *Grant, options ...ChangeOption) (*Grant, error) {
	change := changeOf(options)
	request := &pb.SetGrantRequest{
		Context: c.changing(change), Cell: c.cell, Grant: grant, ExpectedRevision: change.expectedRevision,
	}
	answer := new(pb.SetGrantResponse)
	err := c.call(ctx, pb.AccessService_SetGrant_FullMethodName, request, answer)
	return answer.GetGrant(), err
}

// AccessQuestion asks whether somebody may do something.
type AccessQuestion struct {
	// Action is the name of a right, such as read, or of a method of the API, such as StopJob.
	Action string
	// Owner is the user whose jobs it concerns. Empty: of everybody.
	Owner string
	// Subject is user/NAME or group/NAME. Empty: the caller.
	Subject string
	// Groups are those of that user.
	Groups []string
}

// CheckAccess answers whether the caller, or another subject, may do something, and why.
func (c *Client) CheckAccess(ctx context.Context, question AccessQuestion) (*pb.CheckAccessResponse, error) {
	request := &pb.CheckAccessRequest{
		Context: c.reading(), Cell: c.cell, Action: question.Action, Owner: question.Owner, Subject: question.Subject,
		Groups: question.Groups,
	}
	answer := new(pb.CheckAccessResponse)
	return reply(answer, c.call(ctx, pb.AccessService_CheckAccess_FullMethodName, request, answer))
}

// Holders returns the users and groups that may do an action, for the work of an owner. Empty: of everybody.
func (c *Client) Holders(ctx context.Context, action, owner string) (*pb.ListHoldersResponse, error) {
	request := &pb.ListHoldersRequest{Context: c.reading(), Cell: c.cell, Action: action, Owner: owner}
	answer := new(pb.ListHoldersResponse)
	return reply(answer, c.call(ctx, pb.AccessService_ListHolders_FullMethodName, request, answer))
}
