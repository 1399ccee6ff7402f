"""Types into an interactive bash on a pseudo-terminal, runs the wrapper there, and prints `ready` when all went as expected."""
import fcntl
import os
import pty
import select
import signal
import struct
import sys
import termios
import time

WRAP = sys.argv[1]
PYTHON = sys.executable
signal.alarm(240)  # whatever happens, this script ends
seen = ""
history = ""


def expect(text, deadline=60):
    """Reads the terminal until `text` shows up, and forgets what came before its end."""
    global seen, history
    end = time.monotonic() + deadline
    while text not in seen:
        if time.monotonic() > end:
            sys.exit("never saw %r; the terminal shows:\n%s" % (text, history))
        if select.select([terminal], [], [], 0.1)[0]:
            news = os.read(terminal, 4096).decode(errors="replace")
            seen, history = seen + news, history + news
    position = seen.index(text) + len(text)
    before, seen = seen[:position], seen[position:]
    return before


def type_in(text):
    os.write(terminal, text.encode())


def state(pid):
    with open("/proc/%d/stat" % pid) as file:
        return file.read().rsplit(")", 1)[1].split()[0]


def wait_for_state(pid, wanted):
    end = time.monotonic() + 60
    while state(pid) not in wanted:
        if time.monotonic() > end:
            sys.exit("process %d is %s, not %s" % (pid, state(pid), wanted))
        time.sleep(0.005)


def number_after(name):
    expect(name + "=")
    return int(expect(";")[:-1])


def exit_status():
    """Asks the outer shell how its last job ended. The quotes inside the word keep the typed line from being the answer."""
    type_in("echo st''atus=$?';'\n")
    status = number_after("status")
    expect("PROMPT> ")
    return status


shell, terminal = pty.fork()
if shell == 0:
    os.environ["PS1"] = "PROMPT> "
    os.execvp("bash", ["bash", "--norc", "--noprofile", "-i"])
expect("PROMPT> ")

SCRIPT = """import os, time
try:
    print('wrapper=%d;task=%d;' % (os.getppid(), os.getpid()), flush=True)
    while True: time.sleep(0.05)
except KeyboardInterrupt:
    print('inter' + 'rupted')
    try: time.sleep(0.5)
    except KeyboardInterrupt: print('twi' + 'ce')
    raise SystemExit(11)
"""
with open("task.py", "w") as file:
    file.write(SCRIPT)

# Ctrl-Z stops both, fg continues both, Ctrl-C arrives once.
type_in("%s %s task.py\n" % (WRAP, PYTHON))
wrapper, task = number_after("wrapper"), number_after("task")
type_in("\x1a")
expect("Stopped")
expect("PROMPT> ")
wait_for_state(wrapper, "T")
wait_for_state(task, "T")
type_in("fg\n")
wait_for_state(wrapper, "SR")
wait_for_state(task, "SR")
type_in("\x03")
expect("interrupted")
assert "twice" not in expect("PROMPT> ")
assert exit_status() == 11

# A background job that reads the terminal stops with us, and goes on in the foreground.
type_in("%s sh -c 'read line; echo g\"\"ot=$line\";\"; exit 4' &\n" % WRAP)
expect("PROMPT> ")
while True:
    type_in("jobs\n")
    if "Stopped" in expect("PROMPT> "):
        break
type_in("fg\n")
expect("read line")
type_in("21\n")
assert number_after("got") == 21
expect("PROMPT> ")
assert exit_status() == 4

# A shell inside has job control of its own, and gives the terminal back.
type_in("PS1='IN''NER> ' %s bash --norc --noprofile -i\n" % WRAP)
expect("INNER> ")
# With exec, for a shell that is stopped in the middle of a vfork hangs until its child is continued.
type_in("sh -c 'echo beg\"\"un; exec sleep 1000'\n")
expect("begun")
type_in("\x1a")
expect("Stopped")
expect("INNER> ")
type_in("kill -9 %1; while kill -0 %1; do :; done; exit 5\n")
expect("exit 5")
expect("PROMPT> ")
assert exit_status() == 5

# A password is asked for without an echo, and a size that changes is told of.
type_in("%s %s -c 'import getpass; print(\"as\" + \"ked\", getpass.getpass(\"pass\" + \"word: \")[::-1], flush=True)'\n" % (WRAP, PYTHON))
expect("password: ")
type_in("sesame\n")
assert "sesame" not in expect("asked emases")
expect("PROMPT> ")
assert exit_status() == 0
resized = """import signal, time
def told(*_):
    print('resi' + 'zed', flush=True)
    raise SystemExit
signal.signal(signal.SIGWINCH, told)
print('lis' + 'tens', flush=True)
while True: time.sleep(0.05)
"""
with open("resized.py", "w") as file:
    file.write(resized)
type_in("%s %s resized.py\n" % (WRAP, PYTHON))
expect("listens")
fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 90, 0, 0))
expect("resized")
expect("PROMPT> ")

# Where the background may not write, a task in the background stops at its first word, and goes on in the foreground.
type_in("stty tostop\n")
expect("PROMPT> ")
type_in("%s sh -c 'sleep 0.1; echo wor\"\"ds; exit 6' &\n" % WRAP)
expect("PROMPT> ")
while True:
    type_in("jobs\n")
    if "Stopped" in expect("PROMPT> "):
        break
type_in("fg\n")
expect("words")
expect("PROMPT> ")
assert exit_status() == 6
print("ready", flush=True)
