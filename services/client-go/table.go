package borough

import (
	"cmp"
	"slices"
)

// EndpointTable keeps the present endpoints of a watch. The zero value is empty. It is not safe for concurrent use.
type EndpointTable struct {
	rows map[endpointKey]*Endpoint
	// complete: a snapshot has come.
	complete bool
}

type endpointKey struct {
	user, job string
	index     uint32
}

func keyOf(endpoint *Endpoint) endpointKey {
	return endpointKey{endpoint.GetUser(), endpoint.GetJob(), endpoint.GetIndex()}
}

// Apply records an item of [Client.WatchEndpoints]. It reports whether the endpoints may have changed.
func (t *EndpointTable) Apply(item EndpointItem) bool {
	if t.rows == nil {
		t.rows = map[endpointKey]*Endpoint{}
	}
	switch item := item.(type) {
	case EndpointSnapshot:
		clear(t.rows)
		for _, endpoint := range item.Endpoints {
			t.rows[keyOf(endpoint)] = endpoint
		}
		t.complete = true
	case EndpointPublished:
		t.rows[keyOf(item.Endpoint)] = item.Endpoint
	case EndpointWithdrawn:
		key := endpointKey{item.Job.User, item.Job.Name, item.Index}
		// A later attempt may have been published meanwhile.
		if known := t.rows[key]; known == nil || known.GetIncarnation() > item.Incarnation {
			return false
		}
		delete(t.rows, key)
	default:
		return false
	}
	return true
}

// Complete reports whether a snapshot has come. Before that an empty table means nothing.
func (t *EndpointTable) Complete() bool { return t.complete }

// Endpoints returns the present endpoints by user, job and index.
func (t *EndpointTable) Endpoints() []*Endpoint {
	all := make([]*Endpoint, 0, len(t.rows))
	for _, endpoint := range t.rows {
		all = append(all, endpoint)
	}
	slices.SortFunc(all, func(one, other *Endpoint) int {
		return cmp.Or(cmp.Compare(one.GetUser(), other.GetUser()), cmp.Compare(one.GetJob(), other.GetJob()),
			cmp.Compare(one.GetIndex(), other.GetIndex()))
	})
	return all
}

// from is what a withdrawal leaves of a snapshot.
func (w EndpointWithdrawn) from(endpoints []*Endpoint) []*Endpoint {
	gone := endpointKey{w.Job.User, w.Job.Name, w.Index}
	return slices.DeleteFunc(endpoints, func(endpoint *Endpoint) bool { return keyOf(endpoint) == gone })
}
