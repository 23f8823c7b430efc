"""Submits a job, waits until it is healthy, reads its output, and stops it.

Against `borough dev`:  python submit_and_wait.py 127.0.0.1:7400 ~/.local/state/borough/dev/token
"""

from __future__ import annotations

import sys

import borough


def main(gateway: str, token_file: str) -> None:
    """Runs the example."""
    spec = borough.job(
        "hello",
        ["sh", "-c", "echo hello from $BOROUGH_INDEX; exec sleep 600"],
        count=2,
        memory="16MiB",
        labels={"example": "submit"},
    )
    with borough.Client(gateway, user="example", cell="alpha", token_file=token_file) as client:
        submission = client.jobs.submit(spec)
        for warning in submission.warnings:
            print("warning:", warning)
        try:
            result = client.jobs.wait("hello", timeout=60, on_progress=print)
        except borough.WaitError as error:
            sys.exit(f"not healthy: {error}")
        for task in result.tasks:
            print(f"{task.index} on {task.node}:", client.tasks.logs(f"hello/{task.index}").read_all().decode().strip())
        client.jobs.stop("hello")
        print(client.jobs.wait("hello", ended=True, timeout=60).outcome.value)


if __name__ == "__main__":
    main(*sys.argv[1:3])
