package borough

import (
	"strings"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Reasons that the library itself reads.
const (
	reasonNodeSilent       = "NODE_SILENT"
	reasonNodeLost         = "NODE_LOST"
	reasonAgentAway        = "AGENT_AWAY"
	reasonOverloaded       = "OVERLOADED"
	reasonFederationSilent = "FEDERATION_SILENT"
)

// What the HTTP port of a gateway answers to a call of gRPC.
const grpcOnHTTPPort = "this port answers HTTP; for gRPC, use the other address"

// What answers instead of a gateway.
const (
	isHTTPPort   = "the HTTP port of a gateway"
	isNoGateway  = "no gateway, but a web server or another service"
	isNoTLSThere = "no gateway that encrypts"
)

// refusal decodes a status with its details. Details of unknown types are left out.
func refusal(st *status.Status) *RefusedError {
	refused := &RefusedError{Code: st.Code(), Message: st.Message(), status: st}
	for _, detail := range st.Details() {
		switch detail := detail.(type) {
		case *errdetails.ErrorInfo:
			refused.Reason, refused.Metadata = detail.GetReason(), detail.GetMetadata()
		case *errdetails.BadRequest:
			for _, violation := range detail.GetFieldViolations() {
				refused.Fields = append(refused.Fields, FieldViolation{violation.GetField(), violation.GetDescription()})
			}
		case *errdetails.PreconditionFailure:
			for _, violation := range detail.GetViolations() {
				refused.Preconditions = append(refused.Preconditions,
					Precondition{violation.GetType(), violation.GetSubject(), violation.GetDescription()})
			}
		case *errdetails.RetryInfo:
			refused.RetryAfter = max(0, detail.GetRetryDelay().AsDuration())
		}
	}
	return refused
}

// A verdict says what becomes of a failed try.
type verdict int

const (
	// verdictFinal: another try gives the same.
	verdictFinal verdict = iota
	// verdictRepeat: the gateway is unavailable, or the connection broke.
	verdictRepeat
	// verdictBusy: the gateway answers, and asks to come back later.
	verdictBusy
)

// verdictOf decides whether a call that ended with this status is repeated. Every call is safe to repeat, since a change
// carries its request id.
func verdictOf(refused *RefusedError) verdict {
	switch refused.Code {
	case codes.Unavailable:
		// The gateway itself has asked a silent node, or a silent federation, often enough.
		if refused.nodeSilent() || refused.Reason == reasonFederationSilent {
			return verdictFinal
		}
		return verdictRepeat
	case codes.DeadlineExceeded:
		// The time limit of the store. The client counts its own deadline itself.
		return verdictRepeat
	case codes.ResourceExhausted:
		if refused.Reason == reasonOverloaded && refused.RetryAfter > 0 {
			return verdictBusy
		}
	case codes.Internal, codes.Canceled, codes.Unknown:
		if brokenByTransport(refused) {
			return verdictRepeat
		}
	}
	return verdictFinal
}

// brokenByTransport reports whether grpc itself made a status because the connection broke. It names no gateway.
func brokenByTransport(refused *RefusedError) bool {
	if len(refused.status.Proto().GetDetails()) > 0 {
		return false
	}
	for _, begin := range []string{
		"stream terminated by RST_STREAM",
		"server closed the stream without sending trailers",
		"unexpected EOF",
		"connection error: ",
	} {
		if strings.HasPrefix(refused.Message, begin) {
			return true
		}
	}
	return false
}

// foreignAnswer says what answers instead of the gRPC port of a gateway; empty: this may be a gateway.
func foreignAnswer(refused *RefusedError) string {
	message := refused.Message
	switch {
	case strings.Contains(message, grpcOnHTTPPort):
		return isHTTPPort
	case strings.HasPrefix(message, "unexpected HTTP status code"),
		strings.Contains(message, "malformed header: missing HTTP content-type"),
		strings.Contains(message, "received unexpected content-type"),
		strings.Contains(message, "malformed header: missing HTTP status"):
		return isNoGateway
	case strings.Contains(message, "first record does not look like a TLS handshake"):
		return isNoTLSThere
	}
	return ""
}

// gatewayFailed reports whether a failed try says something of the gateway, not of a node behind it.
func gatewayFailed(refused *RefusedError) bool {
	return verdictOf(refused) == verdictRepeat && !refused.AgentAway()
}

// asRefusal decodes the error of a call of grpc.
func asRefusal(err error) *RefusedError {
	return refusal(status.Convert(err))
}
