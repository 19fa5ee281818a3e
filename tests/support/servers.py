# SPDX-License-Identifier: MIT
"""Real servers of Debian's packages, which a test starts on loopback: on free ports, in a temporary folder.
Whatever happens, they end with the test (loopback.py)."""
import contextlib
import glob
import os
import pathlib
import pwd
import secrets
import shutil
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request

from loopback import HOST, Process, answers, free_port

USER = "nobody"  # what root runs PostgreSQL as, which refuses root


# ---- nginx ----

NGINX = """
daemon off;
master_process off;
pid pid;
error_log stderr warn;
worker_rlimit_nofile 8192;
events {{ worker_connections 4096; }}
http {{
  log_format asked '$msec\t$status\t$http_host\t$request_uri';
  access_log {folder}/asked asked;
  keepalive_requests 100000000;
  client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path f; uwsgi_temp_path u; scgi_temp_path s;
  types {{ text/html html; text/css css; text/plain txt; application/javascript js; image/png png; }}
  default_type text/html;
  server {{
    listen {host}:{port};
    {locations}
  }}
}}
"""


class Site:
    """nginx, on a free port.  What was asked for stands in its log."""

    def __init__(self, folder, locations):
        self.folder, self.read = folder, 0
        self.process = Process(["nginx", "-p", folder, "-c", "nginx.conf", "-e", "stderr"], folder)
        (folder / "asked").touch()
        for _ in range(20):
            self.port = free_port()
            (folder / "nginx.conf").write_text(
                NGINX.format(folder=folder, host=HOST, port=self.port, locations=locations(self.port)))
            if self.process.start().wait_for(lambda: answers(self.port)):
                return
        raise AssertionError(f"nginx does not start: {self.process.log()[-2000:]}")

    def url(self, path):
        return f"http://{HOST}:{self.port}{path}"

    def settle(self):
        """Returns when what was sent to nginx before has been answered, and stands in its log."""
        for _ in range(2):  # the second one is read after all that was there when the first one came
            with contextlib.suppress(urllib.error.HTTPError):
                urllib.request.urlopen(self.url("/settle"), timeout=60).close()

    def asked(self):
        """All requests since the last call: (time, status, host, path)."""
        with open(self.folder / "asked") as log:
            log.seek(self.read)
            lines = log.readlines()
            self.read = log.tell()
        for line in lines:
            time, status, host, path = line.rstrip("\n").split("\t")
            yield float(time), int(status), host, path


# ---- PostgreSQL ----


def unprivileged(command):
    if os.geteuid() != 0:
        return command
    group = pwd.getpwnam(USER).pw_gid
    return ["setpriv", f"--reuid={USER}", f"--regid={group}", "--clear-groups", "--pdeathsig=KILL", "--", *command]


def own_folder(path):
    path.mkdir()
    path.parent.chmod(0o755)
    if os.geteuid() == 0:
        shutil.chown(path, USER)
    return path


class PostgreSQL:
    """A server, and `environment` with which libpq finds it."""

    def __init__(self, folder, **settings):
        self.folder = own_folder(folder)
        self.programs = max(pathlib.Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: int(path.parts[4]))
        password = folder / "password"
        password.write_text(secrets.token_hex(12))
        self.environment = {"PGHOST": HOST, "PGUSER": "owner", "PGPASSWORD": password.read_text(), "PGDATABASE": "postgres"}
        subprocess.run(unprivileged([self.programs / "initdb", "-D", folder / "data", "-U", "owner", "-A", "scram-sha-256",
                                     f"--pwfile={password}", "-E", "UTF8", "--no-sync"]),
                       check=True, stdout=subprocess.DEVNULL, cwd=folder)
        self.port = free_port()
        self.environment["PGPORT"] = str(self.port)
        # Processes are killed here, and never the machine, so that nothing is lost without fsync.
        settings = {"fsync": "off", "listen_addresses": HOST, "port": self.port, "unix_socket_directories": "",
                    "dynamic_shared_memory_type": "mmap", **settings}
        options = [f"--{name}={value}" for name, value in settings.items()]
        self.process = Process(unprivileged([self.programs / "postgres", "-D", folder / "data", *options]), folder)
        self.start()

    def start(self):
        """Starts it on what it had.  It may have to wait until the processes of one that was killed have ended."""
        for _ in range(300):
            if self.process.start().wait_for(lambda: self.psql("SELECT 1").returncode == 0):
                return
            time.sleep(0.1)
        raise AssertionError(f"PostgreSQL does not start: {self.process.log()[-2000:]}")

    def psql(self, text):
        return subprocess.run(["psql", "-XqAt", "-v", "ON_ERROR_STOP=1", "-c", text], capture_output=True, text=True,
                              env={**os.environ, **self.environment})

    def sql(self, text):
        """The lines that a statement returns."""
        done = self.psql(text)
        if done.returncode:
            raise AssertionError(f"{text}: {done.stderr}")
        return done.stdout.splitlines()

    def kill(self):
        """kill -9 of all its processes."""
        pid = self.process.process.pid
        others = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        self.process.kill()
        for other in map(int, others):
            with contextlib.suppress(OSError):  # it has ended
                if str(self.folder) in str(pathlib.Path(f"/proc/{other}/cwd").readlink()):
                    os.kill(other, signal.SIGKILL)


