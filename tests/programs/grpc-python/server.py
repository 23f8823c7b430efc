"""A gRPC server for tests: answers every call with its port, or its name, after a moment. SIGTERM ends it at once, in the
middle of its calls: a client that learns of it in time has none under way."""

import os
import signal
import sys
import time
from concurrent import futures

import grpc

PORT = sys.argv[1]
ANSWER = sys.argv[2] if len(sys.argv) > 2 else PORT


def answer(request, context):
    time.sleep(0.05)
    return ANSWER.encode()


class Handler(grpc.GenericRpcHandler):
    def service(self, details):
        return grpc.unary_unary_rpc_method_handler(answer)


server = grpc.server(futures.ThreadPoolExecutor(16))
server.add_generic_rpc_handlers((Handler(),))
server.add_insecure_port("127.0.0.1:" + PORT)
server.start()
signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
server.wait_for_termination()
