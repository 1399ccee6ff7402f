"""The reader of a multiprocessing pipe kept its sending end and waits for the end of the stream."""
# expect: hung pipe-orphaned
import multiprocessing
import os
from kit import blame, end_with_parent, ready


def produce(sender):
    end_with_parent()
    for number in range(5):
        sender.send(number)


fork = multiprocessing.get_context("fork")
receiver, sender = fork.Pipe(duplex=False)
child = fork.Process(target=produce, args=(sender,))
child.start()
child.join()
blame(pid=os.getpid())
ready()
while True:
    receiver.recv()
