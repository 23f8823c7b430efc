package borough

import pb "example.invalid/borough/services/client-go/boroughpb"

// The messages of the API that callers meet most. The package boroughpb has all of them, with their enumerations.
type (
	// AuditFilter chooses calls of the audit: all that is set must hold.
	AuditFilter = pb.AuditFilter
	// AuditedCall is a call that changed something, or was refused.
	AuditedCall = pb.AuditedCall
	// Cell is the state of a cell.
	Cell = pb.Cell
	// CellSettings is what an operator sets for a cell.
	CellSettings = pb.CellSettings
	// Cursor is a position in the order of a cell's changes, from which a watch resumes.
	Cursor = pb.Cursor
	// DryRunEffect is what a change would do to one object.
	DryRunEffect = pb.DryRunEffect
	// Endpoint is where a task answers.
	Endpoint = pb.Endpoint
	// Event is a change in words.
	Event = pb.Event
	// Explanation says why tasks are not placed, or do not run as they should.
	Explanation = pb.Explanation
	// FederatedJob is the state of a job whose tasks a federation divides among cells.
	FederatedJob = pb.FederatedJob
	// FederatedJobVersion is one version of a federated job.
	FederatedJobVersion = pb.FederatedJobVersion
	// Grant is what a user or a group is given and denied.
	Grant = pb.Grant
	// IdentityKey is the public half of a key that signs the identities of tasks.
	IdentityKey = pb.IdentityKey
	// Job is the state of a job.
	Job = pb.Job
	// JobSpec is everything that the owner of a job decides about it.
	JobSpec = pb.JobSpec
	// JobVersion is one version of a job's spec.
	JobVersion = pb.JobVersion
	// LabelMatch is a condition on one label.
	LabelMatch = pb.LabelMatch
	// Member is a cell of a federation.
	Member = pb.Member
	// Node is the state of a node.
	Node = pb.Node
	// NodeJoin is the join token of a node name, and the identity that the node has got.
	NodeJoin = pb.NodeJoin
	// Quota is how much a user may have admitted in a band, and how much is.
	Quota = pb.Quota
	// QuotaLimit is how much may be admitted at once.
	QuotaLimit = pb.QuotaLimit
	// QuotaBorrow is what may be admitted beyond that while the parent has room.
	QuotaBorrow = pb.QuotaBorrow
	// Taint is a mark of a node that keeps tasks without a toleration away.
	Taint = pb.Taint
	// TaintMatch chooses taints to remove.
	TaintMatch = pb.TaintMatch
	// Task is the state of a task.
	Task = pb.Task
	// WatchFilter selects changes; an empty one selects all.
	WatchFilter = pb.WatchFilter
)
