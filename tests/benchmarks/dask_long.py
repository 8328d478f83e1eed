"""Ten minutes of Dask work from a notebook, over workers whose jobs last four: what is lost."""

from __future__ import annotations

from .cluster import Cluster
from .notebook import kernel_with, number_in, run_cell
from .report import Row

WORKERS, MINUTES = 4, 10
WHAT = f"{MINUTES} minutes of work on {WORKERS} Dask workers of four-minute jobs"
_MADE = f"""
import time
from distributed import SchedulerPlugin, wait
from portal_cluster import dask

class Counted(SchedulerPlugin):
    name = "counted"

    def __init__(self):
        self.results, self.workers = {{}}, set()

    def transition(self, key, start, finish, *arguments, **more):
        if (start, finish) == ("processing", "memory"):
            self.results[key] = self.results.get(key, 0) + 1

    def add_worker(self, scheduler, worker):
        self.workers.add(scheduler.workers[worker].name)

def work(number):
    time.sleep(0.2)
    return number * number

cluster, counted = dask({WORKERS}, cpus=1, memory="400M", time="0:04:00"), Counted()
cluster._scheduler.add_plugin(counted)
client = cluster.get_client()
client.wait_for_workers({WORKERS}, timeout=120)
"""
# All results stay on the workers to the end: those of a worker that ends must go to others.
_WORKED = f"""
end, tasks, futures, said = time.monotonic() + {60 * MINUTES}, 0, [], 0
while time.monotonic() < end:
    done = client.map(work, range(tasks, tasks + 40))
    tasks, futures = tasks + 40, futures + done
    wait(done)
    if tasks - said > 1000:
        said = tasks
        print(tasks, "tasks,", len(counted.workers), "workers", flush=True)
values = set(client.gather(futures, errors="skip"))
print("tasks", tasks)
print("lost", sum(number * number not in values for number in range(tasks)))
print("recomputed", sum(times - 1 for times in counted.results.values()))
print("replaced", len(counted.workers) - {WORKERS})
client.close()
cluster.close()
"""


def measure(cluster: Cluster) -> list[Row]:
    """Return the rows; takes eleven minutes."""
    with kernel_with(cluster, "distributed") as kernel:
        run_cell(kernel, _MADE)
        said = run_cell(kernel, _WORKED, 60 * MINUTES + 300)
    print(said, flush=True)
    tasks, lost, recomputed, replaced = (
        int(number_in(said, word)) for word in ("tasks", "lost", "recomputed", "replaced")
    )
    return [
        Row(f"{WHAT}: tasks lost, of {tasks:,}", lost, "", goal="none", met=lost == 0),
        Row(f"{WHAT}: tasks computed again", recomputed, ""),
        Row(
            f"{WHAT}: workers replaced",
            replaced,
            "",
            goal=f"each twice, {2 * WORKERS}",
            met=replaced >= 2 * WORKERS,
        ),
    ]
