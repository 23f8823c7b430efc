package borough

import (
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	// A token is sent with every call.
	tokenBytesMax = 8192
	// A file of a token is read again after this time: others renew it.
	tokenFileAge = 10 * time.Second
)

// tokenSource gives the token of the calls.
type tokenSource struct {
	file string

	mu   sync.Mutex
	text string
	read time.Time
}

// newTokenSource reads the token of a configuration. Nil: it has none.
func newTokenSource(config Config) (*tokenSource, error) {
	switch {
	case config.TokenFile != "":
		text, err := tokenOfFile(config.TokenFile)
		if err != nil {
			return nil, err
		}
		return &tokenSource{file: config.TokenFile, text: text, read: time.Now()}, nil
	case config.Token != "":
		text, err := tokenChecked("Config.Token", string(config.Token))
		if err != nil {
			return nil, err
		}
		return &tokenSource{text: text}, nil
	default:
		return nil, nil
	}
}

// named says where the token is from; empty: there is none.
func (s *tokenSource) named() string {
	switch {
	case s == nil:
		return ""
	case s.file != "":
		return "the file " + s.file
	default:
		return "the caller"
	}
}

// token is the present token; empty: there is none. A file that cannot be read gives the token of before.
func (s *tokenSource) token() string {
	if s == nil {
		return ""
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.file != "" && time.Since(s.read) >= tokenFileAge {
		if text, err := tokenOfFile(s.file); err == nil {
			s.text = text
		}
		s.read = time.Now()
	}
	return s.text
}

func tokenOfFile(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", &InvalidError{Fields: []InvalidField{{"Config.TokenFile", err.Error(), "a file that can be read"}}}
	}
	defer file.Close()
	// One byte more shows a token that is too long.
	text, err := io.ReadAll(io.LimitReader(file, tokenBytesMax+1))
	if err != nil {
		return "", &InvalidError{Fields: []InvalidField{{"Config.TokenFile", err.Error(), "a file that can be read"}}}
	}
	return tokenChecked("Config.TokenFile", string(text))
}

// tokenChecked is a token without the white space around it. The error does not repeat it: it is a secret.
func tokenChecked(field, text string) (string, error) {
	text = strings.TrimSpace(text)
	problem := ""
	switch {
	case text == "":
		problem = "is empty"
	case len(text) > tokenBytesMax:
		problem = "has more than " + strconv.Itoa(tokenBytesMax) + " bytes"
	case strings.ContainsFunc(text, func(each rune) bool { return each <= ' ' || each > '~' }):
		problem = "has other characters"
	default:
		return text, nil
	}
	return "", &InvalidError{Fields: []InvalidField{{field, problem, "one line of visible ASCII characters"}}}
}
