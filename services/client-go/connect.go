package borough

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"os"
	"sync/atomic"
)

// http2Settings is the kind of the frame with which each side of HTTP/2 begins.
const http2Settings = 4

// greeting notes how the server of the last connection to an address begins. A gateway begins with the settings of
// HTTP/2, and most other servers do not. The error of such a connection says nothing of the server.
type greeting struct {
	// A server that should encrypt fails the handshake instead.
	watches bool
	other   atomic.Bool
}

func (g *greeting) foreign() bool { return g.other.Load() }

func (g *greeting) dial(ctx context.Context, address string) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if err != nil || !g.watches {
		return conn, err
	}
	return &greetedConn{Conn: conn, greeting: g}, nil
}

// greetedConn is a connection until its first bytes are known.
type greetedConn struct {
	net.Conn
	greeting *greeting
	head     []byte
	decided  bool
}

// Read reads, and looks at the first bytes.
func (c *greetedConn) Read(bytes []byte) (int, error) {
	count, err := c.Conn.Read(bytes)
	if !c.decided && count > 0 {
		c.head = append(c.head, bytes[:min(count, 4)]...)
		if http2, decided := speaksHTTP2(c.head); decided {
			c.greeting.other.Store(!http2)
			c.head, c.decided = nil, true
		}
	}
	return count, err
}

// speaksHTTP2 says whether a server that begins like this speaks HTTP/2. Without enough bytes it decides nothing.
func speaksHTTP2(head []byte) (http2, decided bool) {
	switch {
	case len(head) == 0:
		return false, false
	case head[0] != 0:
		// No server has 64 KiB of settings.
		return false, true
	case len(head) < 4:
		return false, false
	default:
		return head[3] == http2Settings, true
	}
}

// load reads the files.
func (files TLS) load() (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if files.CA != "" {
		pem, err := os.ReadFile(files.CA)
		if err != nil {
			return nil, tlsFileError("Config.TLS.CA", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, &InvalidError{Fields: []InvalidField{{"Config.TLS.CA", files.CA, "a PEM file with certificates"}}}
		}
	}
	if files.Certificate == "" {
		return config, nil
	}
	pair, err := tls.LoadX509KeyPair(files.Certificate, files.Key)
	if err != nil {
		return nil, tlsFileError("Config.TLS.Certificate", err)
	}
	config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		// With the certificate of before it may still work; if not, the gateway says why.
		if renewed, err := tls.LoadX509KeyPair(files.Certificate, files.Key); err == nil {
			return &renewed, nil
		}
		return &pair, nil
	}
	return config, nil
}

func tlsFileError(field string, err error) error {
	return &InvalidError{Fields: []InvalidField{{field, err.Error(), "a PEM file that can be read"}}}
}