# ---- RabbitMQ ----


class RabbitMQ:
    """A node, and the `url` of it."""

    # The script in Debian's /usr/sbin wants to be root.
    SCRIPTS = "/usr/lib/rabbitmq/lib/rabbitmq_server-*/sbin/rabbitmq-server"

    def __init__(self, folder):
        folder.mkdir()
        password, self.port, epmd, distribution = secrets.token_hex(12), free_port(), free_port(), free_port()
        self.url = f"amqp://tamis:{password}@{HOST}:{self.port}"
        (folder / "enabled_plugins").write_text("[].\n")
        (folder / "rabbitmq.conf").write_text(
            f"listeners.tcp.1 = {HOST}:{self.port}\ndefault_user = tamis\ndefault_pass = {password}\n"
            "loopback_users.tamis = false\ndisk_free_limit.absolute = 100MB\nlog.console = false\nlog.file.level = warning\n")
        # Not every bare system knows localhost.
        (folder / "inetrc").write_text('{host, {127,0,0,1}, ["localhost"]}.\n{lookup, [file, native]}.\n')
        environment = {
            "HOME": str(folder),  # Erlang's cookie
            "ERL_INETRC": f"{folder}/inetrc", "ERL_EPMD_ADDRESS": HOST, "ERL_EPMD_PORT": str(epmd),
            "RABBITMQ_NODENAME": "rabbit@localhost", "RABBITMQ_DIST_PORT": str(distribution),
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-kernel inet_dist_use_interface {127,0,0,1}",
            "RABBITMQ_CONF_ENV_FILE": f"{folder}/none", "RABBITMQ_CONFIG_FILE": f"{folder}/rabbitmq.conf",
            "RABBITMQ_ADVANCED_CONFIG_FILE": f"{folder}/advanced.config",
            "RABBITMQ_ENABLED_PLUGINS_FILE": f"{folder}/enabled_plugins",
            "RABBITMQ_GENERATED_CONFIG_DIR": f"{folder}/generated", "RABBITMQ_MNESIA_BASE": f"{folder}/mnesia",
            "RABBITMQ_LOG_BASE": f"{folder}/log", "RABBITMQ_PID_FILE": f"{folder}/pid",
            "RUNNING_UNDER_SYSTEMD": "true"}  # the script replaces itself by the server
        Process(["epmd", "-address", HOST, "-port", epmd], folder / "epmd", **environment).start()
        self.process = Process([max(glob.glob(self.SCRIPTS))], folder, **environment)
        self.start()

    def start(self):
        """Starts it on what the last run left, and waits until it speaks AMQP."""
        if not self.process.start().wait_for(self._speaks, 300):
            raise AssertionError(f"RabbitMQ does not start: {self.process.log()[-3000:]}")

    def _speaks(self):
        with socket.create_connection((HOST, self.port), 5) as s:
            s.sendall(b"AMQP\0\0\x09\x01")
            return s.recv(1) == b"\x01"  # a method: the connection begins

    def kill(self):
        self.process.kill()


# ---- Redis ----


class Redis:
    """A server without a file.  Debian's package redis-tools has it, by another name."""

    def __init__(self, folder):
        folder.mkdir()
        program = folder / "redis-server"
        program.symlink_to(shutil.which("redis-server") or shutil.which("redis-check-rdb"))
        self.port = free_port()
        self.process = Process([program, "--port", self.port, "--bind", HOST, "--save", "", "--maxmemory", "64mb"], folder)
        self.start()

    def start(self):
        if not self.process.start().wait_for(lambda: answers(self.port)):
            raise AssertionError(f"Redis does not start: {self.process.log()[-2000:]}")

    def kill(self):
        self.process.kill()
