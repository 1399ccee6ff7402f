"""What the jobs of these folders share: they say who is to blame, meet each other, and end with their parent."""
import ctypes
import os
import signal
import socket
import subprocess
import sys
import threading
import time

libc = ctypes.CDLL(None, use_errno=True)
PARENT_DEATH_SIGNAL = 1
HERE = os.path.dirname(os.path.abspath(__file__))


def end_with_parent():
    """Nothing is left behind: ends with the parent, and after ten minutes in any case."""
    libc.prctl(PARENT_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)
    signal.alarm(600)


end_with_parent()


def say(kind, **facts):
    with open(os.path.join(HERE, "truth"), "a") as truth:
        truth.write("".join("%s %s %s\n" % (kind, key, value) for key, value in facts.items()))


def blame(**facts):
    """Who is to blame: pid, thread or rank. Of several values of a kind, each is right."""
    say("culprit", **facts)


def spare(**facts):
    """Who merely waits: pid or rank."""
    say("victim", **facts)


def ready():
    """What is to be seen has begun, or is about to."""
    say("ready", now=1)


def role():
    """The role that this process was started in; nothing for the first one."""
    return sys.argv[1] if len(sys.argv) > 1 else None


def start(*arguments, **options):
    """Starts this same file in a role."""
    environment = dict(os.environ, **options.pop("env", {}))
    return subprocess.Popen([sys.executable, "-u", sys.argv[0], *map(str, arguments)], env=environment, **options)


def until(condition):
    while not condition():
        time.sleep(0.02)


def exists(name):
    return lambda: os.path.exists(name)


def touch(name):
    open(name, "w").close()


def start_ranks(count, role="rank", meets=True, **options):
    """Starts ranks as torchrun does, and a service that lets them meet, in a thread of this process."""
    service = socket.socket()
    service.bind(("127.0.0.1", 0))
    service.listen(64)
    port = service.getsockname()[1]
    if meets:
        threading.Thread(target=serve, args=(service, count), daemon=True).start()
    return [start(role, env={"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(count),
                             "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}, **options) for rank in range(count)]


def serve(service, count):
    ends = [service.accept()[0] for _ in range(count)]
    while True:
        for end in ends:
            if not end.recv(1):
                return threading.Event().wait()
        for end in ends:
            end.sendall(b"x")


def join(ranks):
    """Waits as a launcher does: looks at all of them again and again."""
    while any(rank.poll() is None for rank in ranks):
        time.sleep(0.1)
    sys.exit(max(abs(rank.returncode) for rank in ranks))


class Meeting:
    """A rank's place among the others."""

    def __init__(self):
        self.rank = int(os.environ["RANK"])
        self.end = socket.create_connection((os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])))

    def all_reduce(self):
        self.end.sendall(b"x")
        return self.end.recv(1)


def private_mounts():
    """A mount namespace of its own: what is mounted in it goes with its last process."""
    if libc.unshare(0x00020000) != 0 or libc.mount(b"none", b"/", None, 16384 | 1 << 18, None) != 0:
        raise OSError(ctypes.get_errno(), "no mount namespace")


def mount_tmpfs(target, options):
    os.makedirs(target, exist_ok=True)
    if libc.mount(b"tmpfs", target.encode(), b"tmpfs", 0, options.encode()) != 0:
        raise OSError(ctypes.get_errno(), "no tmpfs at " + target)


class Cgroup:
    """A cgroup of version 1 below that of the caller. It goes when the job is told to end."""

    def __init__(self, controller, **settings):
        own = "/"
        with open("/proc/self/cgroup") as lines:
            for line in lines:
                _, names, path = line.rstrip("\n").split(":", 2)
                if controller in names.split(","):
                    own = path
        self.path = os.path.join("/sys/fs/cgroup", controller, own.strip("/"), "job-%d" % os.getpid())
        os.mkdir(self.path)
        self.ends = []
        signal.signal(signal.SIGTERM, self.end)
        for name, value in settings.items():
            self.write(name.replace("__", "."), value)

    def write(self, name, value):
        with open(os.path.join(self.path, name), "w") as file:
            file.write(str(value))

    def read(self, name):
        with open(os.path.join(self.path, name)) as file:
            return file.read()

    def add(self, pid):
        self.write("cgroup.procs", pid)

    def end(self, *_):
        for end in self.ends:
            end()
        for pid in self.read("cgroup.procs").split():
            os.kill(int(pid), signal.SIGKILL)
        for _ in range(500):
            try:
                os.rmdir(self.path)
                break
            except OSError:
                time.sleep(0.02)
        os._exit(143)
