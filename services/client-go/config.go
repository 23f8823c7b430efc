package borough

import (
	"cmp"
	"log/slog"
	"net"
	"strconv"
	"strings"
	"time"
)

// Config says where a client connects, for whom, and its time limits. Gateways and User must be set, and Cell for all
// calls except [Client.Cells].
type Config struct {
	// Gateways are tried in order and in rotation: HOST:PORT or http://HOST:PORT, and with TLS https://HOST:PORT.
	Gateways []string
	// User is the user of the calls, and the owner of the jobs that name none.
	User string
	// Cell is the cell of the calls, unless [Client.WithCell] names another.
	Cell string

	// Token is the secret that proves who the caller is. It excludes TokenFile.
	Token Secret
	// TokenFile is a file with the token. The client reads it again when it is older than some seconds.
	TokenFile string
	// TLS encrypts the connections. Nil: plain HTTP/2.
	TLS *TLS

	// Deadline limits one call with all its tries, and the opening of a stream. 0: ten seconds.
	Deadline time.Duration
	// ConnectTimeout limits one connection. 0: two seconds.
	ConnectTimeout time.Duration
	// Retry says how often and how fast calls are repeated. The zero value stands for six tries.
	Retry RetryPolicy
	// WatchPatience ends a watch if no gateway has answered it for so long. 0: it tries without end.
	WatchPatience time.Duration
	// Logger gets a line for each try that fails, at the level debug. Nil: none.
	Logger *slog.Logger
}

// Secret is a text that neither logs nor formatted values show.
type Secret string

const secretShown = "(secret)"

// String hides the text.
func (Secret) String() string { return secretShown }

// GoString hides the text.
func (Secret) GoString() string { return secretShown }

// MarshalText hides the text.
func (Secret) MarshalText() ([]byte, error) { return []byte(secretShown), nil }

// TLS names the PEM files for encrypted connections. The client reads the certificate and its key again for each
// connection, so they can be renewed in place.
type TLS struct {
	// CA has the authorities that sign the certificates of gateways. Empty: those of the system.
	CA string
	// Certificate and Key prove who the caller is. Empty: a token does.
	Certificate, Key string
}

const (
	userAccepted = "the name of a user, such as ann; ConfigFromEnvironment reads it from BOROUGH_USER, else USER"
	cellAccepted = "the name of a cell, such as alpha; ConfigFromEnvironment reads it from BOROUGH_CELL"

	deadlineDefault       = 10 * time.Second
	connectTimeoutDefault = 2 * time.Second
)

// withDefaults checks a configuration and fills what is absent.
func (config Config) withDefaults() (Config, error) {
	var invalid invalidFields
	invalid.require(len(config.Gateways) > 0, "Config.Gateways", "[]", "at least one address")
	invalid.require(config.User != "", "Config.User", `""`, userAccepted)
	for at, address := range config.Gateways {
		if problem := addressProblem(address, config.TLS != nil); problem != "" {
			invalid.refuse("Config.Gateways["+strconv.Itoa(at)+"]", strconv.Quote(address)+" "+problem,
				"HOST:PORT or http://HOST:PORT (https with TLS), with a port from 1 to 65535")
		}
	}
	invalid.require(config.Token == "" || config.TokenFile == "", "Config.TokenFile", strconv.Quote(config.TokenFile),
		"either Token or TokenFile")
	for _, limit := range []struct {
		field string
		value time.Duration
	}{
		{"Config.Deadline", config.Deadline},
		{"Config.ConnectTimeout", config.ConnectTimeout},
		{"Config.WatchPatience", config.WatchPatience},
		{"Config.Retry.BackoffInitial", config.Retry.BackoffInitial},
		{"Config.Retry.BackoffMax", config.Retry.BackoffMax},
	} {
		invalid.require(limit.value >= 0, limit.field, limit.value.String(), "0 for the default, or more")
	}
	if config.TLS != nil {
		invalid.require((config.TLS.Certificate == "") == (config.TLS.Key == ""), "Config.TLS.Key",
			strconv.Quote(config.TLS.Key), "a certificate and its key, or neither")
	}
	config.Deadline = cmp.Or(config.Deadline, deadlineDefault)
	config.ConnectTimeout = cmp.Or(config.ConnectTimeout, connectTimeoutDefault)
	config.Retry = config.Retry.withDefaults()
	if config.Logger == nil {
		config.Logger = slog.New(slog.DiscardHandler)
	}
	return config, invalid.err()
}

// addressProblem says what is wrong with the address of a gateway; empty: nothing.
func addressProblem(address string, encrypted bool) string {
	scheme, place, found := strings.Cut(address, "://")
	if !found {
		scheme, place = "", address
	}
	switch {
	case scheme == "https" && !encrypted:
		return `has the scheme "https", and no TLS says whom to trust`
	case scheme == "http" && encrypted:
		return `has the scheme "http", and TLS is set`
	case found && scheme != "http" && scheme != "https":
		return "has the scheme " + strconv.Quote(scheme)
	}
	place = strings.TrimSuffix(place, "/")
	if place == "" {
		return "is empty"
	}
	if place, path, found := strings.Cut(place, "/"); found {
		return "has the path " + strconv.Quote("/"+path) + " behind " + strconv.Quote(place)
	}
	host, port, err := net.SplitHostPort(place)
	if err != nil {
		return "has no port"
	}
	if host == "" || strings.ContainsAny(host, " \t\n@?#") {
		return "has no host"
	}
	if number, err := strconv.ParseUint(port, 10, 16); err != nil || number == 0 {
		return "has the port " + strconv.Quote(port)
	}
	return ""
}

// addressPlace is HOST:PORT of a checked address.
func addressPlace(address string) string {
	if _, place, found := strings.Cut(address, "://"); found {
		address = place
	}
	return strings.TrimSuffix(address, "/")
}
