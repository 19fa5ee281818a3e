# SPDX-License-Identifier: MIT
"""The real parts of the guard's scenario on loopback: PostgreSQL, Redis, and processes of the guard."""
import collections
import http.client
import os
import pathlib
import pwd
import re
import shutil
import signal
import socket
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tests/support"))
from loopback import HOST, Process, answers, end_with_parent, free_port, wait_until  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
USER = "nobody"  # what root runs the servers as: PostgreSQL refuses root, and nothing here needs it
OWNER_PASSWORD, GUARD_PASSWORD = "owner's secret", "guard's secret"


def unprivileged(command):
    if os.geteuid() != 0:
        return command
    group = pwd.getpwnam(USER).pw_gid
    return ["setpriv", f"--reuid={USER}", f"--regid={group}", "--clear-groups", "--pdeathsig=KILL", "--", *command]


def own(path):
    if os.geteuid() == 0:
        shutil.chown(path, USER)
    return path


def make_folder(path):
    path.mkdir(exist_ok=True)
    return own(path)


def write_secret(path, text):
    path.write_text(text)
    path.chmod(0o600)
    return own(path)


def postgres_program(name):
    found = sorted(pathlib.Path("/usr/lib/postgresql").glob(f"*/bin/{name}"), key=lambda path: int(path.parts[4]))
    return found[-1] if found else shutil.which(name)


# ---- checks ----


class Broken(Exception):
    """A promise was not kept."""


def check(condition, promise, *facts):
    if not condition:
        raise Broken(f"BROKEN: {promise}" + "".join(f"; {fact}" for fact in facts))


