package borough

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/protobuf/proto"
)

// tries are the failed tries of one call.
type tries struct {
	method string
	begun  time.Time
	limit  time.Duration
	count  int
	// Gateways that have failed in this call.
	gateways map[int]bool
	// sent: some try was on its way to a gateway.
	sent bool
	// silent: some try had no answer.
	silent bool
	last   *RefusedError
	// busy is the last answer of a gateway that had too much to do.
	busy *RefusedError
	// foreign is what answered instead of a gateway, in any of the tries.
	foreign string
}

// call tries a method on one gateway after the other until it is answered, refused, or out of time.
func (c *Client) call(ctx context.Context, method string, request, answer proto.Message) error {
	return c.callWithin(ctx, c.config().Deadline, method, request, answer)
}

// callWithin is the same with its own deadline.
func (c *Client) callWithin(
	ctx context.Context, limit time.Duration, method string, request, answer proto.Message,
) error {
	if err := c.checkScope(method); err != nil {
		return err
	}
	if c.dryRun && !isRead(path.Base(method)) {
		return c.dryRunOf(ctx, limit, method, request)
	}
	made := tries{method: path.Base(method), begun: time.Now(), limit: limit, gateways: map[int]bool{}}
	if end, ok := ctx.Deadline(); ok {
		made.limit = min(limit, time.Until(end))
	}
	caller := ctx
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for {
		refused := c.try(ctx, &made, method, request, answer)
		if refused == nil {
			return nil
		}
		// An answer that came in time counts also if the time is over now.
		if ctx.Err() != nil && (refused.Code == codes.DeadlineExceeded || refused.Code == codes.Canceled) {
			return c.overdue(caller, &made)
		}
		pause, err := c.failed(&made, refused)
		if err != nil {
			return err
		}
		c.log().DebugContext(ctx, "a call failed; the client repeats it", "method", made.method,
			"attempts", made.count, "pause", pause, "status", refused)
		if !sleep(ctx, pause) {
			return c.overdue(caller, &made)
		}
	}
}

// try makes one try. A gateway without an answer gets only its share of the time, so that others have theirs.
func (c *Client) try(
	ctx context.Context, made *tries, method string, request, answer proto.Message,
) *RefusedError {
	number, untried := c.shared.pool.choose(made.gateways)
	untried = min(untried, max(1, c.config().Retry.AttemptsMax-made.count))
	end, _ := ctx.Deadline()
	ctx, cancel := context.WithTimeout(c.authorized(ctx), time.Until(end)/time.Duration(untried))
	defer cancel()
	var reached peer.Peer
	err := c.shared.pool.gateways[number].conn.Invoke(ctx, method, request, answer, grpc.Peer(&reached))
	if err == nil {
		c.shared.pool.answered(number)
		return nil
	}
	made.sent = made.sent || reached.Addr != nil
	refused := asRefusal(err)
	// A gateway may end a late call a moment before the clock here runs out. A time limit of the store has a reason.
	silent := refused.Code == codes.DeadlineExceeded && (ctx.Err() != nil || refused.Reason == "")
	made.silent = made.silent || silent
	if silent || gatewayFailed(refused) {
		made.gateways[number] = true
		c.shared.pool.failed(number)
	} else {
		c.shared.pool.answered(number)
	}
	return refused
}

// failed decides whether another try follows, and after which pause. Otherwise it returns the error of the call.
func (c *Client) failed(made *tries, refused *RefusedError) (time.Duration, error) {
	retry := c.config().Retry
	made.last = refused
	if made.foreign == "" {
		// Later connections may be closed at once, which says less.
		made.foreign = foreignAnswer(refused)
	}
	own := retry.pause(made.count+1, rand.Float64())
	switch verdictOf(refused) {
	case verdictBusy:
		made.busy = refused
		// Those that were refused together do not come back together.
		pause := refused.RetryAfter + retry.pause(1, rand.Float64())
		if pause >= made.limit-time.Since(made.begun) {
			return 0, refused
		}
		return pause, nil
	case verdictFinal:
		return 0, c.meaning(refused)
	}
	made.busy = nil
	made.count++
	switch {
	case made.count < retry.AttemptsMax:
		return max(own, refused.RetryAfter), nil
	case refused.AgentAway():
		// The gateway answers.
		return 0, refused
	case made.silent:
		return 0, c.deadlineError(made)
	default:
		return 0, c.unanswered(made)
	}
}

// overdue is the error of a call when its time is over, or when the caller has cancelled it.
func (c *Client) overdue(caller context.Context, made *tries) error {
	if errors.Is(caller.Err(), context.Canceled) {
		return c.ended(caller, made.method, made.begun)
	}
	switch {
	case made.busy != nil:
		return made.busy
	case made.silent || made.count == 0 || made.last.Code == codes.Canceled:
		// The last is also a late call that its gateway cut off.
		return c.deadlineError(made)
	default:
		// What the last try came to says more than that the time ran out.
		return c.unanswered(made)
	}
}

// ended is the error of a call whose context the caller has ended.
func (c *Client) ended(ctx context.Context, method string, begun time.Time) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return c.deadlineError(&tries{method: method, limit: time.Since(begun)})
	}
	return fmt.Errorf("%s: %w", method, context.Canceled)
}

func (c *Client) deadlineError(made *tries) error {
	return &DeadlineError{
		Method: made.method, Deadline: made.limit, Gateways: c.Gateways(),
		MayHaveChanged: !isRead(made.method),
	}
}

// unanswered is the error of a call that no gateway answered.
func (c *Client) unanswered(made *tries) error {
	if made.foreign == "" && c.shared.pool.foreign() {
		// The connection may have ended before the call was on its way.
		made.foreign = isNoGateway
	}
	if made.foreign != "" {
		return &NotGatewayError{Gateways: c.Gateways(), What: made.foreign}
	}
	unreachable := &UnreachableError{
		Gateways: c.Gateways(), Attempts: made.count, MayHaveChanged: made.sent && !isRead(made.method),
	}
	if made.last != nil {
		unreachable.Err = made.last
	}
	return unreachable
}

// meaning is the error of a refusal.
func (c *Client) meaning(refused *RefusedError) error {
	if c.shared.pool.isClosed() {
		return ErrClosed
	}
	if what := foreignAnswer(refused); what != "" {
		return &NotGatewayError{Gateways: c.Gateways(), What: what}
	}
	if refused.Code == codes.Unauthenticated {
		return &TokenError{Gateways: c.Gateways(), Source: c.shared.token.named(), Refusal: refused}
	}
	return refused
}

// meaningOnce is the error of a stream that is not opened again.
func (c *Client) meaningOnce(method string, refused *RefusedError) error {
	if verdictOf(refused) == verdictRepeat {
		return c.unanswered(&tries{method: method, count: 1, sent: true, last: refused})
	}
	return c.meaning(refused)
}

// isRead reports whether a call of this method changes nothing.
func isRead(method string) bool {
	for _, verb := range []string{"Get", "List", "Plan", "Explain", "Read", "Watch", "Check", "DryRun"} {
		if strings.HasPrefix(method, verb) {
			return true
		}
	}
	return false
}

// reply is an answer, or nil with an error.
func reply[A any](answer *A, err error) (*A, error) {
	if err != nil {
		return nil, err
	}
	return answer, nil
}
