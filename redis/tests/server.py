# SPDX-License-Identifier: MIT
"""Real servers on loopback for the tests of the module, and a small client.

A Server runs in a temporary folder of its own, on a free port.  It ends with the program that started
it.  The client speaks RESP2 and RESP3 and shows the type of each reply, which client libraries hide.
"""
import atexit
import functools
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import tempfile

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[2] / "tests" / folder) for folder in ("support", "lint")]
from loopback import HOST, Process, free_port, wait_until

KINDS = ("redis", "valkey")


# ---- the client ----


class ReplyError(Exception):
    """An error reply."""


class Client:
    """A connection.  Bulk strings are bytes, simple strings are str, booleans are bool, maps are dict."""

    def __init__(self, port, protocol=2, timeout=240):
        self.socket = socket.create_connection((HOST, port), timeout)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.reader = self.socket.makefile("rb", 1 << 18)
        if protocol == 3:
            self("HELLO", "3")

    def __call__(self, *words):
        """Sends a command and returns its reply.  Raises ReplyError for an error reply."""
        self.send(words)
        reply = self.receive()
        if isinstance(reply, ReplyError):
            raise reply
        return reply

    def send(self, *commands):
        self.socket.sendall(b"".join(map(encode, commands)))

    def pipeline(self, commands, depth=1000):
        """The replies to many commands.  Error replies are among them as values."""
        replies, commands = [], list(commands)
        for start in range(0, len(commands), depth):
            part = commands[start : start + depth]
            self.send(*part)
            replies.extend(self.receive() for _ in part)
        return replies

    def error(self, *words):
        """The text of the error that a command must get."""
        try:
            reply = self(*words)
        except ReplyError as error:
            return str(error)
        raise AssertionError(f"{words} got {reply!r} instead of an error")

    def receive(self):
        line = self.reader.readline()
        if not line.endswith(b"\r\n"):
            raise ConnectionError("the server closed the connection")
        kind, rest = line[:1], line[1:-2]
        if kind == b"+":
            return rest.decode()
        if kind == b"-":
            return ReplyError(rest.decode(errors="replace"))
        if kind in b":(":
            return int(rest)
        if kind == b"#":
            return rest == b"t"
        if kind == b",":
            return float(rest)
        if kind == b"_" or rest == b"-1":
            return None
        size = int(rest)
        if kind in b"$=!":
            data = self.reader.read(size + 2)[:-2]
            return ReplyError(data.decode()) if kind == b"!" else data
        if kind in b"*~>":
            return [self.receive() for _ in range(size)]
        if kind == b"%":
            return {self.receive(): self.receive() for _ in range(size)}
        raise ValueError(f"unknown reply {line!r}")

    def close(self):
        self.reader.close()
        self.socket.close()

    # What tests ask for often.

    def info(self, section, field):
        for line in self("INFO", section).decode().splitlines():
            name, _, value = line.partition(":")
            if name == field:
                return int(value) if value.lstrip("-").isdigit() else value
        raise KeyError(field)


def encode(words):
    if isinstance(words, str):
        words = words.split()
    parts = [b"*%d\r\n" % len(words)]
    for word in words:
        if not isinstance(word, bytes):
            word = str(word).encode()
        parts.append(b"$%d\r\n%s\r\n" % (len(word), word))
    return b"".join(parts)


# ---- the server ----


def find_program(kind):
    """The server's program, or None.  One that the environment names comes first.

    The server, the check of RDB files and the check of AOF files are one program, which goes by the name
    under which it is started.  Debian's package redis-tools (valkey-tools) has it as redis-check-rdb.
    So no package is needed that starts a server of the system.
    """
    named = os.environ.get(f"TAMIS_{kind.upper()}_SERVER")
    return named or shutil.which(f"{kind}-server") or shutil.which(f"{kind}-check-rdb")


@functools.cache
def temporary_folder():
    """Where the servers' folders are.  It is removed at the end, when they have been killed."""
    folder = tempfile.mkdtemp(prefix="tamis-redis.")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