def table(rows):
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    for row in rows:
        print("  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip(), flush=True)


def legend(words):
    """What the columns of a table mean."""
    for word, meaning in words.items():
        print(f"    {word}: {meaning}", flush=True)


# ---- PostgreSQL ----


class Sql:
    """A session of psql."""

    END = "that was all"

    def __init__(self, database, user="owner", password=OWNER_PASSWORD):
        self.process = subprocess.Popen(
            ["psql", "-XqAt", "-v", "ON_ERROR_STOP=1", database.address(user)], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, preexec_fn=end_with_parent,
            env={**os.environ, "PGPASSWORD": password})

    def __call__(self, text):
        """The lines that a statement returns.  ConnectionError, if it failed or the database has gone."""
        lines = []
        try:
            self.process.stdin.write(f"{text};\n\\echo {self.END}\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            raise ConnectionError("psql has ended") from None
        for line in self.process.stdout:
            if line.strip() == self.END:
                return lines
            lines.append(line.rstrip("\n"))
        raise ConnectionError("\n".join(lines))

    def close(self):
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()


class Database:
    """A server of PostgreSQL with a folder of its own."""

    def __init__(self, folder):
        self.folder = make_folder(folder)
        self.data = self.folder / "data"
        password = write_secret(self.folder / "password", OWNER_PASSWORD + "\n")
        subprocess.run(
            unprivileged([str(postgres_program("initdb")), "-D", str(self.data), "-U", "owner", "-A",
                          "scram-sha-256", f"--pwfile={password}", "-E", "UTF8", "--no-sync"]),
            check=True, stdout=subprocess.DEVNULL, cwd=self.folder)
        self.port = free_port()
        # Processes are killed here, and never the machine, so that nothing is lost without fsync.
        settings = {"wal_level": "logical", "fsync": "off", "listen_addresses": HOST, "port": self.port,
                    "unix_socket_directories": "", "max_connections": 100, "max_wal_size": "256MB",
                    "checkpoint_timeout": "30s", "wal_sender_timeout": "10s",
                    "dynamic_shared_memory_type": "mmap"}  # in its folder, and not in /dev/shm
        options = [f"--{name}={value}" for name, value in settings.items()]
        self.others = []  # processes of a server that was killed
        self.process = Process(unprivileged([postgres_program("postgres"), "-D", self.data, *options]), self.folder)

    def start(self):
        """After a kill -9 of the first process, the others end, too; those that hang are killed, as an operator
        must do."""
        for tries in range(100):
            self.process.start()
            if self.process.wait_for(self.is_ready):
                self.others = []
                return self
            time.sleep(0.1)
            if tries > 10:
                self.kill_others()
        raise AssertionError(f"PostgreSQL does not start: {self.process.log()[-2000:]}")

    def is_ready(self):
        command = ["pg_isready", "-q", "-h", HOST, "-p", str(self.port), "-d", "postgres"]
        return answers(self.port) and subprocess.run(command).returncode == 0

    def address(self, user):
        return f"host={HOST} port={self.port} dbname=postgres user={user}"

    def kill(self, all_processes=False):
        path = pathlib.Path(f"/proc/{self.process.process.pid}/task/{self.process.process.pid}/children")
        self.others = list(map(int, path.read_text().split()))
        self.process.kill()
        if all_processes:
            self.kill_others()

    def kill_others(self):
        for pid in self.others:
            try:
                if str(self.data) in pathlib.Path(f"/proc/{pid}/cwd").readlink().as_posix():
                    os.kill(pid, signal.SIGKILL)
            except OSError:
                pass

    def kill_backend(self):
        """A process that serves a connection.  The server then ends all others, and begins anew."""
        try:
            sql = Sql(self)
            pids = sql("SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend'"
                       " AND pid <> pg_backend_pid() ORDER BY random()")
            os.kill(int(pids[0]), signal.SIGKILL)
            while True:  # until it has noticed
                sql("SELECT pg_sleep(0.02)")
        except (ConnectionError, ProcessLookupError, IndexError):
            pass

    def session(self):
        """When it accepts connections."""
        while True:
            try:
                sql = Sql(self)
                sql("SELECT 1")
                return sql
            except ConnectionError:
                check(self.process.alive(), "the database is there", self.process.log()[-2000:])
                time.sleep(0.1)


def start_and_wait(process, port, taken):
    """Waits until it listens.  Its port may be taken for a moment, by a connection of another program."""
    for _ in range(100):
        log_begin = len(process.log()) if process.process else 0
        if process.start().wait_for(lambda: answers(port)):
            return
        if taken not in process.log()[log_begin:]:
            break
        time.sleep(0.1)
    raise AssertionError(f"{process.folder.name} ended: {process.log()[-2000:]}")


# ---- Redis ----


class Cache:
    def __init__(self, folder):
        self.folder = make_folder(folder)
        self.port = free_port()
        self.password = write_secret(self.folder / "password", "cache's secret\n")
        write_secret(self.folder / "redis.conf",
                     f"port {self.port}\nbind {HOST}\nsave \"\"\nmaxmemory 64mb\nmaxmemory-policy allkeys-lru\n"
                     "requirepass \"cache's secret\"\n")
        # Debian's package redis-tools has the server, by another name.
        program = shutil.which("redis-server") or shutil.which("redis-check-rdb")
        link = self.folder / "redis-server"
        link.symlink_to(program)
        self.process = Process(unprivileged([link, self.folder / "redis.conf"]), self.folder)

    def start(self):
        start_and_wait(self.process, self.port, "Address already in use")
        return self

    def kill(self):
        self.process.kill()


# ---- the guard ----


Answer = collections.namedtuple("Answer", "status by token")


class Client:
    """A connection that is kept; made anew after an error."""

    def __init__(self, port):
        self.port, self.connection = port, None

    def __call__(self, method, path, body=None, **headers):
        """An Answer; its status is 0 if there was none."""
        try:
            if self.connection is None:
                self.connection = http.client.HTTPConnection(HOST, self.port, timeout=60)
            self.connection.request(method, path, body, {name.replace("_", "-"): text for name, text in headers.items()})
            response = self.connection.getresponse()
            response.read()
            return Answer(response.status, response.headers.get("X-Guard"), response.headers.get("X-Guard-Position"))
        except (OSError, http.client.HTTPException):
            if self.connection is not None:
                self.connection.close()
            self.connection = None
            return Answer(0, None, None)

    def put(self, number, body="body"):
        return self("PUT", f"/items/{number}", body)

    def get(self, number, token=None):
        return self("GET", f"/items/{number}", **({"X_Guard_Position": token} if token else {}))

    def delete(self, number):
        return self("DELETE", f"/items/{number}")


class Guard:
    """A process of the guard, with a slot and a folder of its own."""

    def __init__(self, folder, programs, database, cache, *options, password=GUARD_PASSWORD):
        self.folder = make_folder(folder)
        self.state = make_folder(folder / "state")
        self.port = free_port()
        secret = write_secret(self.folder / "pgpass", f"*:*:*:guard:{password}\n")
        # So that no wrong id passes the filter by chance, and a machine that stands still costs no 503.
        command = [programs / "guard", "--database", database.address("guard"), "--slot", f"guard_{folder.name}",
                   "--publication", "guard", "--state", self.state, "--port", self.port, "--redis", f"{HOST}:{cache.port}",
                   "--redis-password", own_copy(cache.password, self.folder), "--save", 1,
                   "--capacity", 10000, "--fpp", 1e-7, *options]
        self.process = Process(unprivileged([str(word) for word in command]), self.folder, PGPASSFILE=str(secret),
                               LD_LIBRARY_PATH=str(programs), PGOPTIONS="-c statement_timeout=50s")

    def start(self, closed=True):
        start_and_wait(self.process, self.port, "cannot listen")
        if closed:
            wait_until(lambda: self.metrics().get("guard_closed") == 1, f"{self.folder.name} refuses ids", 60)
        return self

    def kill(self):
        self.process.kill()

    def client(self):
        return Client(self.port)

    def metrics(self):
        """The figures, without labels."""
        connection = http.client.HTTPConnection(HOST, self.port, timeout=60)
        try:
            connection.request("GET", "/metrics")
            page = connection.getresponse().read().decode()
        except (OSError, http.client.HTTPException):
            return {}
        finally:
            connection.close()
        return {name + label.replace('"', ""): float(value)
                for name, label, value in re.findall(r"^([a-z_]+)(\{[^}]*\})? (\S+)$", page, re.M)}

    def fills(self):
        """How often the table was read as a whole, by all processes of this guard so far."""
        return self.process.log().count("reading the table")


def refused_of(port, ids, tries=20, connections=4, depth=50):
    """Which of the ids get 404: many at a time are asked for, over several connections."""
    sockets = [socket.create_connection((HOST, port), 60) for _ in range(connections)]
    refused, again = [], []
    for start in range(0, len(ids), connections * depth):
        shares = [ids[start + i * depth : start + (i + 1) * depth] for i in range(connections)]
        for each, share in zip(sockets, shares):
            each.sendall(b"".join(b"HEAD /items/%d HTTP/1.1\r\nHost: guard\r\n\r\n" % number for number in share))
        for each, share in zip(sockets, shares):
            text = b""
            while text.count(b"\r\n\r\n") < len(share):
                part = each.recv(1 << 16)
                if not part:
                    raise ConnectionError("the guard closed the connection")
                text += part
            statuses = re.findall(rb"^HTTP/1.1 (\d+)", text, re.M)
            refused.extend(number for number, status in zip(share, statuses) if status == b"404")
            again.extend(number for number, status in zip(share, statuses) if status not in (b"200", b"404"))
    for each in sockets:
        each.close()
    if again:
        if tries == 0:
            raise AssertionError(f"{len(again)} ids got neither 200 nor 404")
        time.sleep(0.3)
        refused += refused_of(port, again, tries - 1)
    return refused


def own_copy(path, folder):
    return write_secret(folder / "cache-password", path.read_text())


def stage(programs, folder):
    """Copies the programs to where an unprivileged user can run them: (folder, the tamis command or None)."""
    folder.mkdir()
    guard = programs / "guard"
    shutil.copy(guard, folder)
    for name, path in re.findall(r"(libtamis\.so\S*) => (\S+)", subprocess.check_output(["ldd", guard], text=True)):
        shutil.copy(path, folder / name)
    candidates = [programs.parent / "installed/bin/tamis", programs.parents[1] / "tools/tamis"]
    found = [path for path in candidates if path.exists()]
    return folder, found[0] if found else shutil.which("tamis")


def run_load(guard, seconds, first, last, connections=16):
    """wrk: requests, requests a second, and the 99th percentile of the times in ms."""
    command = ["wrk", "-t", "2", "-c", str(connections), "-d", f"{seconds}s", "--latency", "-s", str(HERE / "load.lua"),
               f"http://{HOST}:{guard.port}", "--", str(first), str(last)]
    text = subprocess.run(command, check=True, capture_output=True, text=True, preexec_fn=end_with_parent).stdout
    time_text, unit = re.search(r"99%\s+([\d.]+)(us|ms|s)", text).groups()
    return (int(re.search(r"(\d+) requests in", text)[1]),
            float(re.search(r"Requests/sec:\s+([\d.]+)", text)[1]),
            float(time_text) * {"us": 1e-3, "ms": 1, "s": 1000}[unit])


def replace(sql, first, last):
    sql(f"BEGIN; CREATE TEMP TABLE t ON COMMIT DROP AS SELECT * FROM items WHERE id BETWEEN {first} AND {last};"
        f" DELETE FROM items WHERE id BETWEEN {first} AND {last}; INSERT INTO items TABLE t; COMMIT")
