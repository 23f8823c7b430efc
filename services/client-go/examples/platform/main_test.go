package main

import "testing"

func TestARuleGivesACountForEachHour(t *testing.T) {
	rule := map[string]string{"platform.day": "5", "platform.night": "1"}
	for _, test := range []struct {
		labels map[string]string
		hour   int
		count  uint32
		ruled  bool
	}{
		{rule, 7, 1, true}, {rule, 8, 5, true}, {rule, 19, 5, true}, {rule, 20, 1, true},
		{map[string]string{"platform.day": "5"}, 3, 0, false},
		{map[string]string{"platform.day": "many"}, 12, 0, false},
		{nil, 12, 0, false},
	} {
		if count, ruled := wanted(test.labels, test.hour); ruled != test.ruled || (ruled && count != test.count) {
			t.Errorf("%v at %d: %d, %t", test.labels, test.hour, count, ruled)
		}
	}
}
