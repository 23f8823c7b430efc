"""A gRPC client for tests: calls its target from several threads until its input ends, or until it has made so many
calls. Then it prints how many each server has answered, how many calls it made and how many failed.

Before, it prints one line for each call that failed, for every fiftieth call, and for each server that answers the first
time since then."""

import sys
import threading
import time
from collections import Counter

import grpc

over = threading.Event()
threading.Thread(target=lambda: (sys.stdin.read(), over.set()), daemon=True).start()
call = grpc.insecure_channel(sys.argv[1]).unary_unary("/borough.test.Echo/Call")
lock = threading.Lock()
most = int(sys.argv[2]) if len(sys.argv) > 2 else None
calls, failed, seen, answers = 0, 0, set(), Counter()


def ask():
    global calls, failed
    while not over.is_set():
        try:
            server, error = call(b"", timeout=10).decode(), None
        except grpc.RpcError as refused:
            server, error = None, refused
            time.sleep(0.05)
        with lock:
            calls += 1
            if calls == most:
                over.set()
            if error is not None:
                failed += 1
                print("failed", error.code().name, error.details(), flush=True)
            else:
                answers[server] += 1
                if server not in seen:
                    seen.add(server)
                    print("server", server, flush=True)
            if calls % 50 == 0:
                print("calls", calls, flush=True)
                seen.clear()


threads = [threading.Thread(target=ask) for _ in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
for server, count in answers.items():
    print("answered", server, count, flush=True)
print("over", calls, failed, flush=True)
