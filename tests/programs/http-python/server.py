"""An HTTP server for tests: answers every request with its port, after a moment, and keeps connections open. SIGTERM ends
it at once, in the middle of its requests: a load balancer that is told in time has none under way."""

import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

PORT = sys.argv[1]


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        # Health checks need no moment.
        if self.path != "/health":
            time.sleep(0.02)
        body = PORT.encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


class Server(ThreadingHTTPServer):
    request_queue_size = 128


Server(("127.0.0.1", int(PORT)), Handler).serve_forever()
