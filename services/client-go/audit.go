package borough

import (
	"context"
	"iter"

	pb "example.invalid/borough/services/client-go/boroughpb"
)

// Audit iterates over the calls that changed something or were refused, the newest first. Nil chooses all of them. An
// error is the last item.
func (c *Client) Audit(ctx context.Context, filter *AuditFilter) iter.Seq2[*AuditedCall, error] {
	return pages(0, func(page *pb.PageRequest) ([]*AuditedCall, string, error) {
		request := &pb.ListAuditRequest{Context: c.reading(), Cell: c.cell, Filter: filter, Page: page}
		answer := new(pb.ListAuditResponse)
		err := c.call(ctx, pb.AuditService_ListAudit_FullMethodName, request, answer)
		return answer.GetCalls(), answer.GetNextPage(), err
	})
}
