"""Runs the job as a user would: `python3 -m unittest`."""
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
DEADLINE_SECONDS = 60


def command(*arguments, ranks=4):
    script = os.path.join(HERE, "train.py")
    return [sys.executable, os.path.join(HERE, "launch.py"), "--nproc-per-node", str(ranks), script, *arguments]


def run(*arguments, ranks=4):
    return subprocess.run(command(*arguments, ranks=ranks), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          universal_newlines=True, timeout=DEADLINE_SECONDS)


def ranks_of(launcher):
    with open("/proc/%d/task/%d/children" % (launcher.pid, launcher.pid)) as file:
        return [int(pid) for pid in file.read().split()]


class FourRanks(unittest.TestCase):
    def test_the_loss_goes_down_and_every_rank_ends_with_the_same_weights(self):
        for ranks in (1, 2, 3, 4):
            with self.subTest(ranks=ranks), tempfile.TemporaryDirectory() as folder:
                job = run("--seconds", "0.2", "--save", folder, ranks=ranks)
                self.assertEqual((job.returncode, job.stderr), (0, ""))
                losses = [float(line.split()[-1]) for line in job.stdout.splitlines()]
                self.assertEqual(len(losses), 7)
                self.assertLess(losses[-1], losses[0] / 1000)
                models = []
                for rank in range(ranks):
                    with open(os.path.join(folder, "rank-%d.json" % rank)) as file:
                        models.append(json.load(file))
                self.assertTrue(all(model == models[0] for model in models), models)
                self.assertAlmostEqual(models[0]["bias"], 0.75, delta=0.05)

    def test_the_same_job_prints_the_same_losses(self):
        first, second = run("--seconds", "0.1"), run("--seconds", "0.1")
        self.assertEqual(first.stdout, second.stdout)

    def test_a_failing_rank_fails_the_job_and_ends_the_others(self):
        job = run("--seconds", "0.5", "--stall-rank", "2", "--stall-at", "3", "--stall-in", "exit")
        self.assertEqual(job.returncode, 1, job.stderr)
        self.assertIn("giving up", job.stderr)
        self.assertIn("exited with 1", job.stderr)

    def test_sigterm_ends_a_stalled_job_with_its_ranks(self):
        for place in ("data", "compute", "sleep"):
            stall = ["--seconds", "0.2", "--log-every", "1", "--stall-rank", "1", "--stall-at", "2", "--stall-in", place]
            with self.subTest(place=place):
                launcher = subprocess.Popen(command(*stall), stdout=subprocess.PIPE, universal_newlines=True)
                try:
                    lines = [launcher.stdout.readline() for _ in range(2)]  # steps 0 and 1; nobody gets past step 2
                    self.assertIn("step    1", lines[1])
                    ranks = ranks_of(launcher)
                    self.assertEqual(len(ranks), 4)
                    launcher.send_signal(signal.SIGTERM)
                    rest, _ = launcher.communicate(timeout=DEADLINE_SECONDS)
                finally:
                    launcher.kill()
                    launcher.wait()
                self.assertEqual((launcher.returncode, rest), (143, ""))
                for pid in ranks:
                    self.assertFalse(os.path.exists("/proc/%d" % pid))

    def test_a_rank_killed_by_a_signal_is_128_and_the_signal(self):
        launcher = subprocess.Popen(command("--seconds", "30"), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                    universal_newlines=True)
        try:
            deadline = time.monotonic() + DEADLINE_SECONDS
            launcher.stdout.readline()  # step 0: everyone has joined
            self.assertLess(time.monotonic(), deadline)
            victim = ranks_of(launcher)[3]
            os.kill(victim, signal.SIGKILL)
            _, words = launcher.communicate(timeout=DEADLINE_SECONDS)
        finally:
            launcher.kill()
            launcher.wait()
        # The others may fail of the broken ring in the same moment, and the lowest rank is named.
        self.assertIn(launcher.returncode, (1, 137), words)


if __name__ == "__main__":
    unittest.main()
