"""Collective communication between ranks: a ring of TCP connections, built from the environment that launch.py sets."""
import json
import os
import socket
import struct
import time

TIMEOUT_SECONDS = 60  # for finding each other; a collective waits as long as it takes


class Ring:
    """Each rank sends to its right neighbour and receives from its left one."""

    def __init__(self, rank, world_size, right=None, left=None):
        self.rank = rank
        self.world_size = world_size
        self.right = right
        self.left = left

    def all_reduce(self, values):
        """Returns the sums over all ranks of a list of floats, bit for bit the same on every rank.

        Reduce-scatter, then all-gather: in each of 2 * (world_size - 1) steps a rank passes one chunk on.
        """
        if self.world_size == 1:
            return list(values)
        chunks = [list(values[start::self.world_size]) for start in range(self.world_size)]
        for step in range(self.world_size - 1):
            received = self.exchange(chunks[(self.rank - step) % self.world_size])
            index = (self.rank - step - 1) % self.world_size
            chunks[index] = [mine + theirs for mine, theirs in zip(chunks[index], received)]
        for step in range(self.world_size - 1):
            received = self.exchange(chunks[(self.rank - step + 1) % self.world_size])
            chunks[(self.rank - step) % self.world_size] = received
        return [chunks[index % self.world_size][index // self.world_size] for index in range(len(values))]

    def exchange(self, chunk):
        """Sends a chunk to the right while one comes from the left; odd ranks receive first, so no ring can fill up."""
        payload = struct.pack("!%dd" % len(chunk), *chunk)
        if self.rank % 2 == 1:
            received = receive_message(self.left)
        send_message(self.right, payload)
        if self.rank % 2 == 0:
            received = receive_message(self.left)
        return list(struct.unpack("!%dd" % (len(received) // 8), received))

    def close(self):
        for connection in filter(None, (self.right, self.left)):
            connection.close()


def init_process_group():
    """Joins the ranks of this job. Rank 0 listens on MASTER_ADDR:MASTER_PORT and tells everyone where the others are."""
    rank, world_size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    if world_size == 1:
        return Ring(rank, world_size)
    master = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(TIMEOUT_SECONDS)
        address = server.getsockname()
        addresses = serve_addresses(master, world_size, address) if rank == 0 else ask_addresses(master, rank, address)
        right = connect(addresses[(rank + 1) % world_size])
        left, _ = server.accept()
    for connection in (right, left):
        connection.settimeout(None)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return Ring(rank, world_size, right, left)


def serve_addresses(master, world_size, address):
    addresses, connections = {0: address}, []
    with socket.create_server(master) as server:
        server.settimeout(TIMEOUT_SECONDS)
        while len(addresses) < world_size:
            connection, _ = server.accept()
            rank, host, port = json.loads(receive_message(connection))
            addresses[rank] = (host, port)
            connections.append(connection)
    answer = json.dumps([addresses[rank] for rank in range(world_size)]).encode()
    for connection in connections:
        with connection:
            send_message(connection, answer)
    return addresses


def ask_addresses(master, rank, address):
    with connect(master) as connection:
        send_message(connection, json.dumps([rank, *address]).encode())
        return [tuple(other) for other in json.loads(receive_message(connection))]


def connect(address):
    """Connects, waiting for the other side to listen."""
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while True:
        try:
            return socket.create_connection(address, timeout=TIMEOUT_SECONDS)
        except ConnectionRefusedError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)


def send_message(connection, payload):
    connection.sendall(struct.pack("!I", len(payload)) + payload)


def receive_message(connection):
    return receive_exactly(connection, struct.unpack("!I", receive_exactly(connection, 4))[0])


def receive_exactly(connection, length):
    data = b""
    while len(data) < length:
        part = connection.recv(length - len(data))
        if not part:
            raise ConnectionError("a neighbour in the ring is gone")
        data += part
    return data
