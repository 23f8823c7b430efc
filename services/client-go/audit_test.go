package borough

import (
	"testing"

	pb "example.invalid/borough/services/client-go/boroughpb"
	"example.invalid/borough/services/client-go/internal/fake"
)

func TestTheAuditIsListedPageByPage(t *testing.T) {
	gateway := fake.New(t)
	refused := &AuditedCall{Method: "JobService/StopJob", By: "user/eve"}
	// A page may be empty and have a next one.
	lists := onRequest[pb.ListAuditRequest](
		gateway, "ListAudit",
		&pb.ListAuditResponse{NextPage: "second"}, &pb.ListAuditResponse{Calls: []*AuditedCall{refused}},
	)
	client := clientOf(t, Config{}, gateway.Address)
	var methods []string
	for call, err := range client.Audit(t.Context(), &AuditFilter{By: "eve", Outcome: pb.AuditOutcome_AUDIT_OUTCOME_REFUSED}) {
		if err != nil {
			t.Fatal(err)
		}
		methods = append(methods, call.GetMethod())
	}
	if len(methods) != 1 || methods[0] != "JobService/StopJob" {
		t.Error(methods)
	}
	asked := lists.all()
	if len(asked) != 2 || asked[0].GetFilter().GetBy() != "eve" || asked[1].GetPage().GetPage() != "second" {
		t.Error(asked)
	}
}
