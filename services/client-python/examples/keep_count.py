"""A small platform: it keeps the counts of jobs by a rule, as long as it runs.

Each job with the label `per-node` gets so many tasks for each node that is ready: `per-node=2` on three nodes is 6. The
platform follows the cell. It decides again after each change of a node or a job, and acts only if a count is wrong.

Against `borough dev`:  python keep_count.py 127.0.0.1:7400 ~/.local/state/borough/dev/token example
"""

from __future__ import annotations

import contextlib
import sys

import borough

LABEL = "per-node"


def wanted(job: borough.Job, ready_nodes: int) -> int | None:
    """The rule: how many tasks a job is to have; None if the rule is not about it."""
    per_node = job.labels.get(LABEL, "")
    if not per_node.isdigit() or job.state != borough.JobState.RUNNING:
        return None
    return int(per_node) * ready_nodes


def decide(client: borough.Client) -> None:
    """Looks at all nodes and jobs, and changes the counts that are wrong."""
    ready = sum(node.schedulable for node in client.nodes.list(states=[borough.NodeState.READY]))
    for job in client.jobs.list(user=client.config.user):
        count = wanted(job, ready)
        if count is None or count == job.count:
            continue
        try:
            # The id: a later job of the name is another one, with a label of its own.
            client.jobs.scale(job.name, count, expected_job=job.id)
            print(f"{job.name}: {job.count} -> {count} tasks for {ready} nodes", flush=True)
        except borough.RefusedError as error:
            print(f"{job.name}: {error}", flush=True)


def main(gateway: str, token_file: str, user: str) -> None:
    """Runs the platform."""
    with borough.Client(gateway, user=user, cell="alpha", token_file=token_file) as client:
        while True:
            # The cursor is older than the look at the cell, so the watch misses no change after it.
            cursor = client.cells.cursor()
            decide(client)
            with client.cells.watch(borough.WatchFilter(jobs=True, nodes=True), resume=cursor) as watch:
                for item in watch:
                    if isinstance(item, borough.Resync):
                        break
                    if isinstance(item, borough.Change):
                        decide(client)


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        main(*sys.argv[1:4])
