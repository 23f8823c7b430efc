// A web service of three replicas with health checks, on ports that the scheduler hands out. Needs python3 on the nodes.
//
//   borough job run web.jsonnet
//   borough job run web.jsonnet --tla-str count=5      (the same job, scaled)

local greeting(index) = 'replica %d' % index;

function(count='3') {
  name: 'web',
  kind: 'service',
  priority: 'production',
  count: std.parseInt(count),

  task: {
    // The node fills in ${PORT_HTTP}: the port of the task for `http`.
    command: ['python3', '-u', '-m', 'http.server', '--bind', '127.0.0.1', '${PORT_HTTP}'],
    environment: { GREETING: 'hello' },
    resources: { cpu: '100m', memory: '64MiB' },
    ports: ['http'],
    health: {
      http: { port: 'http', path: '/' },
      interval: '2s',
      timeout: '2s',
      failures: 3,
      initial_grace: '10s',
    },
    grace: '2s',
  },

  // Every replica has its own greeting; the first has more memory and twice the traffic.
  overrides: {
    [std.toString(index)]: { environment: { GREETING: greeting(index) } }
    for index in std.range(1, self.count - 1)
  } + {
    '0': {
      environment: { GREETING: greeting(0) },
      resources: { memory: '96MiB' },
      weight: 2,
    },
  },

  // Prefer different racks, then different nodes.
  spread: ['rack', 'node.name'],
  drain_delay: '500ms',
}
