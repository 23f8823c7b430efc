package main

import (
	"context"
	"fmt"
	"time"

	borough "example.invalid/borough/services/client-go"
	pb "example.invalid/borough/services/client-go/boroughpb"
)

// join makes a call about the join token of a node, and compares what it says.
func (r *run) join(s *step) error {
	ctx, client := context.Background(), r.present()
	var join *borough.NodeJoin
	var err error
	switch s.Call {
	case "issue":
		options := borough.JoinTokenOptions{Lasts: time.Duration(s.Lasts) * time.Millisecond}
		var issued *borough.IssuedJoinToken
		if issued, err = client.IssueJoinToken(ctx, s.Node, options); err == nil {
			join = issued.Join
		}
	case "list":
		for row, failure := range client.JoinTokens(ctx) {
			if failure != nil {
				return failure
			}
			if row.GetNode() == s.Node {
				join = row
			}
		}
	case "revoke":
		join, err = client.RevokeJoinToken(ctx, s.Node)
	case "end":
		join, err = client.RevokeNodeIdentity(ctx, s.Node)
	default:
		return fmt.Errorf("call: %q is not known", s.Call)
	}
	if err != nil || s.Expect == nil || s.Expect.Open == nil {
		return err
	}
	if open := join.GetToken() != nil && join.GetToken().GetUsedMs() == 0; open != *s.Expect.Open {
		return fmt.Errorf("open is %t", open)
	}
	return nil
}

// keys makes a call about the keys of identities, and compares what it says.
func (r *run) keys(s *step) error {
	ctx, client := context.Background(), r.present()
	var keys []*borough.IdentityKey
	var err error
	switch s.Call {
	case "list":
		keys, err = client.IdentityKeys(ctx)
	case "rotate":
		keys, err = client.RotateIdentityKeys(ctx, time.Duration(s.Ahead)*time.Millisecond)
	case "withdraw":
		keys, err = client.WithdrawIdentityKeys(ctx)
	default:
		return fmt.Errorf("call: %q is not known", s.Call)
	}
	if err != nil || s.Expect == nil {
		return err
	}
	next := false
	for _, key := range keys {
		next = next || key.GetUse() == pb.IdentityKeyUse_IDENTITY_KEY_USE_NEXT
	}
	if want := s.Expect.Next; want != nil && next != *want {
		return fmt.Errorf("next is %t", next)
	}
	if want := s.Expect.Count; want != nil && len(keys) != int(*want) {
		return fmt.Errorf("%d keys and not %d", len(keys), *want)
	}
	return nil
}
