package borough

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"

	pb "example.invalid/borough/services/client-go/boroughpb"
	"example.invalid/borough/services/client-go/internal/fake"
)

// authority signs certificates for a test.
type authority struct {
	t           *testing.T
	directory   string
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	a := &authority{t: t, directory: t.TempDir()}
	a.certificate, a.key = a.issue("ca", &x509.Certificate{IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign})
	return a
}

// path is the file of a certificate, or with the ending .key that of its key.
func (a *authority) path(name string) string { return filepath.Join(a.directory, name) }

func (a *authority) issue(name string, template *x509.Certificate) (*x509.Certificate, *ecdsa.PrivateKey) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	template.SerialNumber, template.Subject = big.NewInt(time.Now().UnixNano()), pkix.Name{CommonName: name}
	template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	parent, signer := template, key
	if a.certificate != nil {
		parent, signer = a.certificate, a.key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	if err != nil {
		a.t.Fatal(err)
	}
	keyBytes, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		a.t.Fatal(err)
	}
	for path, block := range map[string]*pem.Block{
		a.path(name):          {Type: "CERTIFICATE", Bytes: der},
		a.path(name + ".key"): {Type: "PRIVATE KEY", Bytes: keyBytes},
	} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			a.t.Fatal(err)
		}
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		a.t.Fatal(err)
	}
	return certificate, key
}

// server is the option of a gateway with a certificate, which wants one of its clients.
func (a *authority) server() grpc.ServerOption {
	a.t.Helper()
	a.issue("gateway", &x509.Certificate{
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	})
	pair, err := tls.LoadX509KeyPair(a.path("gateway"), a.path("gateway.key"))
	if err != nil {
		a.t.Fatal(err)
	}
	clients := x509.NewCertPool()
	clients.AddCert(a.certificate)
	return grpc.Creds(credentials.NewTLS(&tls.Config{
		Certificates: []tls.Certificate{pair}, ClientCAs: clients, ClientAuth: tls.RequireAndVerifyClientCert,
	}))
}

func (a *authority) user(name string) {
	a.issue(name, &x509.Certificate{ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
}

func TestACertificateProvesWhoCalls(t *testing.T) {
	authority := newAuthority(t)
	gateway := fake.New(t, authority.server())
	authority.user("ann")
	var caller string
	gateway.On("GetJob", fake.Unary(func(ctx context.Context, _ *pb.GetJobRequest) (*pb.GetJobResponse, error) {
		from, _ := peer.FromContext(ctx)
		caller = from.AuthInfo.(credentials.TLSInfo).State.PeerCertificates[0].Subject.CommonName
		return &pb.GetJobResponse{Job: &pb.Job{}}, nil
	}))
	files := &TLS{CA: authority.path("ca"), Certificate: authority.path("ann"), Key: authority.path("ann.key")}
	client := clientOf(t, Config{TLS: files}, "https://"+gateway.Address)
	if _, err := client.GetJob(t.Context(), JobRef{Name: "web"}); err != nil || caller != "ann" {
		t.Fatalf("%q, %v", caller, err)
	}
	// A renewed certificate is used with the next connection.
	authority.user("bob")
	for _, ending := range []string{"", ".key"} {
		if err := os.Rename(authority.path("bob"+ending), authority.path("ann"+ending)); err != nil {
			t.Fatal(err)
		}
	}
	gateway.Cut()
	if _, err := client.GetJob(t.Context(), JobRef{Name: "web"}); err != nil || caller != "bob" {
		t.Errorf("%q, %v", caller, err)
	}
}

func TestAGatewayOfAnotherAuthorityIsNotTrusted(t *testing.T) {
	authority, other := newAuthority(t), newAuthority(t)
	gateway := fake.New(t, authority.server())
	client := clientOf(t, Config{TLS: &TLS{CA: other.path("ca")}}, gateway.Address)
	_, err := client.GetJob(t.Context(), JobRef{Name: "web"})
	var unreachable *UnreachableError
	if !errors.As(err, &unreachable) || !strings.Contains(err.Error(), "certificate") || unreachable.MayHaveChanged {
		t.Errorf("%v", err)
	}
}

func TestAGatewayThatDoesNotEncryptIsRecognized(t *testing.T) {
	client := clientOf(t, Config{TLS: &TLS{}}, fake.New(t).Address)
	_, err := client.GetJob(t.Context(), JobRef{Name: "web"})
	var other *NotGatewayError
	if !errors.As(err, &other) || other.What != isNoTLSThere {
		t.Errorf("%v", err)
	}
}
