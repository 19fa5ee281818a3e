# SPDX-License-Identifier: MIT
"""Real servers of Debian's packages, which a test starts on loopback: on free ports, in a temporary folder.
Whatever happens, they end with the test (loopback.py)."""
import contextlib
import urllib.error
import urllib.request

from loopback import HOST, Process, answers, free_port

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
