package borough

import (
	"context"
	"iter"

	pb "example.invalid/borough/services/client-go/boroughpb"
)

// Cells returns every cell that the gateway serves, with the measured loads of their nodes.
func (c *Client) Cells(ctx context.Context) ([]*Cell, error) {
	request := &pb.ListCellsRequest{Context: c.reading(), Load: true}
	answer := new(pb.ListCellsResponse)
	err := c.call(ctx, pb.CellService_ListCells_FullMethodName, request, answer)
	return answer.GetCells(), err
}

// GetCell returns the cell of the client, and the cursor from which a watch misses nothing.
func (c *Client) GetCell(ctx context.Context) (*Cell, *Cursor, error) {
	request := &pb.GetCellRequest{Context: c.reading(), Name: c.cell}
	answer := new(pb.GetCellResponse)
	if err := c.call(ctx, pb.CellService_GetCell_FullMethodName, request, answer); err != nil {
		return nil, nil, err
	}
	if answer.GetCell() == nil || answer.GetCursor() == nil {
		return nil, nil, incompleteError("GetCell", "cell or cursor")
	}
	return answer.GetCell(), answer.GetCursor(), nil
}

// UpdateCell changes settings of the cell of the client. Absent settings stay.
func (c *Client) UpdateCell(ctx context.Context, settings *CellSettings, options ...ChangeOption) (*Cell, error) {
	change := changeOf(options)
	request := &pb.UpdateCellRequest{
		Context: c.changing(change), Name: c.cell, Settings: settings, ExpectedRevision: change.expectedRevision,
	}
	answer := new(pb.UpdateCellResponse)
	err := c.call(ctx, pb.CellService_UpdateCell_FullMethodName, request, answer)
	return answer.GetCell(), err
}

// EndpointFilter chooses endpoints of a list. The zero value chooses all of the cell.
type EndpointFilter struct {
	// User owns the jobs. Empty: every user; with Job, the user of the client.
	User string
	// Job lists only the endpoints of this job.
	Job string
	// Selector lists only endpoints of jobs with labels that meet all of these conditions.
	Selector []*LabelMatch
	// PageSize is the number of rows that are read at once; 0: as many as the gateway gives.
	PageSize uint32
}

// Endpoints iterates over the endpoints of the cell. An error is the last item. [Client.WatchEndpoints] follows them.
func (c *Client) Endpoints(ctx context.Context, filter EndpointFilter) iter.Seq2[*Endpoint, error] {
	if filter.Job != "" && filter.User == "" {
		filter.User = c.user
	}
	return pages(filter.PageSize, func(page *pb.PageRequest) ([]*Endpoint, string, error) {
		request := &pb.ListEndpointsRequest{
			Context: c.reading(), Cell: c.cell, User: filter.User, Job: filter.Job, Page: page, Selector: filter.Selector,
		}
		answer := new(pb.ListEndpointsResponse)
		err := c.call(ctx, pb.NameService_ListEndpoints_FullMethodName, request, answer)
		return answer.GetEndpoints(), answer.GetNextPage(), err
	})
}

// Events returns the newest events that match, newest last; 0: 100 of them. Trimmed says whether older ones are gone.
func (c *Client) Events(
	ctx context.Context, filter *WatchFilter, limit uint32,
) (events []*Event, trimmed bool, err error) {
	request := &pb.ListEventsRequest{Context: c.reading(), Cell: c.cell, Filter: filter, Limit: limit}
	answer := new(pb.ListEventsResponse)
	err = c.call(ctx, pb.WatchService_ListEvents_FullMethodName, request, answer)
	return answer.GetEvents(), answer.GetTrimmed(), err
}
