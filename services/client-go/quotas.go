package borough

import (
	"context"
	"iter"

	pb "example.invalid/borough/services/client-go/boroughpb"
)

// Quotas iterates over the quotas that were set or have charges, by holder and band. A holder is a user, such as ann,
// or a group, such as group/shop. Without a holder: of everybody. An error is the last item.
func (c *Client) Quotas(ctx context.Context, holder string) iter.Seq2[*Quota, error] {
	return c.quotas(ctx, holder, "")
}

// QuotasBelow iterates over the quotas right below a group, such as group/shop. An error is the last item.
func (c *Client) QuotasBelow(ctx context.Context, group string) iter.Seq2[*Quota, error] {
	return c.quotas(ctx, "", group)
}

func (c *Client) quotas(ctx context.Context, holder, parent string) iter.Seq2[*Quota, error] {
	return pages(0, func(page *pb.PageRequest) ([]*Quota, string, error) {
		request := &pb.ListQuotasRequest{Context: c.reading(), Cell: c.cell, User: holder, Page: page, Parent: parent}
		answer := new(pb.ListQuotasResponse)
		err := c.call(ctx, pb.QuotaService_ListQuotas_FullMethodName, request, answer)
		return answer.GetQuotas(), answer.GetNextPage(), err
	})
}

// GetQuota returns the quota of a user or a group in a band, with its last changes. One that was never set limits nothing.
func (c *Client) GetQuota(ctx context.Context, user string, band pb.Band) (*pb.GetQuotaResponse, error) {
	request := &pb.GetQuotaRequest{Context: c.reading(), Cell: c.cell, User: user, Band: band}
	answer := new(pb.GetQuotaResponse)
	return reply(answer, c.call(ctx, pb.QuotaService_GetQuota_FullMethodName, request, answer))
}

// SetQuota replaces the limit of a user or a group in a band as a whole. Nil removes it. Admitted work beyond it stays.
func (c *Client) SetQuota(
	ctx context.Context, user string, band pb.Band, limit *QuotaLimit, options ...ChangeOption,
) (*Quota, error) {
	change := changeOf(options)
	request := &pb.SetQuotaRequest{
		Context: c.changing(change), Cell: c.cell, User: user, Band: band, Limit: limit,
		ExpectedRevision: change.expectedRevision,
	}
	answer := new(pb.SetQuotaResponse)
	err := c.call(ctx, pb.QuotaService_SetQuota_FullMethodName, request, answer)
	return answer.GetQuota(), err
}
