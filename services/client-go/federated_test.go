package borough

import (
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"sync"
	"testing"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	pb "example.invalid/borough/services/client-go/boroughpb"
	"example.invalid/borough/services/client-go/internal/fake"
)

// requests are those that a method of a fake got.
type requests[Q any] struct {
	mu  sync.Mutex
	got []*Q
}

func (r *requests[Q]) all() []*Q {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]*Q(nil), r.got...)
}

// onRequest answers a method with one message after the other, and then again with the last one.
func onRequest[Q, A any, PQ interface {
	*Q
	proto.Message
}, PA interface {
	*A
	proto.Message
}](gateway *fake.Gateway, method string, answers ...*A) *requests[Q] {
	r := &requests[Q]{}
	gateway.On(method, fake.Unary[Q, A, PQ, PA](func(_ context.Context, request *Q) (*A, error) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.got = append(r.got, request)
		return answers[min(len(r.got), len(answers))-1], nil
	}))
	return r
}

func fileOfTest() JobFile {
	return JobFile{
		"name": "web", "count": 3, "task": map[string]any{"command": []string{"serve"}},
		"federation": map[string]any{"split": "weight"},
	}
}

const textOfTest = `{"count":3,"federation":{"split":"weight"},"name":"web","task":{"command":["serve"]}}`

