# SPDX-License-Identifier: MIT
"""A RabbitMQ node of an ordinary user: on loopback, on free ports, in a temporary folder."""
import glob
import secrets
import socket
import threading

from loopback import HOST, Process, free_port

SCRIPTS = "/usr/lib/rabbitmq/lib/rabbitmq_server-*/sbin/rabbitmq-server"


def program():
    """The server's script, or None.  The one in Debian's /usr/sbin wants to be root."""
    found = sorted(glob.glob(SCRIPTS))
    return found[-1] if found else None


class Node:
    def __init__(self, folder):
        folder.mkdir()
        self.password = secrets.token_hex(12)
        self.port, self.epmd_port, self.distribution_port = free_port(), free_port(), free_port()
        (folder / "enabled_plugins").write_text("[].\n")
        (folder / "rabbitmq.conf").write_text(f"""\
listeners.tcp.1 = {HOST}:{self.port}
default_user = tamis
default_pass = {self.password}
loopback_users.tamis = false
disk_free_limit.absolute = 100MB
log.console = false
log.file.level = warning
""")
        # Not every bare system knows localhost.
        (folder / "inetrc").write_text('{host, {127,0,0,1}, ["localhost"]}.\n{lookup, [file, native]}.\n')
        environment = self._environment(folder)
        self.epmd = Process(["epmd", "-address", HOST, "-port", self.epmd_port], folder / "epmd", **environment)
        self.node = Process([program()], folder, **environment)

    def url(self, port=None):
        return f"amqp://tamis:{self.password}@{HOST}:{port or self.port}"

    def _environment(self, folder):
        return {
            "HOME": str(folder),  # Erlang's cookie
            "ERL_INETRC": f"{folder}/inetrc",
            "ERL_EPMD_ADDRESS": HOST,
            "ERL_EPMD_PORT": str(self.epmd_port),
            "RABBITMQ_NODENAME": "rabbit@localhost",
            "RABBITMQ_DIST_PORT": str(self.distribution_port),
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-kernel inet_dist_use_interface {127,0,0,1}",
            "RABBITMQ_CONF_ENV_FILE": f"{folder}/none",
            "RABBITMQ_CONFIG_FILE": f"{folder}/rabbitmq.conf",
            "RABBITMQ_ADVANCED_CONFIG_FILE": f"{folder}/advanced.config",
            "RABBITMQ_ENABLED_PLUGINS_FILE": f"{folder}/enabled_plugins",
            "RABBITMQ_GENERATED_CONFIG_DIR": f"{folder}/generated",
            "RABBITMQ_MNESIA_BASE": f"{folder}/mnesia",
            "RABBITMQ_LOG_BASE": f"{folder}/log",
            "RABBITMQ_PID_FILE": f"{folder}/pid",
            "RUNNING_UNDER_SYSTEMD": "true",  # the script replaces itself by the server
        }

    def start(self):
        """Starts it on what the last run left, and waits until it speaks AMQP."""
        if not self.epmd.alive():
            self.epmd.start()
        if not self.node.start().wait_for(self._speaks, 300):
            raise RuntimeError(f"RabbitMQ does not start: {self.node.log()[-3000:]}")

    def _speaks(self):
        with socket.create_connection((HOST, self.port), 5) as s:
            s.sendall(b"AMQP\0\0\x09\x01")
            return s.recv(1) == b"\x01"  # a method: the connection begins

    def kill(self):
        self.node.kill()


class Proxy:
    """Passes connections on to a port, and can cut them."""

    def __init__(self, port):
        self.target = port
        self.listener = socket.create_server((HOST, 0))
        self.port = self.listener.getsockname()[1]
        self.pairs = []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
                server = socket.create_connection((HOST, self.target))
            except OSError:
                return
            self.pairs.append((client, server))
            for pair in ((client, server), (server, client)):
                threading.Thread(target=self._copy, args=pair, daemon=True).start()

    @staticmethod
    def _copy(source, target):
        try:
            while data := source.recv(65536):
                target.sendall(data)
        except OSError:
            pass
        for s in (source, target):
            try:
                s.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def cut(self):
        pairs, self.pairs = self.pairs, []
        for s in (s for pair in pairs for s in pair):
            try:
                s.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def close(self):
        self.listener.close()
        self.cut()
