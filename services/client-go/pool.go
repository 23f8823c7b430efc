package borough

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
)

const (
	// A peer that vanished is noticed within 13 s, also by idle watches. grpc allows no shorter interval.
	keepaliveInterval = 10 * time.Second
	keepaliveTimeout  = 3 * time.Second
	// The pause before a gateway that failed is checked, doubled up to the longest.
	checkPauseInitial = 500 * time.Millisecond
	checkPauseMax     = 5 * time.Second
	checkTimeout      = 2 * time.Second
	// The bounds that gateways keep too.
	requestBytesMax  = 4 << 20
	responseBytesMax = 64 << 20
)

// pool has one connection for each gateway.
type pool struct {
	gateways []*gateway
	// Checks of gateways that failed end with this context.
	checks context.Context
	end    context.CancelFunc
	wait   sync.WaitGroup

	mu       sync.Mutex
	rotation *rotation
	closed   bool
}

type gateway struct {
	address  string
	conn     *grpc.ClientConn
	greeting *greeting
}

// newPool prepares a connection for each address. It connects with the first call.
func newPool(config Config) (*pool, error) {
	security := insecure.NewCredentials()
	if config.TLS != nil {
		settings, err := config.TLS.load()
		if err != nil {
			return nil, err
		}
		security = credentials.NewTLS(settings)
	}
	checks, end := context.WithCancel(context.Background())
	p := &pool{checks: checks, end: end, rotation: newRotation(len(config.Gateways))}
	for _, address := range config.Gateways {
		greeting := &greeting{watches: config.TLS == nil}
		conn, err := grpc.NewClient("passthrough:///"+addressPlace(address),
			grpc.WithTransportCredentials(security),
			grpc.WithContextDialer(greeting.dial),
			grpc.WithDisableServiceConfig(),
			// The client repeats calls itself, over all gateways.
			grpc.WithDisableRetry(),
			grpc.WithUserAgent("borough-go"),
			grpc.WithConnectParams(grpc.ConnectParams{
				// The retry policy paces the calls. This one only keeps the connection from being tried in a tight loop.
				Backoff: backoff.Config{
					BaseDelay: 50 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: time.Second,
				},
				MinConnectTimeout: config.ConnectTimeout,
			}),
			grpc.WithKeepaliveParams(keepalive.ClientParameters{
				Time: keepaliveInterval, Timeout: keepaliveTimeout, PermitWithoutStream: true,
			}),
			grpc.WithDefaultCallOptions(
				grpc.MaxCallRecvMsgSize(responseBytesMax), grpc.MaxCallSendMsgSize(requestBytesMax)),
		)
		if err != nil {
			p.close()
			return nil, err
		}
		p.gateways = append(p.gateways, &gateway{address, conn, greeting})
	}
	return p, nil
}

// choose returns the gateway for the next try, and between how many the call may still choose.
func (p *pool) choose(tried map[int]bool) (number, untried int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.rotation.choose(), p.rotation.untried(tried)
}

// answered notes that a gateway works.
func (p *pool) answered(number int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rotation.answered(number)
}

// failed leaves a gateway until it answers a health check.
func (p *pool) failed(number int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	// With one gateway nobody waits for the result of a check.
	if p.rotation.failed(number) && len(p.gateways) > 1 && !p.closed {
		p.wait.Go(func() { p.check(number) })
	}
}

// check asks a gateway that failed for its health until it answers, or a call finds that it works.
func (p *pool) check(number int) {
	for pause := checkPauseInitial; ; pause = min(2*pause, checkPauseMax) {
		if !sleep(p.checks, pause/2+rand.N(pause/2)) {
			return
		}
		p.mu.Lock()
		away := p.rotation.away[number]
		p.mu.Unlock()
		if !away {
			return
		}
		if p.gateways[number].serves(p.checks) {
			p.answered(number)
			return
		}
	}
}

// serves asks a gateway for its health. One that answers anything else than that it is unavailable works.
func (g *gateway) serves(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	answer, err := grpc_health_v1.NewHealthClient(g.conn).Check(ctx, &grpc_health_v1.HealthCheckRequest{})
	if err == nil {
		return answer.GetStatus() != grpc_health_v1.HealthCheckResponse_NOT_SERVING
	}
	return ctx.Err() == nil && verdictOf(asRefusal(err)) != verdictRepeat
}

// openLimit is how long a stream may take to open: a gateway that says nothing gets only its share of a deadline.
func (p *pool) openLimit(deadline time.Duration) time.Duration {
	return deadline / time.Duration(len(p.gateways))
}

// foreign reports whether what answers at one of the addresses speaks another protocol.
func (p *pool) foreign() bool {
	return slices.ContainsFunc(p.gateways, func(g *gateway) bool { return g.greeting.foreign() })
}

func (p *pool) close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.end()
	p.wait.Wait()
	for _, gateway := range p.gateways {
		// The error says only that it is closed already.
		_ = gateway.conn.Close()
	}
}

func (p *pool) isClosed() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.closed
}

// sleep waits. It returns false if the context has ended before.
func sleep(ctx context.Context, pause time.Duration) bool {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
