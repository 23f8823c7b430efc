package borough

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"iter"
	"time"

	pb "example.invalid/borough/services/client-go/boroughpb"
)

// JoinTokenOptions are those of [Client.IssueJoinToken]. The zero value makes a token that counts for an hour.
type JoinTokenOptions struct {
	// Token is borough-join- with 64 hexadecimal digits behind it, for callers that store what they intend. Empty: a new
	// one.
	Token Secret
	// Lasts is for how long the token counts, from a minute to 7 days; 0: an hour.
	Lasts time.Duration
	// IdentityLasts is for how long the identity of the node counts after each renewal; 0: 7 days.
	IdentityLasts time.Duration
}

// IssuedJoinToken is a new join token.
type IssuedJoinToken struct {
	// Token is what the agent reads from the file of --join-token-file. The cell has its digest only.
	Token Secret
	// Join is what the node name has now.
	Join *NodeJoin
}

// NewJoinToken makes the text of a join token, from the randomness of the system.
func NewJoinToken() Secret {
	var bits [32]byte
	// It never returns an error.
	_, _ = rand.Read(bits[:])
	return Secret("borough-join-" + hex.EncodeToString(bits[:]))
}

// IssueJoinToken makes the join token of a node instead of the one that it had. The agent of that node joins by it,
// once.
func (c *Client) IssueJoinToken(
	ctx context.Context, node string, token JoinTokenOptions, options ...ChangeOption,
) (*IssuedJoinToken, error) {
	if token.Token == "" {
		token.Token = NewJoinToken()
	}
	if token.Lasts == 0 {
		token.Lasts = time.Hour
	}
	lasts, err := wholeMillis("Lasts", token.Lasts)
	if err != nil {
		return nil, err
	}
	identity, err := wholeMillis("IdentityLasts", token.IdentityLasts)
	if err != nil {
		return nil, err
	}
	digest := sha256.Sum256([]byte(token.Token))
	request := &pb.CreateJoinTokenRequest{
		Context: c.changing(changeOf(options)), Cell: c.cell, Name: node, TokenDigest: digest[:], LastsMs: lasts,
		IdentityLastsMs: identity,
	}
	answer := new(pb.CreateJoinTokenResponse)
	if err := c.call(ctx, pb.NodeService_CreateJoinToken_FullMethodName, request, answer); err != nil {
		return nil, err
	}
	return &IssuedJoinToken{Token: token.Token, Join: answer.GetJoin()}, nil
}

// JoinTokens iterates over the join tokens and identities of nodes, by name and without secrets. An error is the last
// item.
func (c *Client) JoinTokens(ctx context.Context) iter.Seq2[*NodeJoin, error] {
	return pages(0, func(page *pb.PageRequest) ([]*NodeJoin, string, error) {
		request := &pb.ListJoinTokensRequest{Context: c.reading(), Cell: c.cell, Page: page}
		answer := new(pb.ListJoinTokensResponse)
		err := c.call(ctx, pb.NodeService_ListJoinTokens_FullMethodName, request, answer)
		return answer.GetJoins(), answer.GetNextPage(), err
	})
}

// RevokeJoinToken takes back a token that no agent has used. It returns what the node name had.
func (c *Client) RevokeJoinToken(ctx context.Context, node string, options ...ChangeOption) (*NodeJoin, error) {
	return c.revokeJoin(ctx, &pb.RevokeJoinTokenRequest{Name: node}, options)
}

// RevokeNodeIdentity ends the identity of a node with its sessions, and takes back its token. It returns what the node
// name had.
func (c *Client) RevokeNodeIdentity(ctx context.Context, node string, options ...ChangeOption) (*NodeJoin, error) {
	return c.revokeJoin(ctx, &pb.RevokeJoinTokenRequest{Name: node, Identity: true}, options)
}

func (c *Client) revokeJoin(
	ctx context.Context, request *pb.RevokeJoinTokenRequest, options []ChangeOption,
) (*NodeJoin, error) {
	request.Context, request.Cell = c.changing(changeOf(options)), c.cell
	answer := new(pb.RevokeJoinTokenResponse)
	err := c.call(ctx, pb.NodeService_RevokeJoinToken_FullMethodName, request, answer)
	return answer.GetJoin(), err
}

// IdentityKeys returns the keys that sign the identities of tasks: their public halves, by number.
func (c *Client) IdentityKeys(ctx context.Context) ([]*IdentityKey, error) {
	request := &pb.ListIdentityKeysRequest{Context: c.reading(), Cell: c.cell}
	answer := new(pb.ListIdentityKeysResponse)
	err := c.call(ctx, pb.AccessService_ListIdentityKeys_FullMethodName, request, answer)
	return answer.GetKeys(), err
}

// RotateIdentityKeys makes another key before it is due. It is published at once, and signs after the time ahead: up
// to 7 days, in which those who check identities learn of it. It returns the keys after it.
func (c *Client) RotateIdentityKeys(
	ctx context.Context, ahead time.Duration, options ...ChangeOption,
) ([]*IdentityKey, error) {
	millis, err := wholeMillis("ahead", ahead)
	if err != nil {
		return nil, err
	}
	return c.rotateKeys(ctx, &pb.RotateIdentityKeysRequest{AheadMs: millis}, options)
}

// WithdrawIdentityKeys makes another key that signs at once, and withdraws all keys before it: no token of them counts
// any more. It returns the keys after it.
func (c *Client) WithdrawIdentityKeys(ctx context.Context, options ...ChangeOption) ([]*IdentityKey, error) {
	return c.rotateKeys(ctx, &pb.RotateIdentityKeysRequest{Withdraw: true}, options)
}

func (c *Client) rotateKeys(
	ctx context.Context, request *pb.RotateIdentityKeysRequest, options []ChangeOption,
) ([]*IdentityKey, error) {
	request.Context, request.Cell = c.changing(changeOf(options)), c.cell
	answer := new(pb.RotateIdentityKeysResponse)
	err := c.call(ctx, pb.AccessService_RotateIdentityKeys_FullMethodName, request, answer)
	return answer.GetKeys(), err
}

// wholeMillis is a time of a call in milliseconds.
func wholeMillis(field string, value time.Duration) (uint64, error) {
	if value < 0 || value%time.Millisecond != 0 {
		accepted := "a whole number of milliseconds, 0 or more"
		return 0, &InvalidError{Fields: []InvalidField{{field, value.String(), accepted}}}
	}
	return uint64(value / time.Millisecond), nil
}