class Server(Process):
    """A server with the module.  `module` is its path and its arguments; "" starts one without it.
    `preload` is a library that its program gets before all others."""

    def __init__(self, kind, module, *options, start=True, preload=None):
        # A module with AddressSanitizer needs its library in a server without it.  And pages that go back to the
        # system and come again would take a third of the tests' processor time.
        libraries = ":".join(filter(None, (os.environ.get("TAMIS_PRELOAD"), preload)))
        super().__init__([], tempfile.mkdtemp(prefix=f"{kind}.", dir=temporary_folder()), LD_PRELOAD=libraries,
                         **dict.fromkeys(("MALLOC_CONF", "JE_MALLOC_CONF"), "dirty_decay_ms:-1"))
        self.kind = kind
        self.module = [module] if isinstance(module, str) else list(module)
        self.options = options
        self.config = None  # a file, in its folder
        self.port = self.cluster_port = None
        self.client = None
        if start:
            self.start()

    def start(self, *options):
        """Starts it on the files that the last run left.  Keeps its port, unless another took it."""
        run_as = self.folder / f"{self.kind}-server"
        if not run_as.is_symlink():
            run_as.symlink_to(find_program(self.kind))
        for _ in range(20):
            self.port = self.port or free_port()
            self.cluster_port = self.cluster_port or free_port()
            self.command = list(map(str, (
                run_as, *([self.config] if self.config else []), "--port", self.port, "--cluster-port", self.cluster_port,
                "--bind", HOST, "--dir", self.folder, "--save", "", "--enable-debug-command", "yes", "--daemonize", "no",
                "--repl-diskless-sync-delay", "0", *self.options, *options,
                *(["--loadmodule", *self.module] if self.module[0] else []))))
            super().start()
            if self.wait_for(self.has_loaded):
                return self
            self.kill()
            if "in use" not in self.log()[-2000:]:
                raise RuntimeError(f"the server does not start: {self.log()[-2000:]}")
            self.port = self.cluster_port = None
        raise RuntimeError("no free port")

    def has_loaded(self):
        """Whether it answers, and has read its files."""
        self.client = Client(self.port)
        return self.client.info("persistence", "loading") == 0

    def start_on_aof(self, commands):
        """Starts it on an AOF that has these commands and no others."""
        self.kill()
        (part,) = (self.folder / "appendonlydir").glob("*.incr.aof")
        part.write_bytes(b"".join(map(encode, [["SELECT", "0"], *commands])))
        self.start("--appendonly", "yes")

    def __call__(self, *words):
        return self.client(*words)

    def error(self, *words):
        return self.client.error(*words)

    def connect(self, protocol=2):
        return Client(self.port, protocol)

    def kill(self):
        super().kill()
        self.process = None
        if self.client:
            self.client.close()
            self.client = None

    def save(self):
        """Writes the RDB file.  The server refuses while a child writes that file for a replica.  DEBUG RELOAD without
        NOSAVE does not: the replica would load the newer file, and then run the commands since the fork again."""
        wait_until(lambda: self.client.pipeline([["SAVE"]]) == ["OK"], "the server saves")

    def rewrite(self):
        """A new AOF, whole."""
        self("BGREWRITEAOF")
        self.wait_for_rewrite()

    def wait_for_rewrite(self):
        wait_until(lambda: self.client.info("persistence", "aof_rewrite_in_progress") == 0 and
                   self.client.info("persistence", "aof_rewrite_scheduled") == 0, "the AOF is written")

    def stop(self):
        """Ends it as SHUTDOWN does."""
        self.client.send(["SHUTDOWN", "NOSAVE"])
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            pass
        self.kill()


def strict(replica):
    """Where the server has it, an error that the replication stream brings ends the replica."""
    replica.client.pipeline([["CONFIG", "SET", "propagation-error-behavior", "panic"]])


def in_step(master, replica):
    """A replica that has not yet seen that its master is another process has the link still up, and loads all later."""
    def equal():
        return replica.client.info("replication", "master_link_status") == "up" and \
            replica.client.info("replication", "master_replid") == master.client.info("replication", "master_replid") and \
            replica.client.info("replication", "master_repl_offset") >= offset
    offset = master.client.info("replication", "master_repl_offset")
    wait_until(equal, "the replica has all")


class Context:
    """What a test is given: a server that the tests share, and a way to start others."""

    def __init__(self, kind, module):
        self.kind, self.module = kind, os.path.abspath(module)
        self.shared, self.started = None, []

    def beside(self, name):
        """A library that is built for the tests."""
        return str(pathlib.Path(self.module).parent / "tests" / f"{name}.so")

    def server(self):
        """The shared server, empty."""
        self.shared = self.shared or Server(self.kind, self.module)
        self.shared("FLUSHALL")
        return self.shared

    def start(self, *options, kind=None, module=None, arguments=(), **named):
        server = Server(kind or self.kind, [module or self.module, *arguments], *options, **named)
        self.started.append(server)
        return server

    def other(self):
        """The other server, or None where it is missing."""
        return next((kind for kind in KINDS if kind != self.kind and find_program(kind)), None)

    def check_alive(self):
        for server in filter(None, (self.shared, *self.started)):
            if server.process and not server.alive():
                raise AssertionError(f"a server ended: {server.log()[-3000:]}")
            if "AddressSanitizer" in server.log():
                raise AssertionError(server.log()[-6000:])
        for server in self.started:
            server.kill()
        self.started = []

    def forget(self):
        for server in filter(None, (self.shared, *self.started)):
            server.kill()
        self.shared, self.started = None, []


def same(actual, expected, what=""):
    """Equal in value and in type: True is not 1, and b"OK" is not "OK"."""
    if _shape(actual) != _shape(expected):
        raise AssertionError(f"{what}: {actual!r:.300} instead of {expected!r:.300}")


def _shape(value):
    if isinstance(value, (list, tuple)):
        return [_shape(item) for item in value]
    if isinstance(value, dict):
        return {key: _shape(item) for key, item in value.items()}
    return type(value), value
