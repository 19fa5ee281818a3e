# SPDX-License-Identifier: MIT
"""nginx with the module, on loopback, for the tests; and a client that pipelines requests.

An Nginx runs in a folder of its own, on a free port, as a daemon, without which a master takes no order to
start a new binary.  Whatever is left of it ends with the tests, however they end (tests/support/loopback.py).
"""
import http.client
import os
import pathlib
import pwd
import re
import shutil
import signal
import subprocess
import sys
import tempfile

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[2] / "tests" / folder) for folder in ("support", "lint")]
from loopback import HOST, Clock, free_port, wait_until

WORKERS = 4
USER = "www-data"  # of Debian's nginx
CONFIG = """
load_module {module};
{main}
worker_processes {workers};
pid nginx.pid;
error_log error.log notice;
env TAMIS_SEEDED_BUG; env TAMIS_CLOCK; env LD_PRELOAD; env ASAN_OPTIONS; env UBSAN_OPTIONS;
events {{ worker_connections 512; }}
http {{
  access_log off;
  keepalive_requests 1000000000;
  client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path f; uwsgi_temp_path u; scgi_temp_path s;
  {http}
  server {{
    listen {host}:{port} reuseport;
    location = /pid {{ return 200 $pid; }}
    {server}
  }}
}}
"""


# ---- the client ----


class Connection(http.client.HTTPConnection):
    """A connection to nginx, which can also send many requests before it reads what they got."""

    def __init__(self, port):
        super().__init__(HOST, port, timeout=120)
        self.connect()
        self.buffer = b""

    def receive(self, pattern, n):
        """What a group of the pattern matches in the next n answers; fewer if the connection ends before."""
        found = []
        while True:
            found += [match[1] for match in re.finditer(pattern, self.buffer)]
            if len(found) >= n:
                self.buffer = b""
                return found
            # What is left is the beginning of an answer.
            last = None
            for last in re.finditer(pattern, self.buffer):
                pass
            self.buffer = self.buffer[last.end() if last else 0 :]
            try:
                data = self.sock.recv(1 << 17)
            except ConnectionResetError:
                data = b""
            if not data:
                return found
            self.buffer += data

    def get(self, path, **headers):
        """Status and body."""
        self.request("GET", path, headers=headers)
        answer = self.getresponse()
        return answer.status, answer.read().decode()


def request(path):
    return f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode()


# ---- the server ----


