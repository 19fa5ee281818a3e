# SPDX-License-Identifier: MIT
"""Sites for the crawler, which nginx serves.

A generated site is a tree: the page /p/3/1 has links to /p/3/1/0 to /p/3/1/9, each in a form of its own (other
hosts' forms of one address, session ids, redirects, broken HTML).  nginx makes the pages as they are asked for,
so a site of a million pages takes no room.  What was asked for stands in nginx' log.
"""
import collections
import contextlib
import html.parser
import itertools
import pathlib
import urllib.error
import urllib.parse
import urllib.request

import loopback

CONFIG = """
daemon off;
master_process off;
pid pid;
error_log stderr warn;
worker_rlimit_nofile 8192;
events {{ worker_connections 4096; }}
http {{
  geo $dollar {{ default '$'; }}
  log_format asked '$msec\t$status\t$http_host\t$request_uri';
  access_log {folder}/asked asked;
  keepalive_requests 100000000;
  client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path f; uwsgi_temp_path u; scgi_temp_path s;
  types {{ text/html html; text/css css; text/plain txt; application/javascript js; image/png png; }}
  default_type text/html;
  server {{
    {listen}
    {locations}
  }}
}}
"""

ROBOTS = r"User-agent: *\nDisallow: /private/\nDisallow: /*.cgi${dollar}\nAllow: /private/open\nUser-agent: other\nDisallow: /"

# The forms in which a page names its children, 0 to 9.
CHILDREN = [
    '<a href="$uri/0">',
    '<A HREF="HTTP://127.0.0.1:{port}$uri/1#part">',
    "<a title='>' href='$last/2'>",
    '<a href="$uri/3?sid=$request_id&amp;utm_source=x">',
    '<area href="/r$uri/4">',  # redirects
    '<a href="$uri/%35">',
    '<a href="  $uri/x/./%2e%2E/6\n">',
    '<a href="$uri/7;jsessionid=$request_id">',
    "<a href=$uri/8 <b>",
    '<iframe src="//127.0.0.1:{port}$uri/9">',
]
# What is on every page beside them: links that lead back, lead nowhere, or must not be followed.
OTHERS = (
    '<a href=""><a href="#x"><a href="?phpsessid=$request_id"><a href="/p"><a href="/"><a href="../../../../.."><a>'
    '<a href="mailto:a@b"><a href="javascript:alert(1)"><a href="ftp://127.0.0.1/"><a href="http://"><a href="http://[::1">'
    '<a href="http://user:pass@127.0.0.1:{port}/p"><a href="/gone"><a href="/c"><a href="/broken"><a href="/private$uri">'
    '<a href="/private/open"><a href="/a.cgi"><a rel="nofollow" href="/not$uri"><a href="http://localhost:1/">'
    '<a href="/deep.html"><!-- <a href="/comment"> --><script>"<a href=/script>"</script><table><tr></b></i></p><td'
    "<<<a<a href='"
)
HEAD = "<html><head><title>x</title></head><body>"


def quoted(text):
    return text.replace("\\", "\\\\").replace("'", "\\'")


DEEP = "<div><table><ul>" * 10000 + '<a href="/end">'  # deeper than any tree of elements should be


def tree(folder, digits):
    """The generated site with pages of up to so many digits."""
    return Site(folder, lambda port: tree_locations(port, digits), {"deep.html": DEEP})


def tree_locations(port, digits):
    children = "".join(CHILDREN).format(port=port)
    others = OTHERS.format(port=port)
    return rf"""
    location = /robots.txt {{ default_type text/plain; return 200 '{ROBOTS}'; }}
    location = / {{ return 200 '{HEAD}<a href="/p">'; }}
    location = /gone {{ return 404; }}
    location = /broken {{ return 500; }}
    location = /c {{ return 301 /d; }}
    location = /d {{ return 302 /c; }}
    location = /deep.html {{ root .; }}
    location = /end {{ return 200 ''; }}
    location = /private/open {{ return 200 '{HEAD}'; }}
    location ~ ^/r(/p.*)$ {{ return 302 $1; }}
    location ~ "^/p(?:/[0-9]){{{digits}}}$" {{ return 200 '{HEAD}{quoted(others)}'; }}
    location ~ "^(?:/[0-9p])*/(?<last>[0-9p])$" {{ return 200 '{HEAD}{quoted(children)}{quoted(others)}'; }}
    location / {{ return 404; }}
    """


def tree_pages(digits):
    """What must be asked for, each once: (path, whether it has a page)."""
    for depth in range(digits + 1):
        for word in itertools.product("0123456789", repeat=depth):
            path = "/".join(["/p", *word])
            yield path
            if depth < digits:
                yield f"/r{path}/4"
    yield from ("/", "/gone", "/c", "/d", "/deep.html", "/end", "/private/open")


def finder(path):
    """The page or redirect by which a path is found."""
    if path.startswith("/p/"):
        return f"/r{path}" if path.endswith("/4") else path.rpartition("/")[0]
    return path[2:].rpartition("/")[0] if path.startswith("/r/") else "/p"


class Site:
    """nginx, on a free port of loopback."""

    def __init__(self, folder, locations, files=None, hosts=(loopback.HOST,)):
        self.folder = folder
        self.locations = locations
        self.hosts = hosts
        self.port = None
        self.process = loopback.Process(["nginx", "-p", folder, "-c", "nginx.conf", "-e", "stderr"], folder)
        (folder / "asked").touch()
        for name, text in (files or {}).items():
            (folder / name).write_text(text)
        self.read = 0
        self.start()

    def start(self):
        for _ in range(20):
            self.port = self.port or loopback.free_port()
            listen = "".join(f"listen {host}:{self.port};" for host in self.hosts)
            (self.folder / "nginx.conf").write_text(CONFIG.format(
                folder=self.folder, listen=listen, locations=self.locations(self.port)))
            self.process.start()
            if self.process.wait_for(lambda: loopback.answers(self.port, self.hosts[0])):
                return
            self.port = None
        raise AssertionError(f"nginx does not start: {self.process.log()[-2000:]}")

    def stop(self):
        self.process.end()

    def url(self, path):
        return f"http://{self.hosts[0]}:{self.port}{path}"

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


class _Links(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.found = []

    def handle_starttag(self, tag, attributes):
        named = dict(attributes)
        wanted = {"a": "href", "area": "href", "frame": "src", "iframe": "src"}.get(tag)
        if wanted and named.get(wanted) and "nofollow" not in (named.get("rel") or ""):
            self.found.append(named[wanted])


def reachable(root, start):
    """The paths that can be reached in a tree of files, by Python's own parsers."""
    root, found, todo = pathlib.Path(root), {start}, collections.deque([start])
    while todo:
        path = todo.popleft()
        file = root / urllib.parse.unquote(path.partition("?")[0]).lstrip("/")
        if file.suffix != ".html" or not file.is_file():
            continue
        parser = _Links()
        parser.feed(file.read_text(errors="replace"))
        for link in parser.found:
            url = urllib.parse.urljoin("http://host" + path, link.strip())
            parts = urllib.parse.urlsplit(url)
            if parts.scheme == "http" and parts.netloc == "host":
                new = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
                if new not in found:
                    found.add(new)
                    todo.append(new)
    return found
