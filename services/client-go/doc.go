// Package borough is the client library of Borough, a cluster manager: one [Client] for each caller, over a list of
// gateways.
//
// The client connects and reconnects, and uses the next gateway if one does not answer. It repeats failed calls: reads
// change nothing, and a change carries its request id, so every call is safe to repeat. It enforces one deadline over
// all tries of a call. It resumes watches and logs without gaps or repetition.
//
// Answers are messages of the package boroughpb, under shorter names here, such as [Job] and [Endpoint]. Build a job
// with [NewService] or [NewBatch], and run it with [Client.SubmitJob] and [Client.WaitJob]. A federated job is a
// [JobFile], which [Client.RunFederatedJob] takes.
//
// # Errors
//
// Each method returns one of these, for [errors.As]:
//
//   - [InvalidError]: the library refuses the call and sends nothing
//   - [RefusedError]: a gateway refuses, with a reason, fields and advice
//   - [TokenError]: a gateway does not accept the token or the certificate
//   - [UnreachableError]: no gateway answers
//   - [DeadlineError]: the time is over; it matches [context.DeadlineExceeded]
//   - [NotGatewayError]: something else answers at the address
//   - [WaitError]: a job did not reach what [Client.WaitJob] waits for
//
// A call with a closed client returns [ErrClosed]. If the caller cancels the context, the error matches
// [context.Canceled].
package borough
