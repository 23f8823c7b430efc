package borough

import (
	"context"
	"iter"
	"time"

	"google.golang.org/protobuf/proto"

	pb "example.invalid/borough/services/client-go/boroughpb"
)

// The gateway watches the silence of an agent before it answers.
const silenceDeadline = 60 * time.Second

// NodeFilter chooses nodes of a list. The zero value chooses all.
type NodeFilter struct {
	// States and Conditions list only nodes in one of these.
	States     []pb.NodeState
	Conditions []pb.NodeCondition
	// Selector lists only nodes with labels and attributes that meet all of these conditions.
	Selector []*LabelMatch
	// PageSize is the number of rows that are read at once; 0: as many as the gateway gives.
	PageSize uint32
}

// Nodes iterates over the nodes of the cell, by name. An error is the last item.
func (c *Client) Nodes(ctx context.Context, filter NodeFilter) iter.Seq2[*Node, error] {
	return pages(filter.PageSize, func(page *pb.PageRequest) ([]*Node, string, error) {
		request := &pb.ListNodesRequest{
			Context: c.reading(), Cell: c.cell, Page: page, Selector: filter.Selector, States: filter.States,
			Conditions: filter.Conditions,
		}
		answer := new(pb.ListNodesResponse)
		err := c.call(ctx, pb.NodeService_ListNodes_FullMethodName, request, answer)
		return answer.GetNodes(), answer.GetNextPage(), err
	})
}

// nodeAnswer is an answer with the node that a call read or changed.
type nodeAnswer interface {
	proto.Message
	GetNode() *Node
}

func (c *Client) node(
	ctx context.Context, method string, request proto.Message, answer nodeAnswer,
) (*Node, error) {
	return c.nodeWithin(ctx, c.config().Deadline, method, request, answer)
}

func (c *Client) nodeWithin(
	ctx context.Context, limit time.Duration, method string, request proto.Message, answer nodeAnswer,
) (*Node, error) {
	err := c.callWithin(ctx, limit, method, request, answer)
	if err == nil && answer.GetNode() == nil {
		err = incompleteError(method, "node")
	}
	return answer.GetNode(), err
}

// GetNode returns a node.
func (c *Client) GetNode(ctx context.Context, name string) (*Node, error) {
	request := &pb.GetNodeRequest{Context: c.reading(), Cell: c.cell, Name: name}
	return c.node(ctx, pb.NodeService_GetNode_FullMethodName, request, new(pb.GetNodeResponse))
}

// CordonNode places nothing on a node after it returns. Its tasks stay.
func (c *Client) CordonNode(ctx context.Context, name string, options ...ChangeOption) (*Node, error) {
	request := &pb.CordonNodeRequest{Context: c.changing(changeOf(options)), Cell: c.cell, Name: name}
	return c.node(ctx, pb.NodeService_CordonNode_FullMethodName, request, new(pb.CordonNodeResponse))
}

// UncordonNode lets a node take tasks again. It ends a drain.
func (c *Client) UncordonNode(ctx context.Context, name string, options ...ChangeOption) (*Node, error) {
	request := &pb.UncordonNodeRequest{Context: c.changing(changeOf(options)), Cell: c.cell, Name: name}
	return c.node(ctx, pb.NodeService_UncordonNode_FullMethodName, request, new(pb.UncordonNodeResponse))
}

// DrainMode says how a drain treats tasks without room elsewhere.
type DrainMode bool

const (
	// DrainWait lets them run until they have room.
	DrainWait DrainMode = false
	// DrainForce stops them. They wait for a node.
	DrainForce DrainMode = true
)

// DrainNode cordons a node and moves its tasks to other nodes. It returns when that is committed.
func (c *Client) DrainNode(ctx context.Context, name string, mode DrainMode, options ...ChangeOption) (*Node, error) {
	request := &pb.DrainNodeRequest{
		Context: c.changing(changeOf(options)), Cell: c.cell, Name: name, Force: bool(mode),
	}
	return c.node(ctx, pb.NodeService_DrainNode_FullMethodName, request, new(pb.DrainNodeResponse))
}

// TaintNode sets taints. A taint of the same key and effect gets the new value.
func (c *Client) TaintNode(ctx context.Context, name string, taints []*Taint, options ...ChangeOption) (*Node, error) {
	request := &pb.TaintNodeRequest{
		Context: c.changing(changeOf(options)), Cell: c.cell, Name: name, Taints: taints,
	}
	return c.node(ctx, pb.NodeService_TaintNode_FullMethodName, request, new(pb.TaintNodeResponse))
}

// UntaintNode removes taints. A missing one is no error.
func (c *Client) UntaintNode(
	ctx context.Context, name string, taints []*TaintMatch, options ...ChangeOption,
) (*Node, error) {
	request := &pb.UntaintNodeRequest{
		Context: c.changing(changeOf(options)), Cell: c.cell, Name: name, Taints: taints,
	}
	return c.node(ctx, pb.NodeService_UntaintNode_FullMethodName, request, new(pb.UntaintNodeResponse))
}

// LabelNode sets and removes labels of a node. A label to remove that is missing is no error.
func (c *Client) LabelNode(
	ctx context.Context, name string, set map[string]string, remove []string, options ...ChangeOption,
) (*Node, error) {
	request := &pb.LabelNodeRequest{
		Context: c.changing(changeOf(options)), Cell: c.cell, Name: name, Labels: set, Remove: remove,
	}
	return c.node(ctx, pb.NodeService_LabelNode_FullMethodName, request, new(pb.LabelNodeResponse))
}

// AdmitNode gives a node to the agent with this identity (DURABLE@MACHINE), because the machine of the recorded one is
// gone for good. The gateway first watches for reports of the recorded agent, which takes up to a minute.
func (c *Client) AdmitNode(ctx context.Context, name, identity string, options ...ChangeOption) (*Node, error) {
	request := &pb.AdmitNodeRequest{
		Context: c.changing(changeOf(options)), Cell: c.cell, Name: name, Identity: identity,
	}
	return c.nodeWithin(ctx, silenceDeadline, pb.NodeService_AdmitNode_FullMethodName, request, new(pb.AdmitNodeResponse))
}

// RemoveNode forgets a node that is gone. The gateway first watches for reports of its agent, which takes up to a
// minute. It refuses with FAILED_PRECONDITION while the node could be given tasks, has some, or its agent reports.
func (c *Client) RemoveNode(ctx context.Context, name string, options ...ChangeOption) error {
	request := &pb.RemoveNodeRequest{Context: c.changing(changeOf(options)), Cell: c.cell, Name: name}
	answer := new(pb.RemoveNodeResponse)
	return c.callWithin(ctx, silenceDeadline, pb.NodeService_RemoveNode_FullMethodName, request, answer)
}
