package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	borough "example.invalid/borough/services/client-go"
)

// watch follows the endpoints of a job in the background.
type watch struct {
	client *borough.Client
	job    borough.JobRef
	cancel context.CancelFunc
	// done: the watch has ended.
	done chan struct{}

	mu    sync.Mutex
	items []borough.EndpointItem
	table borough.EndpointTable
	err   error
	// changed is closed, and replaced, at each item.
	changed chan struct{}
}

// watch begins a watch.
func (r *run) watch(s *step) error {
	job, err := s.jobRef()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	w := &watch{
		client: r.present(), job: job, cancel: cancel, done: make(chan struct{}), changed: make(chan struct{}),
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.watches[s.Watch] != nil {
		cancel()
		return fmt.Errorf("there is a watch %q already", s.Watch)
	}
	r.watches[s.Watch] = w
	go w.follow(ctx)
	return nil
}

func (w *watch) follow(ctx context.Context) {
	defer close(w.done)
	for item, err := range w.client.WatchEndpoints(ctx, w.job, nil) {
		w.mu.Lock()
		if err != nil {
			w.err = err
		} else {
			w.items = append(w.items, item)
			w.table.Apply(item)
		}
		close(w.changed)
		w.changed = make(chan struct{})
		w.mu.Unlock()
	}
}

func (r *run) named(s *step) (*watch, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if w := r.watches[s.Watch]; w != nil {
		return w, nil
	}
	return nil, fmt.Errorf("there is no watch %q", s.Watch)
}

// await waits until a check of the watch finds nothing wrong. It returns what it finds when the time is over.
func (w *watch) await(within time.Duration, check func() error) error {
	timeout := time.After(within)
	for {
		w.mu.Lock()
		wrong, changed, err := check(), w.changed, w.err
		w.mu.Unlock()
		switch {
		case wrong == nil:
			return nil
		case err != nil:
			return err
		}
		select {
		case <-changed:
		case <-w.done:
			w.mu.Lock()
			defer w.mu.Unlock()
			if w.err != nil {
				return w.err
			}
			return check()
		case <-timeout:
			return wrong
		}
	}
}

// until waits until the published endpoints have just these indexes, and the weight and the labels of the step.
func (r *run) until(s *step) error {
	w, err := r.named(s)
	if err != nil {
		return err
	}
	want := slices.Sorted(slices.Values(s.Live))
	return w.await(s.within(), func() error {
		var live []int64
		for _, endpoint := range w.table.Endpoints() {
			live = append(live, int64(endpoint.GetIndex()))
			otherWeight := s.Weight != nil && endpoint.GetWeight() != *s.Weight
			if otherWeight || (s.Labels != nil && !maps.Equal(endpoint.GetLabels(), s.Labels)) {
				return fmt.Errorf("%v has another weight or other labels", endpoint)
			}
		}
		if !w.table.Complete() || !slices.Equal(live, want) {
			return fmt.Errorf("live are %v and not %v (snapshot: %t)", live, want, w.table.Complete())
		}
		return nil
	})
}

// items counts the items of a kind. With `within`, it waits until the counts hold.
func (r *run) items(s *step) error {
	w, err := r.named(s)
	if err != nil {
		return err
	}
	if s.Within == nil {
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.count(s)
	}
	return w.await(s.within(), func() error { return w.count(s) })
}

func (w *watch) count(s *step) error {
	var resyncs, snapshots, absences, withdrawals int
	for _, item := range w.items {
		switch item.(type) {
		case borough.Resync:
			resyncs++
		case borough.EndpointSnapshot:
			snapshots++
		case borough.Absent:
			absences++
		case borough.EndpointWithdrawn:
			withdrawals++
		}
	}
	return errors.Join(s.Resyncs.check("resyncs", resyncs), s.Snapshots.check("snapshots", snapshots),
		s.Absences.check("absences", absences), s.Withdrawals.check("withdrawals", withdrawals))
}

func (b *bounds) check(what string, count int) error {
	if b == nil || ((b.Min == nil || count >= *b.Min) && (b.Max == nil || count <= *b.Max)) {
		return nil
	}
	return fmt.Errorf("%d %s are out of bounds", count, what)
}

// audit checks all items of a watch, and compares what is published with a fresh list.
func (r *run) audit(s *step) error {
	w, err := r.named(s)
	if err != nil {
		return err
	}
	w.mu.Lock()
	items := slices.Clone(w.items)
	w.mu.Unlock()
	var audit auditor
	for at, item := range items {
		if err := audit.visit(item); err != nil {
			return fmt.Errorf("item %d: %w", at, err)
		}
	}
	// The list may be newer than the watch, or the watch newer than the list: compare until they agree.
	end := time.Now().Add(s.within())
	for {
		listed, err := borough.Collect(r.present().Endpoints(context.Background(), borough.EndpointFilter{
			User: w.job.User, Job: w.job.Name,
		}))
		if err != nil {
			return err
		}
		w.mu.Lock()
		published := w.table.Endpoints()
		w.mu.Unlock()
		equal := func(one, other *borough.Endpoint) bool { return proto.Equal(one, other) }
		if slices.EqualFunc(published, listed, equal) {
			return nil
		}
		if time.Now().After(end) {
			return fmt.Errorf("published is %v, and a fresh list is %v", published, listed)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// auditor checks the items of a watch one after the other.
type auditor struct {
	cursor *borough.Cursor
	// present are the published endpoints, gone the highest incarnation that was withdrawn, by task.
	present map[string]*borough.Endpoint
	gone    map[string]uint64
}

func taskName(user, job string, index uint32) string {
	return fmt.Sprintf("%s/%s/%d", user, job, index)
}

func (a *auditor) visit(item borough.EndpointItem) error {
	if a.present == nil {
		a.present, a.gone = map[string]*borough.Endpoint{}, map[string]uint64{}
	}
	switch item := item.(type) {
	case borough.EndpointSnapshot:
		a.present = map[string]*borough.Endpoint{}
		for _, endpoint := range item.Endpoints {
			if err := a.publish(endpoint); err != nil {
				return err
			}
		}
		return a.forward(item.Cursor)
	case borough.EndpointPublished:
		if err := a.publish(item.Endpoint); err != nil {
			return err
		}
		return a.forward(item.Cursor)
	case borough.EndpointWithdrawn:
		name := taskName(item.Job.User, item.Job.Name, item.Index)
		a.gone[name] = max(a.gone[name], item.Incarnation)
		if known := a.present[name]; known != nil && known.GetIncarnation() <= item.Incarnation {
			delete(a.present, name)
		}
		return a.forward(item.Cursor)
	case borough.Bookmark:
		return a.forward(item.Cursor)
	default:
		return nil
	}
}

func (a *auditor) publish(endpoint *borough.Endpoint) error {
	name := taskName(endpoint.GetUser(), endpoint.GetJob(), endpoint.GetIndex())
	if gone, is := a.gone[name]; is && endpoint.GetIncarnation() <= gone {
		return fmt.Errorf("%s: incarnation %d is published after its withdrawal", name, endpoint.GetIncarnation())
	}
	if proto.Equal(a.present[name], endpoint) {
		return fmt.Errorf("%s is published twice alike", name)
	}
	a.present[name] = endpoint
	return nil
}

func (a *auditor) forward(cursor *borough.Cursor) error {
	before := a.cursor
	a.cursor = cursor
	if before == nil || before.GetStoreEpoch() != cursor.GetStoreEpoch() {
		return nil
	}
	if strings.Compare(string(cursor.GetStamp()), string(before.GetStamp())) < 0 {
		return fmt.Errorf("the cursor goes back from %x to %x", before.GetStamp(), cursor.GetStamp())
	}
	return nil
}

// unwatch ends a watch. It must end in time, and leave no goroutine that reads a stream.
func (r *run) unwatch(s *step) error {
	const limit = 5 * time.Second
	w, err := r.named(s)
	if err != nil {
		return err
	}
	r.mu.Lock()
	delete(r.watches, s.Watch)
	others := len(r.watches)
	r.mu.Unlock()
	begun := time.Now()
	w.cancel()
	select {
	case <-w.done:
	case <-time.After(limit):
		return errors.New("the watch does not end")
	}
	if w.err != nil {
		return w.err
	}
	for streamReaders() > others {
		if time.Since(begun) > limit {
			return fmt.Errorf("%d goroutines read streams, and %d watches are open", streamReaders(), others)
		}
		time.Sleep(10 * time.Millisecond)
	}
	return nil
}

// streamReaders counts the goroutines of the library that read a stream.
func streamReaders() int {
	stacks := make([]byte, 4<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	return strings.Count(string(stacks), "created by example.invalid/borough/services/client-go.openSource")
}
