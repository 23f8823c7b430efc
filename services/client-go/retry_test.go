package borough

import (
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"
)

func statusOf(t *testing.T, code codes.Code, message string, details ...protoadapt.MessageV1) *status.Status {
	t.Helper()
	st, err := status.New(code, message).WithDetails(details...)
	if err != nil {
		t.Fatal(err)
	}
	return st
}

func reasonOf(reason string) *errdetails.ErrorInfo {
	return &errdetails.ErrorInfo{Reason: reason, Domain: "borough", Metadata: map[string]string{"node": "n1"}}
}

func retryIn(delay time.Duration) *errdetails.RetryInfo {
	return &errdetails.RetryInfo{RetryDelay: durationpb.New(delay)}
}

func TestPausesGrowStayWithinBoundsAndDiffer(t *testing.T) {
	policy := RetryPolicy{}.withDefaults()
	for attempts := range 100 {
		for _, random := range []float64{0, 0.25, 0.999} {
			pause := policy.pause(attempts, random)
			if pause < policy.BackoffInitial/2 || pause > policy.BackoffMax {
				t.Errorf("after %d attempts, random %v: %s", attempts, random, pause)
			}
		}
	}
	if policy.pause(3, 0) <= policy.pause(1, 0) {
		t.Error("pauses do not grow")
	}
	if policy.pause(5, 0) == policy.pause(5, 0.7) {
		t.Error("pauses do not differ")
	}
}

func TestWhatIsRepeated(t *testing.T) {
	for _, test := range []struct {
		name   string
		status *status.Status
		want   verdict
	}{
		{"unavailable", status.New(codes.Unavailable, "later"), verdictRepeat},
		{"an agent that lost its connection", statusOf(t, codes.Unavailable, "away", reasonOf(reasonAgentAway)), verdictRepeat},
		{"a silent node", statusOf(t, codes.Unavailable, "silent", reasonOf(reasonNodeSilent)), verdictFinal},
		{"a silent federation", statusOf(t, codes.Unavailable, "silent", reasonOf(reasonFederationSilent)), verdictFinal},
		{"a lost node", statusOf(t, codes.Unavailable, "lost", reasonOf(reasonNodeLost)), verdictFinal},
		{"the time limit of the store", status.New(codes.DeadlineExceeded, "store"), verdictRepeat},
		{"an overload", statusOf(t, codes.ResourceExhausted, "busy", reasonOf(reasonOverloaded), retryIn(time.Second)), verdictBusy},
		{"a quota", statusOf(t, codes.ResourceExhausted, "quota", reasonOf("QUOTA"), retryIn(time.Second)), verdictFinal},
		{"an overload without a time", statusOf(t, codes.ResourceExhausted, "busy", reasonOf(reasonOverloaded)), verdictFinal},
		{"a reset stream", status.New(codes.Internal, "stream terminated by RST_STREAM with error code: INTERNAL_ERROR"), verdictRepeat},
		{"an answer without an end", status.New(codes.Internal, "server closed the stream without sending trailers"), verdictRepeat},
		{"an internal error of a gateway", statusOf(t, codes.Internal, "unexpected EOF in a row", reasonOf("BROKEN")), verdictFinal},
		{"internal", status.New(codes.Internal, "no"), verdictFinal},
		{"unknown", status.New(codes.Unknown, "no"), verdictFinal},
		{"not found", status.New(codes.NotFound, "no"), verdictFinal},
		{"precondition", status.New(codes.FailedPrecondition, "no"), verdictFinal},
		{"aborted", status.New(codes.Aborted, "no"), verdictFinal},
		{"a code of a later version", status.New(codes.Code(99), "no"), verdictFinal},
	} {
		if got := verdictOf(refusal(test.status)); got != test.want {
			t.Errorf("%s: %d and not %d", test.name, got, test.want)
		}
	}
}

func TestOnlyAGatewayThatFailedIsLeft(t *testing.T) {
	if gatewayFailed(refusal(statusOf(t, codes.Unavailable, "away", reasonOf(reasonAgentAway)))) {
		t.Error("an agent is away, and not the gateway")
	}
	if !gatewayFailed(refusal(status.New(codes.Unavailable, "down"))) {
		t.Error("the gateway is down")
	}
}

func TestARefusalHasAllDetails(t *testing.T) {
	refused := refusal(statusOf(t, codes.InvalidArgument, "count: 7",
		reasonOf("FIELD_REFUSED"),
		&errdetails.BadRequest{FieldViolations: []*errdetails.BadRequest_FieldViolation{{Field: "count", Description: "count: 7"}}},
		&errdetails.PreconditionFailure{Violations: []*errdetails.PreconditionFailure_Violation{{Type: "T", Subject: "s", Description: "d"}}},
		retryIn(3*time.Second),
		// A type that this version does not read.
		&errdetails.Help{},
	))
	if refused.Code != codes.InvalidArgument || refused.Reason != "FIELD_REFUSED" || refused.Metadata["node"] != "n1" {
		t.Errorf("%+v", refused)
	}
	if len(refused.Fields) != 1 || refused.Fields[0] != (FieldViolation{"count", "count: 7"}) {
		t.Errorf("fields %+v", refused.Fields)
	}
	if len(refused.Preconditions) != 1 || refused.Preconditions[0] != (Precondition{"T", "s", "d"}) {
		t.Errorf("preconditions %+v", refused.Preconditions)
	}
	if refused.RetryAfter != 3*time.Second || refused.Error() != "count: 7" {
		t.Errorf("%s, %s", refused.RetryAfter, refused)
	}
	if status.Code(refused) != codes.InvalidArgument {
		t.Error("the package status does not read it")
	}
}

func TestARefusalWithoutDetailsOrTextSaysItsCode(t *testing.T) {
	refused := refusal(status.New(codes.NotFound, ""))
	if refused.Error() != "the gateway refuses: NotFound" || refused.Reason != "" || refused.RetryAfter != 0 {
		t.Errorf("%s %+v", refused, refused)
	}
}

func TestAnotherServerIsRecognized(t *testing.T) {
	for _, test := range []struct {
		message string
		want    string
	}{
		{grpcOnHTTPPort + " that the gateway prints when it starts", isHTTPPort},
		{"unexpected HTTP status code received from server: 404 (Not Found)", isNoGateway},
		{`malformed header: missing HTTP content-type`, isNoGateway},
		{`connection error: desc = "transport: authentication handshake failed: tls: first record does not look like a TLS handshake"`, isNoTLSThere},
		{"there is no job", ""},
	} {
		if got := foreignAnswer(refusal(status.New(codes.Unknown, test.message))); got != test.want {
			t.Errorf("%q: %q and not %q", test.message, got, test.want)
		}
	}
}

func TestAServerOfHTTP2IsRecognizedByItsFirstBytes(t *testing.T) {
	for _, test := range []struct {
		head           []byte
		http2, decided bool
	}{
		{nil, false, false},
		{[]byte{0, 0, 12}, false, false},
		{[]byte{0, 0, 12, http2Settings}, true, true},
		{[]byte{0, 0, 12, 7}, false, true},
		{[]byte("H"), false, true},
		{[]byte("SSH-2.0"), false, true},
	} {
		if http2, decided := speaksHTTP2(test.head); http2 != test.http2 || decided != test.decided {
			t.Errorf("%q: %t, %t", test.head, http2, decided)
		}
	}
}
