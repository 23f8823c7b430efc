"""A gRPC client for tests: calls its target until its input ends, then prints how many calls it made and how many failed.

Before, it prints one line for each server that answers for the first time."""

import sys
import threading
import time

import grpc

over = threading.Event()
threading.Thread(target=lambda: (sys.stdin.read(), over.set()), daemon=True).start()
call = grpc.insecure_channel(sys.argv[1]).unary_unary("/borough.test.Echo/Call")
calls, failed, seen = 0, 0, set()
while not over.is_set():
    calls += 1
    try:
        server = call(b"", timeout=10).decode()
        if server not in seen:
            seen.add(server)
            print("server", server, flush=True)
    except grpc.RpcError as error:
        failed += 1
        print("failed", error.code().name, error.details(), flush=True)
    time.sleep(0.005)
print("over", calls, failed, flush=True)
