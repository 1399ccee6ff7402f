"""Starts the ranks of a job on this machine, as torchrun does: `launch.py [--nproc-per-node N] [SCRIPT [ARGUMENT]...]`."""
import argparse
import os
import signal
import socket
import subprocess
import sys
import time

MONITOR_SECONDS = 0.05
GRACE_SECONDS = 10


def find_free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def rank_environment(rank, world_size, port):
    """All that a rank is told; one node, so the local and the global numbers are the same."""
    environment = dict(os.environ)
    environment.update({
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "WORLD_SIZE": str(world_size),
        "LOCAL_WORLD_SIZE": str(world_size),
        "GROUP_RANK": "0",
        "GROUP_WORLD_SIZE": "1",
        "ROLE_NAME": "default",
        "ROLE_RANK": str(rank),
        "ROLE_WORLD_SIZE": str(world_size),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "TORCHELASTIC_RUN_ID": "four-ranks",
        "TORCHELASTIC_RESTART_COUNT": "0",
        "TORCHELASTIC_MAX_RESTARTS": "0",
    })
    environment.setdefault("OMP_NUM_THREADS", "1")
    return environment


class Job:
    def __init__(self):
        self.ranks = []
        self.received = None  # the signal that asked us to end
        self.deadline = None  # for ranks that were asked to end

    def start(self, command, world_size):
        port = find_free_port()
        for rank in range(world_size):
            if self.received is None:
                self.ranks.append(subprocess.Popen(command, env=rank_environment(rank, world_size, port)))

    def on_signal(self, number, _frame):
        self.received = number
        self.stop_ranks(number)

    def stop_ranks(self, number):
        if self.deadline is None:
            self.deadline = time.monotonic() + GRACE_SECONDS
        for process in self.ranks:
            if process.poll() is None:
                process.send_signal(number)

    def wait(self):
        """Returns the exit status of the job: 0, or that of the rank that failed first."""
        failed = None
        while True:
            running = [process for process in self.ranks if process.poll() is None]
            if failed is None and self.received is None:
                failed = self.first_failure()
                if failed is not None:
                    self.stop_ranks(signal.SIGTERM)
            if not running:
                return failed if failed is not None else self.first_failure() or 0
            if self.deadline is not None and time.monotonic() > self.deadline:
                for process in running:
                    process.kill()
            time.sleep(MONITOR_SECONDS)

    def first_failure(self):
        for rank, process in enumerate(self.ranks):
            if process.poll() not in (None, 0):
                status = process.returncode
                how = "exited with %d" % status if status > 0 else "was ended by signal %d" % -status
                print("launch: rank %d (pid %d) %s" % (rank, process.pid, how), file=sys.stderr, flush=True)
                return status if status > 0 else 128 - status
        return None


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nproc-per-node", type=int, default=4, metavar="N", help="ranks to start (default: 4)")
    parser.add_argument("script", nargs="?", default=os.path.join(os.path.dirname(os.path.abspath(__file__)), "train.py"))
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="handed to the script")
    args = parser.parse_args()
    job = Job()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, job.on_signal)
    job.start([sys.executable, "-u", args.script] + args.arguments, args.nproc_per_node)
    return job.wait()


if __name__ == "__main__":
    sys.exit(main())
