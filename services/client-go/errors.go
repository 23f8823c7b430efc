package borough

import (
	"context"
	"fmt"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// RefusedError is the refusal of a gateway. Its message says what would be accepted.
type RefusedError struct {
	Code codes.Code
	// Message is for people.
	Message string
	// Reason is for programs, such as JOB_CHANGED; empty if none came.
	Reason string
	// Metadata has facts about the reason.
	Metadata map[string]string
	// Fields are the invalid fields of the request.
	Fields []FieldViolation
	// Preconditions are conditions that are not met.
	Preconditions []Precondition
	// RetryAfter is the time after which the gateway wants to be asked again; 0: it set none.
	RetryAfter time.Duration

	status *status.Status
}

// FieldViolation is an invalid field of a request.
type FieldViolation struct {
	// Field is its path, such as spec.task.ports[0].number.
	Field string
	// Description says what is wrong, and what would be accepted.
	Description string
}

// Precondition is a condition that is not met.
type Precondition struct {
	Type, Subject, Description string
}

func (e *RefusedError) Error() string {
	if e.Message == "" {
		return "the gateway refuses: " + e.Code.String()
	}
	return e.Message
}

// GRPCStatus lets the package status of grpc read the error.
func (e *RefusedError) GRPCStatus() *status.Status { return e.status }

// AgentAway reports whether the agent of a task's node does not answer. The metadata names the node and the task.
func (e *RefusedError) AgentAway() bool {
	return e.Reason == reasonAgentAway || e.nodeSilent()
}

// nodeSilent reports whether the gateway knows that the node of a task is silent or lost.
func (e *RefusedError) nodeSilent() bool {
	return e.Reason == reasonNodeSilent || e.Reason == reasonNodeLost
}

// TokenError says that the gateway accepts no call with this token or certificate, or without one.
type TokenError struct {
	Gateways []string
	// Source says where the token is from; empty: none was sent.
	Source  string
	Refusal *RefusedError
}

func (e *TokenError) Error() string {
	why := ""
	if e.Refusal.Reason == "TOKEN_REFUSED" || e.Refusal.Reason == "CERTIFICATE_REFUSED" {
		why = ": " + e.Refusal.Message
	}
	place := "the gateway at " + strings.Join(e.Gateways, ", ")
	switch {
	case e.Source != "":
		return place + " does not accept the token of " + e.Source + why
	case why == "":
		return place + " needs a token, and none is given"
	default:
		return place + " needs a token or another certificate" + why
	}
}

// Unwrap returns the refusal.
func (e *TokenError) Unwrap() error { return e.Refusal }

// UnreachableError says that no gateway could be reached, or that all were unavailable. The call may be repeated.
type UnreachableError struct {
	Gateways []string
	// Attempts counts the tries, over all gateways.
	Attempts int
	// MayHaveChanged says whether the call may have had its effect. If so, repeat it under the same request id.
	MayHaveChanged bool
	// Err is what the last try came to. The error does not wrap it, since no gateway has refused the call.
	Err error
}

func (e *UnreachableError) Error() string {
	text := fmt.Sprintf("no gateway answered at %s (attempts: %d)", strings.Join(e.Gateways, ", "), e.Attempts)
	if e.Err != nil {
		text += ": " + withoutLibrary(e.Err.Error())
	}
	return text
}

// withoutLibrary is the cause in an error of the connection, without the words of grpc around it.
func withoutLibrary(text string) string {
	if cause, is := strings.CutPrefix(text, `connection error: desc = "`); is {
		text = strings.TrimSuffix(cause, `"`)
	}
	for _, words := range []string{"transport: ", "Error while dialing: ", "error reading server preface: "} {
		text = strings.TrimPrefix(text, words)
	}
	return text
}

// DeadlineError says that a call was not over in time. It matches [context.DeadlineExceeded].
type DeadlineError struct {
	Method   string
	Deadline time.Duration
	Gateways []string
	// MayHaveChanged says whether the call may have had its effect. If so, check, or repeat it under the same request id.
	MayHaveChanged bool
}

func (e *DeadlineError) Error() string {
	return fmt.Sprintf("the gateway at %s did not answer within %s (%s)", strings.Join(e.Gateways, ", "),
		e.Deadline.Round(time.Millisecond), e.Method)
}

// Is reports whether target is [context.DeadlineExceeded].
func (e *DeadlineError) Is(target error) bool { return target == context.DeadlineExceeded }

// NotGatewayError says that something answers at the address that is not the gRPC port of a gateway.
type NotGatewayError struct {
	Gateways []string
	// What answers there, as far as its answer shows.
	What string
}

func (e *NotGatewayError) Error() string {
	return strings.Join(e.Gateways, ", ") + " is " + e.What + "; accepted: the gRPC port of a gateway"
}

// InvalidError lists everything that the library refuses about a job, a call or a configuration. Nothing was sent.
type InvalidError struct {
	Fields []InvalidField
}

// InvalidField is a field that the library refuses.
type InvalidField struct {
	// Field is its path, such as task.ports[0].number.
	Field string
	// Value is what it has.
	Value string
	// Accepted says what would be right.
	Accepted string
}

func (f InvalidField) String() string {
	return f.Field + ": " + f.Value + "; accepted: " + f.Accepted
}

func (e *InvalidError) Error() string {
	lines := make([]string, len(e.Fields))
	for at, field := range e.Fields {
		lines[at] = field.String()
	}
	return strings.Join(lines, "\n")
}

// invalidFields collects what is wrong.
type invalidFields []InvalidField

func (f *invalidFields) refuse(field, value, accepted string) {
	*f = append(*f, InvalidField{field, value, accepted})
}

func (f *invalidFields) require(fine bool, field, value, accepted string) {
	if !fine {
		f.refuse(field, value, accepted)
	}
}

func (f invalidFields) err() error {
	if len(f) == 0 {
		return nil
	}
	return &InvalidError{Fields: f}
}

// incompleteError says that an answer lacks a required field.
func incompleteError(method, field string) error {
	return fmt.Errorf("the answer to %s lacks %s: client and gateway are of different versions", method, field)
}
