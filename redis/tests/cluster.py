# SPDX-License-Identifier: MIT
"""A cluster of real servers on loopback, and a client that follows MOVED and ASK."""
import binascii
import functools
import time

from server import HOST, Client, ReplyError, Server, wait_until

SLOTS = 16384
NODE_TIMEOUT_MS = 15000  # so that a node that stands still on a busy machine is not failed over


@functools.lru_cache(maxsize=1 << 16)
def slot_of(key):
    """The slot of a key, or of what stands in the braces of its hash tag."""
    key = key.encode() if isinstance(key, str) else key
    begin = key.find(b"{")
    end = key.find(b"}", begin + 1)
    if begin >= 0 and end > begin + 1:
        key = key[begin + 1 : end]
    return binascii.crc_hqx(key, 0) % SLOTS


class Node(Server):
    def __init__(self, kind, module):
        super().__init__(kind, module, "--cluster-enabled", "yes", "--cluster-node-timeout", NODE_TIMEOUT_MS,
                         "--cluster-allow-replica-migration", "no", "--cluster-require-full-coverage", "no",
                         "--cluster-replica-validity-factor", "0")
        self.id = self("CLUSTER", "MYID")

    def is_master(self):
        return self("ROLE")[0] == b"master"


class Cluster:
    """Three masters with the slots spread evenly, and a replica of each."""

    def __init__(self, kind, module):
        self.nodes = [Node(kind, module) for _ in range(6)]
        self.masters, self.replicas = self.nodes[:3], self.nodes[3:]
        for i, node in enumerate(self.nodes):
            node("CLUSTER", "SET-CONFIG-EPOCH", i + 1)
        for i, node in enumerate(self.masters):
            node("CLUSTER", "ADDSLOTSRANGE", i * SLOTS // 3, (i + 1) * SLOTS // 3 - 1)
        for node in self.nodes[1:]:
            self.nodes[0]("CLUSTER", "MEET", HOST, node.port, node.cluster_port)
        wait_until(lambda: all(len(self.known(node)) == len(self.nodes) for node in self.nodes), "all nodes have met")
        for master, replica in zip(self.masters, self.replicas):
            replica("CLUSTER", "REPLICATE", master.id)
        self.wait()

    @staticmethod
    def known(node):
        return [line for line in node("CLUSTER", "NODES").decode().splitlines() if "handshake" not in line]

    def set_node_timeout(self, milliseconds):
        for node in self.nodes:
            if node.process:
                node("CONFIG", "SET", "cluster-node-timeout", milliseconds)

    @staticmethod
    def could_restart(node):
        """Whether a node would accept the file with its nodes.  Valkey up to 8.1 refuses to start when a replica
        in it has another shard than its master, as it has until they have told each other:
        https://github.com/valkey-io/valkey/issues/774."""
        shards, masters = {}, {}
        for line in (node.folder / "nodes.conf").read_text().splitlines():
            words = line.split()
            if words[:1] == ["vars"] or len(words) < 8:
                continue
            shards[words[0]] = [part for part in words[1].split(",") if part.startswith("shard-id=")]
            if words[3] != "-":
                masters[words[0]] = words[3]
        return all(shards.get(master) == shards[replica] for replica, master in masters.items())

    def wait(self, seconds=200):
        """Until all slots are served, each master that has slots has a replica that is in step, and any node
        could be killed and started again."""
        def ready():
            for node in self.nodes:
                if b"cluster_state:ok" not in node("CLUSTER", "INFO"):
                    return False
                role = node("ROLE")
                if role[0] == b"slave" and role[3] != b"connected" or role[0] == b"master" and not role[2]:
                    return False
                if not self.could_restart(node):
                    return False
            return True
        wait_until(ready, "the cluster is up", seconds)

    def owner(self, slot):
        """The master that has a slot, as the first live master sees it."""
        viewer = next(node for node in self.nodes if node.process and node.is_master())
        for first, last, master, *_ in viewer("CLUSTER", "SLOTS"):
            if first <= slot <= last:
                return next(node for node in self.nodes if node.id == master[2])
        raise KeyError(slot)

    def move(self, slot, target, seconds=200):
        """Moves a slot with its keys, while clients use them, to a node or to what has taken its place.
        Begins again when a failover comes between."""
        until = time.monotonic() + seconds
        pair = next(pair for pair in zip(self.masters, self.replicas) if target in pair)
        while True:
            try:
                master = next((node for node in pair if node.process and node.is_master()), target)
                return self._move(slot, master)
            except ReplyError as error:
                if not any(words in str(error) for words in self.FAILED_OVER) or time.monotonic() > until:
                    raise
            time.sleep(0.1)  # until the nodes agree again

    # Errors of commands that a move sends to a node that is no longer, or not yet, what it was taken for.
    FAILED_OVER = ("CLUSTERDOWN", "MOVED", "READONLY", "only with masters", "not a master",
                   "the owner of hash slot")

    def _move(self, slot, target):
        source = self.owner(slot)
        if source is target:
            return 0
        target("CLUSTER", "SETSLOT", slot, "IMPORTING", source.id)
        source("CLUSTER", "SETSLOT", slot, "MIGRATING", target.id)
        moved, replace = 0, []
        while True:
            keys = source("CLUSTER", "GETKEYSINSLOT", slot, "100")
            if not keys:
                break
            try:
                source("MIGRATE", HOST, target.port, "", "0", "60000", *replace, "KEYS", *keys)
            except ReplyError as error:
                if "IOERR" not in str(error) or replace:
                    raise
                replace = ["REPLACE"]  # the target may have it already, and the source's is the one in use
                continue
            moved += len(keys)
            target("WAIT", "1", "30000")
        for node in (target, source, *(node for node in self.nodes if node not in (source, target))):
            if node.process and node.is_master():
                node("CLUSTER", "SETSLOT", slot, "NODE", target.id)
        return moved

    def stop(self):
        for node in self.nodes:
            node.kill()


class ClusterClient:
    """Sends commands in batches to the nodes that have their keys."""

    # Errors that another try may not get, with the slots as they are then.
    PASSING = ("MOVED", "TRYAGAIN", "CLUSTERDOWN", "LOADING", "MASTERDOWN", "READONLY")

    def __init__(self, ports):
        self.ports = list(ports)
        self.connections = {}
        self.slots = {}
        self.moved = self.asked = self.broken = 0
        self.refresh()

    def refresh(self):
        for port in (*self.connections, *self.ports):
            try:
                rows = self.connection(port)("CLUSTER", "SLOTS")
            except (OSError, ReplyError):
                self.drop(port)
                continue
            self.slots = {}
            for first, last, master, *_ in rows:
                for slot in range(first, last + 1):
                    self.slots[slot] = master[1]
            if self.slots:
                return
        time.sleep(0.1)

    def connection(self, port):
        if port not in self.connections:
            self.connections[port] = Client(port)
        return self.connections[port]

    def drop(self, port):
        connection = self.connections.pop(port, None)
        if connection:
            connection.close()

    def batch(self, commands, replicas=0):
        """For each command (name, key, ...) a pair: the reply, and whether WAIT says that so many replicas
        have it.  ConnectionRefusedError: it was not sent.  Another OSError: nobody knows."""
        results = [(ConnectionRefusedError("no node has the slot"), False)] * len(commands)
        by_port = {}
        for i, command in enumerate(commands):
            port = self.slots.get(slot_of(command[1]))
            if port:
                by_port.setdefault(port, []).append(i)
        stale = len(by_port) == 0
        wait = [["WAIT", replicas, 500]] if replicas else []
        for port, members in by_port.items():
            *replies, acknowledged = self.send(port, [commands[i] for i in members], wait)
            for i, reply in zip(members, replies):
                word, *where = str(reply).split() if isinstance(reply, ReplyError) else [""]
                results[i] = (reply, acknowledged and not self.passing(reply))
                if word == "MOVED":
                    self.moved += 1
                    self.slots[int(where[0])] = int(where[1].rpartition(":")[2])
                elif word == "ASK":
                    self.asked += 1
                    results[i] = tuple(self.send(int(where[1].rpartition(":")[2]), [["ASKING"], commands[i]], wait)[1:])
                else:
                    stale = stale or self.passing(reply)
        if stale:
            self.refresh()
        return results

    def send(self, port, commands, wait):
        """The replies of a node, or for each command the error of the connection; and whether WAIT has had enough replicas."""
        try:
            replies = self.connection(port).pipeline(commands + wait, depth=1 << 20)
        except OSError as error:
            self.broken += 1
            self.drop(port)
            return [error] * len(commands) + [False]
        enough = not wait or isinstance(replies[-1], int) and replies[-1] >= wait[0][1]
        return replies[: len(commands)] + [enough]

    @classmethod
    def passing(cls, reply):
        """Whether a reply is an error that another try may not get."""
        return isinstance(reply, OSError) or isinstance(reply, ReplyError) and str(reply).split()[0] in (*cls.PASSING, "ASK")

    def __call__(self, *command, seconds=200):
        """One command, tried until it is carried out."""
        until = time.monotonic() + seconds
        while True:
            ((reply, _),) = self.batch([command])
            if not self.passing(reply):
                if isinstance(reply, ReplyError):
                    raise reply
                return reply
            if time.monotonic() > until:
                raise reply
            time.sleep(0.05)
