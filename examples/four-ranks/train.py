"""Trains a linear regression with synchronous SGD: every rank has a shard of the data, gradients are averaged over ranks.

Started by launch.py, which says who we are in the environment. Needs nothing but Python.
"""
import argparse
import json
import os
import queue
import random
import signal
import sys
import threading
import time

from comm import init_process_group

FEATURES = 8
BATCH_SIZE = 64
LEARNING_RATE = 0.1
TRUE_WEIGHTS = [(-1) ** index * (index + 1) / 2.0 for index in range(FEATURES)]
TRUE_BIAS = 0.75


class ShardReader:
    """This rank's shard in storage; `seconds_per_batch` stands for the time that storage takes."""

    def __init__(self, rank, seconds_per_batch, stall_at):
        self.random = random.Random(1000 + rank)
        self.seconds_per_batch = seconds_per_batch
        self.stall_at = stall_at
        self.storage_answers = threading.Event()

    def read_batch(self, step):
        if step == self.stall_at:
            self.wait_for_storage()
        time.sleep(self.seconds_per_batch)
        return [self.make_sample() for _ in range(BATCH_SIZE)]

    def wait_for_storage(self):
        self.storage_answers.wait()  # nobody ever sets it

    def make_sample(self):
        features = [self.random.gauss(0.0, 1.0) for _ in range(FEATURES)]
        noise = self.random.gauss(0.0, 0.1)
        return features, sum(w * x for w, x in zip(TRUE_WEIGHTS, features)) + TRUE_BIAS + noise


class Prefetcher(threading.Thread):
    """Reads batches ahead of the training loop on a thread of its own."""

    def __init__(self, reader, steps):
        super().__init__(name="prefetch", daemon=True)
        self.reader = reader
        self.steps = steps
        self.ready = queue.Queue(maxsize=2)

    def run(self):
        for step in range(self.steps):
            self.ready.put(self.reader.read_batch(step))

    def next_batch(self):
        return self.ready.get()


class LinearModel:
    def __init__(self):
        self.weights = [0.0] * FEATURES
        self.bias = 0.0

    def compute_gradients(self, batch):
        """Returns the gradients of the mean squared error, bias last, and the error itself."""
        gradients, loss = [0.0] * (FEATURES + 1), 0.0
        for features, target in batch:
            error = sum(w * x for w, x in zip(self.weights, features)) + self.bias - target
            loss += error * error / len(batch)
            for index, x in enumerate(features + [1.0]):
                gradients[index] += 2.0 * error * x / len(batch)
        return gradients, loss

    def apply(self, gradients):
        self.weights = [w - LEARNING_RATE * g for w, g in zip(self.weights, gradients)]
        self.bias -= LEARNING_RATE * gradients[-1]


def train_step(model, ring, batch):
    """One step on this rank's batch; returns the loss averaged over all ranks."""
    gradients, loss = model.compute_gradients(batch)
    averages = [total / ring.world_size for total in ring.all_reduce(gradients + [loss])]
    model.apply(averages[:-1])
    return averages[-1]


def stall(place):
    """Makes this rank misbehave in its main thread."""
    if place == "exit":
        sys.exit("giving up, as --stall-in exit asks")
    elif place == "sleep":
        time.sleep(10 ** 6)
    elif place == "compute":
        number = 0
        while True:
            number = (number * 31 + 7) % 1000003


def main():
    args = parse_arguments()
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C ends every rank; one traceback each helps nobody
    rank = int(os.environ["RANK"])
    ring = init_process_group()
    stall_at = args.stall_at if rank == args.stall_rank else None
    reader = ShardReader(rank, args.seconds / args.steps, stall_at if args.stall_in == "data" else None)
    prefetcher = Prefetcher(reader, args.steps)
    prefetcher.start()
    model = LinearModel()
    for step in range(args.steps):
        batch = prefetcher.next_batch()
        if step == stall_at:
            stall(args.stall_in)
        loss = train_step(model, ring, batch)
        if rank == 0 and (step % args.log_every == 0 or step == args.steps - 1):
            print("step %4d  loss %.6f" % (step, loss), flush=True)
    if args.save is not None:
        os.makedirs(args.save, exist_ok=True)
        with open(os.path.join(args.save, "rank-%d.json" % rank), "w") as file:
            json.dump({"weights": model.weights, "bias": model.bias}, file)
    ring.close()


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--seconds", type=float, default=12.0, help="how long storage takes for all batches (default: 12)")
    parser.add_argument("--log-every", type=int, default=10, metavar="STEPS")
    parser.add_argument("--save", metavar="DIR", help="write each rank's weights to DIR/rank-N.json")
    parser.add_argument("--stall-rank", type=int, metavar="R", help="make this rank misbehave")
    parser.add_argument("--stall-at", type=int, default=20, metavar="STEP")
    parser.add_argument("--stall-in", choices=["data", "compute", "exit", "sleep"], default="data",
                        help="wait for storage, spin, exit with 1, or sleep (default: data)")
    return parser.parse_args()


if __name__ == "__main__":
    main()