func TestAFederatedJobIsRunWithItsFileAsJSON(t *testing.T) {
	gateway := fake.New(t)
	got := onRequest[pb.RunFederatedJobRequest](gateway, "RunFederatedJob",
		&pb.RunFederatedJobResponse{Job: &FederatedJob{Revision: 4}, Changed: true})
	client := clientOf(t, Config{}, gateway.Address).WithCell("federation")
	id := NewRequestID()
	answer, err := client.RunFederatedJob(t.Context(), fileOfTest(), IfRevision(3), WithRequestID(id))
	if err != nil || !answer.GetChanged() || answer.GetJob().GetRevision() != 4 {
		t.Fatal(answer, err)
	}
	other := fileOfTest()
	other["user"] = "bob"
	if _, err := client.RunFederatedJob(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	first, second := got.all()[0], got.all()[1]
	want := &pb.RunFederatedJobRequest{
		Context: &pb.RequestContext{User: "ann", RequestId: id}, Cell: "federation", User: "ann", Name: "web",
		JobFile: textOfTest, ExpectedRevision: 3,
	}
	if !proto.Equal(first, want) {
		t.Errorf("%v", first)
	}
	if second.GetUser() != "bob" || second.GetExpectedRevision() != 0 || len(second.GetContext().GetRequestId()) != 32 {
		t.Errorf("%v", second)
	}
}

func TestWhatIsNoJobFileIsRefusedBeforeItIsSent(t *testing.T) {
	gateway := fake.New(t)
	client := clientOf(t, Config{}, gateway.Address)
	for _, file := range []JobFile{
		nil, {"federation": map[string]any{}}, {"name": 3}, {"name": ""}, {"name": "web", "user": nil},
		{"name": "web", "task": func() {}},
	} {
		_, run := client.RunFederatedJob(t.Context(), file)
		_, plan := client.PlanFederatedJob(t.Context(), file)
		for _, err := range []error{run, plan} {
			var invalid *InvalidError
			if !errors.As(err, &invalid) || !strings.HasPrefix(invalid.Fields[0].Field, "job_file") {
				t.Errorf("%v: %v", file, err)
			}
		}
	}
	if gateway.Calls("RunFederatedJob")+gateway.Calls("PlanFederatedJob") != 0 {
		t.Error("something was sent")
	}
}

func TestAJobFileIsParsedWithoutALoss(t *testing.T) {
	file, err := ParseJobFile(`{"name": "web", "count": 9007199254740993}`)
	if err != nil {
		t.Fatal(err)
	}
	if text, err := json.Marshal(file); err != nil || string(text) != `{"count":9007199254740993,"name":"web"}` {
		t.Errorf("%s %v", text, err)
	}
	for _, text := range []string{"", "null", "[]", "3", "{", "{} {}"} {
		var invalid *InvalidError
		if _, err := ParseJobFile(text); !errors.As(err, &invalid) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestASilentFederationIsARefusalAndIsNotAskedAgain(t *testing.T) {
	gateway := fake.New(t)
	silent := statusOf(t, codes.Unavailable, "no federation process", reasonOf(reasonFederationSilent)).Err()
	gateway.On("PlanFederatedJob", fake.Unary(
		func(context.Context, *pb.PlanFederatedJobRequest) (*pb.PlanFederatedJobResponse, error) {
			return nil, silent
		}))
	_, err := clientOf(t, Config{}, gateway.Address).PlanFederatedJob(t.Context(), fileOfTest())
	var refused *RefusedError
	if !errors.As(err, &refused) || refused.Reason != "FEDERATION_SILENT" || gateway.Calls("PlanFederatedJob") != 1 {
		t.Error(gateway.Calls("PlanFederatedJob"), err)
	}
}

func TestAPlanHasWhatWouldBe(t *testing.T) {
	gateway := fake.New(t)
	got := onRequest[pb.PlanFederatedJobRequest](gateway, "PlanFederatedJob", &pb.PlanFederatedJobResponse{
		After: &FederatedJob{Parts: []*pb.FederatedPart{{Cell: "eu1", Count: 3}}}, Changed: true,
	})
	plan, err := clientOf(t, Config{}, gateway.Address).PlanFederatedJob(t.Context(), fileOfTest())
	if err != nil || plan.GetBefore() != nil || plan.GetAfter().GetParts()[0].GetCount() != 3 {
		t.Fatal(plan, err)
	}
	if request := got.all()[0]; request.GetJobFile() != textOfTest || request.GetContext().GetRequestId() != "" {
		t.Errorf("%v", request)
	}
}

func TestFederatedJobsAreListedOverAllPages(t *testing.T) {
	gateway := fake.New(t)
	// With a member cell, a page may be empty although others follow.
	got := onRequest[pb.ListFederatedJobsRequest](gateway, "ListFederatedJobs",
		&pb.ListFederatedJobsResponse{Jobs: []*FederatedJob{{Name: "one"}}, NextPage: "1"},
		&pb.ListFederatedJobsResponse{NextPage: "2"},
		&pb.ListFederatedJobsResponse{Jobs: []*FederatedJob{{Name: "two"}}})
	filter := FederatedFilter{User: "bob", Stopped: true, Member: "eu1", PageSize: 1}
	jobs, err := Collect(clientOf(t, Config{}, gateway.Address).FederatedJobs(t.Context(), filter))
	if err != nil || len(jobs) != 2 || jobs[1].GetName() != "two" {
		t.Fatal(jobs, err)
	}
	for at, request := range got.all() {
		want := &pb.ListFederatedJobsRequest{
			Context: &pb.RequestContext{User: "ann"}, Cell: "alpha", User: "bob", Stopped: true, Member: "eu1",
			Page: &pb.PageRequest{Limit: 1, Page: []string{"", "1", "2"}[at]},
		}
		if !proto.Equal(request, want) {
			t.Errorf("%d: %v", at, request)
		}
	}
}

func TestAFederatedJobIsReadAndRunAgain(t *testing.T) {
	gateway := fake.New(t)
	read := onRequest[pb.GetFederatedJobRequest](gateway, "GetFederatedJob",
		&pb.GetFederatedJobResponse{Job: &FederatedJob{Revision: 7}, JobFile: textOfTest},
		&pb.GetFederatedJobResponse{})
	onRequest[pb.GetFederatedJobHistoryRequest](gateway, "GetFederatedJobHistory",
		&pb.GetFederatedJobHistoryResponse{Versions: []*FederatedJobVersion{{Version: 2, JobFile: textOfTest}}})
	run := onRequest[pb.RunFederatedJobRequest](gateway, "RunFederatedJob",
		&pb.RunFederatedJobResponse{Job: &FederatedJob{}}, &pb.RunFederatedJobResponse{})
	client, job := clientOf(t, Config{}, gateway.Address), JobRef{User: "bob", Name: "web"}
	known, err := client.GetFederatedJob(t.Context(), job)
	if err != nil {
		t.Fatal(err)
	}
	file, err := ParseJobFile(known.GetJobFile())
	if err != nil {
		t.Fatal(err)
	}
	file["count"] = 9
	if _, err := client.RunFederatedJob(t.Context(), file, IfRevision(known.GetJob().GetRevision())); err != nil {
		t.Fatal(err)
	}
	if request := run.all()[0]; request.GetExpectedRevision() != 7 || !strings.Contains(request.GetJobFile(), `"count":9`) {
		t.Errorf("%v", request)
	}
	if request := read.all()[0]; request.GetUser() != "bob" || request.GetName() != "web" {
		t.Errorf("%v", request)
	}
	versions, err := client.FederatedJobHistory(t.Context(), job)
	if err != nil || len(versions) != 1 || versions[0].GetVersion() != 2 {
		t.Error(versions, err)
	}
	if _, err := client.GetFederatedJob(t.Context(), job); err == nil {
		t.Error("an answer without a job is no answer")
	}
	if _, err := client.RunFederatedJob(t.Context(), file); err == nil {
		t.Error("an answer without a job is no answer")
	}
}

func TestChangesOfAFederatedJobSayWhatTheyWant(t *testing.T) {
	gateway, job := fake.New(t), &FederatedJob{Name: "web"}
	scales := onRequest[pb.ScaleFederatedJobRequest](gateway, "ScaleFederatedJob", &pb.ScaleFederatedJobResponse{Job: job})
	stops := onRequest[pb.StopFederatedJobRequest](gateway, "StopFederatedJob",
		&pb.StopFederatedJobResponse{Job: job}, &pb.StopFederatedJobResponse{})
	orders := onRequest[pb.OrderFederatedReleaseRequest](gateway, "OrderFederatedRelease",
		&pb.OrderFederatedReleaseResponse{Job: job})
	onRequest[pb.ForgetFederatedJobRequest](gateway, "ForgetFederatedJob",
		&pb.ForgetFederatedJobResponse{Job: job}, &pb.ForgetFederatedJobResponse{})
	rebalances := onRequest[pb.RebalanceFederatedJobRequest](gateway, "RebalanceFederatedJob",
		&pb.RebalanceFederatedJobResponse{Job: job})
	client, ctx, web, id := clientOf(t, Config{}, gateway.Address), t.Context(), JobRef{Name: "web"}, NewRequestID()
	stuck := pb.RebalancedTasks_REBALANCED_TASKS_STUCK
	changes := []func() (*FederatedJob, error){
		func() (*FederatedJob, error) { return client.ScaleFederatedJob(ctx, web, 5, WithRequestID(id)) },
		func() (*FederatedJob, error) { return client.RebalanceFederatedJob(ctx, web, stuck, IfRevision(3)) },
		func() (*FederatedJob, error) { return client.PauseFederatedRelease(ctx, web) },
		func() (*FederatedJob, error) { return client.ResumeFederatedRelease(ctx, web) },
		func() (*FederatedJob, error) { return client.ApproveFederatedRelease(ctx, web, 1, WithRequestID(id)) },
		func() (*FederatedJob, error) { return client.UndoFederatedRelease(ctx, JobRef{"bob", "web"}) },
		func() (*FederatedJob, error) { return client.StopFederatedJob(ctx, web, WithRequestID(id)) },
		func() (*FederatedJob, error) { return client.ForgetFederatedJob(ctx, web, WithRequestID(id)) },
	}
	for at, change := range changes {
		if changed, err := change(); err != nil || changed.GetName() != "web" {
			t.Fatal(at, changed, err)
		}
	}
	if again, err := client.ForgetFederatedJob(ctx, web, WithRequestID(id)); again != nil || err != nil {
		t.Error(again, err)
	}
	if _, err := client.StopFederatedJob(ctx, web); err == nil {
		t.Error("an answer without a job is no answer")
	}
	if scale := scales.all()[0]; scale.GetCount() != 5 || scale.GetContext().GetRequestId() != id {
		t.Errorf("%v", scale)
	}
	if one := rebalances.all()[0]; one.GetWhich() != stuck || one.GetExpectedRevision() != 3 {
		t.Errorf("%v", one)
	}
	if stop := stops.all()[0]; stop.GetUser() != "ann" || stop.GetContext().GetRequestId() != id {
		t.Errorf("%v", stop)
	}
	var sent []string
	for _, order := range orders.all() {
		sent = append(sent, strings.Join([]string{order.GetUser(), order.GetOrder().String(), text(order.GetStage())}, " "))
	}
	want := []string{"ann PAUSE 0", "ann RESUME 0", "ann APPROVE 1", "bob REVERT 0"}
	if !reflect.DeepEqual(sent, want) || orders.all()[2].GetContext().GetRequestId() != id {
		t.Errorf("%v", sent)
	}
}

func TestARefusedJobFileNamesItsField(t *testing.T) {
	gateway := fake.New(t)
	bad := &errdetails.BadRequest{FieldViolations: []*errdetails.BadRequest_FieldViolation{
		{Field: "job_file", Description: "federation.split: up; accepted: free"},
	}}
	refusal := statusOf(t, codes.InvalidArgument, "split", bad).Err()
	gateway.On("RunFederatedJob", fake.Unary(
		func(context.Context, *pb.RunFederatedJobRequest) (*pb.RunFederatedJobResponse, error) {
			return nil, refusal
		}))
	_, err := clientOf(t, Config{}, gateway.Address).RunFederatedJob(t.Context(), fileOfTest())
	var refused *RefusedError
	if !errors.As(err, &refused) || refused.Fields[0].Field != "job_file" {
		t.Error(err)
	}
}
