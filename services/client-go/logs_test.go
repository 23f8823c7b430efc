package borough

import (
	"math/rand/v2"
	"testing"

	pb "example.invalid/borough/services/client-go/boroughpb"
)

// logOf is what an agent sends of an attempt with one text per stream, in files of so many bytes, from where a request
// begins.
func logOf(texts map[LogStream]string, file int, request *pb.ReadLogsRequest) []*pb.ReadLogsResponse {
	var answers []*pb.ReadLogsResponse
	for _, stream := range []LogStream{Stdout, Stderr} {
		from, text := request.GetStdoutFrom(), texts[stream]
		if stream == Stderr {
			from = request.GetStderrFrom()
		}
		number, offset := int(from.GetFile()), int(from.GetOffset())
		send := func(data string) {
			answers = append(answers, &pb.ReadLogsResponse{
				Stream: stream, Data: []byte(data), Incarnation: 3,
				Next: &pb.LogPosition{File: uint64(number), Offset: uint64(offset)},
			})
		}
		send("")
		for number+offset < len(text) {
			if offset >= file {
				number, offset = number+offset, 0
			}
			end := min(number+offset+2, number+file, len(text))
			data := text[number+offset : end]
			offset += len(data)
			send(data)
		}
	}
	return append(answers, &pb.ReadLogsResponse{End: true, Incarnation: 3})
}

// However often a read breaks, every byte is delivered once and in order.
func TestBrokenReadsOfLogsNeitherLoseNorRepeat(t *testing.T) {
	letters := func(random *rand.Rand) string {
		text := make([]byte, random.IntN(30))
		for at := range text {
			text[at] = byte('a' + random.IntN(26))
		}
		return string(text)
	}
	for seed := range uint64(2000) {
		random := rand.New(rand.NewPCG(seed, 2))
		texts := map[LogStream]string{Stdout: letters(random), Stderr: letters(random)}
		file := 1 + random.IntN(12)
		place := logResumption{request: &pb.ReadLogsRequest{}}
		seen, ended := map[LogStream]string{}, false
		for try := 0; !ended; try++ {
			limit := random.IntN(12)
			for _, answer := range logOf(texts, file, place.request) {
				if limit--; limit < 0 && try < 8 {
					break
				}
				place.delivered(answer)
				seen[answer.GetStream()] += string(answer.GetData())
				ended = ended || answer.GetEnd()
			}
		}
		if seen[Stdout] != texts[Stdout] || seen[Stderr] != texts[Stderr] {
			t.Fatalf("seed %d: %v of %v", seed, seen, texts)
		}
		if place.request.GetIncarnation() != 3 {
			t.Fatal("a later attempt may be read")
		}
	}
}

func TestWhatAnOlderGatewayHasSentCannotBeGoneOnWith(t *testing.T) {
	place := logResumption{request: &pb.ReadLogsRequest{}}
	place.delivered(&pb.ReadLogsResponse{})
	if place.lost || place.positioned {
		t.Error("nothing was sent")
	}
	place.delivered(&pb.ReadLogsResponse{Data: []byte("x")})
	if !place.lost || place.positioned {
		t.Error("a byte without a position was delivered")
	}
}
