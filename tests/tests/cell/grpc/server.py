"""A gRPC server for tests: answers every call with its port. Ends calls under way before it exits."""

import signal
import sys
from concurrent import futures

import grpc

PORT = sys.argv[1]


class Handler(grpc.GenericRpcHandler):
    def service(self, details):
        return grpc.unary_unary_rpc_method_handler(lambda request, context: PORT.encode())


server = grpc.server(futures.ThreadPoolExecutor(4))
server.add_generic_rpc_handlers((Handler(),))
server.add_insecure_port("127.0.0.1:" + PORT)
server.start()
signal.signal(signal.SIGTERM, lambda *_: server.stop(2).wait() and sys.exit(0))
server.wait_for_termination()