def children(pid):
    try:
        return [int(child) for child in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def title(pid):
    """The words by which a process is listed; none if it has ended, and waits for whoever started it."""
    try:
        return pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode().split()
    except OSError:
        return []


def role(pid):
    """What nginx calls the process: "master", "worker" ..., or "" if it has ended."""
    words = title(pid)
    return words[1] if words[:1] == ["nginx:"] else ""


class Nginx:
    """nginx with parts of a configuration: `http` for the block http, `server` for the server in it.

    `user` is whom it runs as, and root by default, with workers of another user.  `wrapper` is a command
    in front of its own.  With `has_clock`, the test sets its time of day, `clock`.
    """

    def __init__(self, context, http="", server="", user=None, main="", workers=WORKERS, wrapper=(), has_clock=False):
        self.context = context
        self.user = user
        self.http, self.server, self.workers, self.wrapper = http, server, workers, list(wrapper)
        self.main = main + ("" if user or os.geteuid() else f"user {USER};")
        self.folder = context.new_folder(user)
        self.clock = Clock(self.folder) if has_clock else None
        self.port = free_port()

    def path(self, name):
        return self.folder / name

    def write_config(self):
        self.path("nginx.conf").write_text(CONFIG.format(
            module=self.context.module, main=self.main, workers=self.workers, http=self.http, server=self.server,
            host=HOST, port=self.port))

    def run(self, *options):
        """Runs the program in the foreground: (exit status, what it printed)."""
        environment = {**os.environ, **(self.clock.environment if self.clock else {})}
        # A module with AddressSanitizer, in a server without it.
        preload = [os.environ.get("TAMIS_PRELOAD", ""), str(self.context.set_clock) if self.clock else ""]
        environment["LD_PRELOAD"] = " ".join(preload).strip()
        command = [*self.wrapper, self.context.program, "-p", self.folder, "-c", "nginx.conf", "-e", "error.log", *options]
        who = {"user": self.user, "group": pwd.getpwnam(self.user).pw_gid, "extra_groups": []} if self.user else {}
        with open(self.path("out"), "w+b") as out:  # no pipe: a daemon would keep it open
            status = subprocess.run(list(map(str, command)), cwd=self.folder, env=environment, stdin=subprocess.DEVNULL,
                                    stdout=out, stderr=out, timeout=120, **who).returncode
            out.seek(0)
            return status, out.read().decode(errors="replace")

    def test(self):
        """nginx -t: the exit status, and the sentences."""
        self.write_config()
        return self.run("-t")

    def start(self):
        for _ in range(20):
            self.write_config()
            status, said = self.run()
            if status == 0:
                wait_until(lambda: len(self.all_workers()) == self.workers, "all workers run")
                return self
            if "in use" not in said:
                raise AssertionError(f"nginx does not start: {said} {self.log()[-3000:]}")
            self.port = free_port()
        raise AssertionError("no free port")

    def log(self):
        path = self.path("error.log")
        return path.read_text(errors="replace") if path.exists() else ""

    def master(self, name="nginx.pid"):
        """The process that a file names; None if there is none yet, or no more."""
        try:
            pid = int(self.path(name).read_text())
        except (OSError, ValueError):
            return None
        return pid if role(pid) == "master" else None

    def all_workers(self):
        """Of both masters while a new binary takes over."""
        masters = {self.master("nginx.pid"), self.master("nginx.pid.oldbin")} - {None}
        return [pid for master in masters for pid in children(master) if role(pid) == "worker"]

    def connect(self):
        return Connection(self.port)

    def connect_to_each(self, n=None):
        """Connections, one to each of n workers, by default all."""
        found = {}
        for _ in range(10000):
            connection = self.connect()
            pid = connection.get("/pid")[1]
            if pid in found:
                connection.close()
            found.setdefault(pid, connection)
            if len(found) == (n or self.workers):
                return list(found.values())
        raise AssertionError(f"no connection leads to some worker: {found}")

    def get(self, path, **headers):
        connection = self.connect()
        try:
            return connection.get(path, **headers)
        finally:
            connection.close()

    def signal(self, number, name="nginx.pid"):
        os.kill(self.master(name), number)

    def reload(self):
        """Returns when the new workers run and the old ones have been told to end."""
        before = set(self.all_workers())
        self.signal(signal.SIGHUP)
        wait_until(lambda: len(set(self.all_workers()) - before) >= self.workers, "the new workers run")

    def upgrade(self):
        """Starts a new binary, which takes over; returns when the old master has ended."""
        old = self.master()
        os.kill(old, signal.SIGUSR2)
        wait_until(lambda: self.master() not in (None, old) and
                   [role(pid) for pid in children(self.master())].count("worker") == self.workers,
                   "the new binary has workers")
        os.kill(old, signal.SIGWINCH)
        wait_until(lambda: not any(role(pid) == "worker" for pid in children(old)), "the old workers have ended")
        os.kill(old, signal.SIGQUIT)
        wait_until(lambda: not role(old), "the old master has ended")

    def stop(self):
        for name in ("nginx.pid", "nginx.pid.oldbin"):
            master = self.master(name)
            if master:
                os.kill(master, signal.SIGTERM)
                wait_until(lambda: not role(master), "the master has ended")


# ---- what a test is given ----


class Context:
    def __init__(self, folder, args):
        self.top = folder
        self.tool = os.path.abspath(args.tool)
        self.program = shutil.which("nginx", path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")
        self.module = folder / "module.so"  # where whoever runs nginx can read it
        shutil.copy(args.module, self.module)
        self.module.chmod(0o644)
        self.set_clock = pathlib.Path(args.module).resolve().parent / "tests" / "nginx_clock.so"
        folder.chmod(0o755)
        self.started = []

    def new_folder(self, user=None):
        folder = pathlib.Path(tempfile.mkdtemp(prefix="nginx.", dir=self.top))
        folder.chmod(0o755)
        if user:
            shutil.chown(folder, user, pwd.getpwnam(user).pw_gid)
        return folder

    def nginx(self, *args, **named):
        server = Nginx(self, *args, **named)
        self.started.append(server)
        return server

    def start(self, *args, **named):
        return self.nginx(*args, **named).start()

    def build_list(self, keys, path, *options, mode=0o644, like=None):
        """Replaces the list by one of other keys, by a rename.  `like` is the stat_result of a file that is said
        to be of the same time."""
        new, lines = path.with_name(path.name + ".new"), path.with_name(path.name + ".lines")
        lines.write_text("".join(f"{key}\n" for key in keys))
        subprocess.run([self.tool, "build", "--quiet", *options, "-o", new, lines], check=True)
        lines.unlink()
        new.chmod(mode)
        if like:
            os.utime(new, ns=(like.st_atime_ns, like.st_mtime_ns))
        new.rename(path)

    def end(self):
        """Ends what a test has started, and looks for what no log may have."""
        logs = ""
        for server in self.started:
            server.stop()
            logs += server.log()
        self.started = []
        for bad in (r"exited on signal (?!9\b)\d+", "AddressSanitizer", "runtime error", "could not respawn"):
            if re.search(bad, logs):
                raise AssertionError(f"'{bad}' in a log: {logs[-6000:]}")


def same(actual, expected, what=""):
    if actual != expected:
        raise AssertionError(f"{what}: {actual!r:.300} instead of {expected!r:.300}")


def found(pattern, text, what=""):
    if not re.search(pattern, text):
        raise AssertionError(f"{what}: no '{pattern}' in {text[-2000:]!r}")
