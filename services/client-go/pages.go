package borough

import (
	"iter"

	pb "example.invalid/borough/services/client-go/boroughpb"
)

// pages iterates over the rows of a list. It reads a page when it needs one. An error is the last item.
func pages[T any](size uint32, read func(*pb.PageRequest) (rows []T, next string, err error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		page := &pb.PageRequest{Limit: size}
		for {
			rows, next, err := read(page)
			if err != nil {
				var none T
				yield(none, err)
				return
			}
			for _, row := range rows {
				if !yield(row, nil) {
					return
				}
			}
			// A page may be empty although others follow.
			if next == "" {
				return
			}
			page = &pb.PageRequest{Limit: size, Page: next}
		}
	}
}

// Collect reads all rows of a list into a slice, until an error.
func Collect[T any](rows iter.Seq2[T, error]) ([]T, error) {
	var all []T
	for row, err := range rows {
		if err != nil {
			return all, err
		}
		all = append(all, row)
	}
	return all, nil
}
