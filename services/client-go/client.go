package borough

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"log/slog"
	"path"

	"google.golang.org/grpc/metadata"

	pb "example.invalid/borough/services/client-go/boroughpb"
)

// Client is a caller's handle of a set of gateways. It is safe for concurrent use. Close ends its connections.
type Client struct {
	shared *shared
	user   string
	cell   string
	// dryRun: changes are not made.
	dryRun bool
}

// shared is what the copies of a client have in common.
type shared struct {
	config Config
	pool   *pool
	token  *tokenSource
}

// New makes a client. It reads the files of the configuration, and connects with the first call.
//
// The error is an [InvalidError].
func New(config Config) (*Client, error) {
	config, err := config.withDefaults()
	if err != nil {
		return nil, err
	}
	token, err := newTokenSource(config)
	if err != nil {
		return nil, err
	}
	pool, err := newPool(config)
	if err != nil {
		return nil, err
	}
	return &Client{shared: &shared{config, pool, token}, user: config.User, cell: config.Cell}, nil
}

// ErrClosed is the error of a call with a client that is closed.
var ErrClosed = errors.New("the client is closed")

// Close ends all connections, also those of the copies of the client. Calls and watches that go on end with
// [ErrClosed].
func (c *Client) Close() error {
	c.shared.pool.close()
	return nil
}

// WithCell returns a client of another cell, with the same connections.
func (c *Client) WithCell(cell string) *Client {
	other := *c
	other.cell = cell
	return &other
}

// WithUser returns a client for another user, with the same connections.
func (c *Client) WithUser(user string) *Client {
	other := *c
	other.user = user
	return &other
}

// WithDryRun returns a client that changes nothing, with the same connections. Each call that would change something
// ends with a [DryRunError], which says what would happen, or with the refusal of the change. Other calls are as before.
func (c *Client) WithDryRun() *Client {
	other := *c
	other.dryRun = true
	return &other
}

// Cell is the cell of the calls.
func (c *Client) Cell() string { return c.cell }

// User is the user of the calls.
func (c *Client) User() string { return c.user }

// Gateways are the addresses of the gateways, as configured.
func (c *Client) Gateways() []string { return append([]string(nil), c.shared.config.Gateways...) }

// checkScope refuses a call that says not for whom it is, or in which cell. Only the list of cells goes without a cell.
func (c *Client) checkScope(method string) error {
	var invalid invalidFields
	invalid.require(c.user != "", "User", `""`, userAccepted)
	invalid.require(c.cell != "" || path.Base(method) == "ListCells", "Cell", `""`, cellAccepted)
	return invalid.err()
}

func (c *Client) config() *Config { return &c.shared.config }

func (c *Client) log() *slog.Logger { return c.shared.config.Logger }

// authorized adds the token of the caller to the metadata of a call.
func (c *Client) authorized(ctx context.Context) context.Context {
	token := c.shared.token.token()
	if token == "" {
		return ctx
	}
	return metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+token)
}

// reading is the context of a request that changes nothing.
func (c *Client) reading() *pb.RequestContext { return &pb.RequestContext{User: c.user} }

// changing is the context of a request that changes something. All tries of the call send the same id.
func (c *Client) changing(options change) *pb.RequestContext {
	id := options.requestID
	if id == "" {
		id = NewRequestID()
	}
	return &pb.RequestContext{User: c.user, RequestId: id}
}

// JobRef names a job.
type JobRef struct {
	// User owns the job. Empty: the user of the client.
	User string
	// Name is unique for the user within the cell.
	Name string
}

// Task names a task of the job, by its index from 0.
func (job JobRef) Task(index uint32) TaskRef { return TaskRef{job, index} }

func (job JobRef) String() string {
	if job.User == "" {
		return job.Name
	}
	return job.User + "/" + job.Name
}

// owner is the user of a job.
func (c *Client) owner(job JobRef) string {
	if job.User == "" {
		return c.user
	}
	return job.User
}

// NewRequestID makes the id of a change: 32 hexadecimal digits. A change that is repeated with the same id has one
// effect.
func NewRequestID() string {
	var bytes [16]byte
	// It never fails: the package crypto/rand ends the program instead.
	_, _ = rand.Read(bytes[:])
	return hex.EncodeToString(bytes[:])
}

// A ChangeOption says more about a call that changes something.
type ChangeOption func(*change)

type change struct {
	requestID           string
	expectedJob         string
	expectedRevision    uint64
	expectedIncarnation uint64
}

func changeOf(options []ChangeOption) change {
	var all change
	for _, option := range options {
		option(&all)
	}
	return all
}

// WithRequestID sends this id instead of a new one, for callers that store what they intend: 32 hexadecimal digits.
// The same id with other content is refused.
func WithRequestID(id string) ChangeOption {
	return func(c *change) { c.requestID = id }
}

// IfJob makes the call only if the name still belongs to the job with this id. Otherwise it is refused with
// FAILED_PRECONDITION. It concerns submitting, scaling and stopping jobs, and stopping tasks.
func IfJob(id string) ChangeOption {
	return func(c *change) { c.expectedJob = id }
}

// IfRevision makes the call only if what it changes still has this revision. Otherwise it is refused with
// FAILED_PRECONDITION. It concerns [Client.SubmitJob], [Client.UpdateCell], [Client.SetQuota], [Client.SetGrant],
// [Client.RunFederatedJob] and changes of a member cell, except [Client.JoinMember] and [Client.RemoveMember].
func IfRevision(revision uint64) ChangeOption {
	return func(c *change) { c.expectedRevision = revision }
}

// IfAttempt makes the call only if the task still has the attempt with this incarnation. It concerns
// [Client.StopTask].
func IfAttempt(incarnation uint64) ChangeOption {
	return func(c *change) { c.expectedIncarnation = incarnation }
}
