# SPDX-License-Identifier: MIT
"""What single requests get, and what happens to lists, full filters and full disks."""
import contextlib
import os
import re
import socket
import subprocess
import time

import pytest
import server
from server import USER, found, same, wait_until

TOKENS = "tamis_filter t tokens key=$arg_t capacity=10k fpp=1e-9;"
SAY = "location / { return 200 '$tamis_seen_t $tamis_first_t'; }"


def test_as_another_user(context):
    """A master that is not root, and whom files belong to."""
    if os.geteuid():
        pytest.skip("all tests here run so")
    for mode, owner in (None, USER), (0o600, USER), (0o660, "root"):
        nginx = context.nginx(TOKENS, SAY)
        if mode:
            nginx.path("tokens").touch()
            nginx.path("tokens").chmod(mode)
        nginx.start()
        same(nginx.path("tokens").owner(), owner, f"the owner of a file with mode {mode}")
    nginx = context.start(TOKENS, SAY, user=USER)
    same([nginx.get("/?t=a")[1] for _ in range(2)], ["0 1", "1 0"], "answers")
    same(nginx.path("tokens").owner(), USER, "the file's owner")
    # A file that stands there empty keeps its mode, so that other programs can share it.
    nginx = context.nginx(TOKENS, SAY, user=USER)
    nginx.path("tokens").touch(0o666)
    nginx.path("tokens").chmod(0o666)
    nginx.start()
    same([nginx.get("/?t=a")[1] for _ in range(2)], ["0 1", "1 0"], "answers")
    same(nginx.path("tokens").stat().st_mode & 0o777, 0o666, "the mode")


def test_without_a_master(context):
    """One process, as for debugging; and what is in stays in when it is started again."""
    nginx = context.nginx(TOKENS, SAY, main="master_process off;", workers=1)
    nginx.write_config()
    for expected in (["0 1", "1 0"], ["1 0", "1 0"]):
        same(nginx.run()[0], 0, "nginx starts")
        pid = int(nginx.path("nginx.pid").read_text())
        same([nginx.get("/?t=a")[1] for _ in range(2)], expected, "answers")
        os.kill(pid, server.signal.SIGTERM)
        wait_until(lambda: not server.title(pid), "the end")


def test_one_value_for_a_request(context):
    """In conditions and redirects, in subrequests, by a name or, in pages of the module SSI, by none."""
    nginx = context.nginx(TOKENS + "tamis_filter u tokens2 key=$arg_t capacity=10k fpp=1e-9;"
                          r"map $arg_t $m { '~^(?<x>.*)$' $x; } map $m $mm { ~. of$m; } tamis_filter m tokens3 key=$mm capacity=10k;"
                          "tamis_filter c tokens4 key=$1 capacity=10k;", """
      root .;
      location = /if { set $mine $tamis_first_t; if ($tamis_first_t = 1) { return 200 "$mine $tamis_first_t"; } return 403; }
      location = /redirect { if ($tamis_first_t = 1) { rewrite ^ /redirected last; } return 403; }
      location = /redirected { try_files /nothing @named; }
      location @named { error_page 418 =200 /again; return 418; }
      location = /again { return 200 "$tamis_first_t"; }
      location ~ \\.html$ { ssi on; ssi_types *; }
      location = /auth { internal; if ($tamis_first_t = 1) { return 204; } return 403; }
      location = /protected { auth_request /auth; try_files /file =404; }
      location = /error { error_page 404 =200 /page?a=b; return 404; }
      location = /page { return 200 "$tamis_first_t $uri $args"; }
      location = /mapped { error_page 404 =200 /map?a=b; return 404; }
      location = /map { return 200 "$m $tamis_first_m $m"; }
      location = /given { rewrite ^ /again?t=mine? last; }
      location = /echo { return 200 "$tamis_first_t"; }
      location ~ ^/captured/(.*)$ { return 200 "$tamis_first_c"; }
    """)
    echo = '<!--#echo var="tamis_first_u" --><!--#echo var="tamis_seen_u" -->'
    nginx.path("part.html").write_text(echo)
    nginx.path("first.html").write_text(f'{echo} <!--#include virtual="/part.html" --> {echo} <!--#include virtual="/echo" -->')
    nginx.path("last.html").write_text('<!--#include virtual="/part.html" --> ' + echo)
    nginx.path("redirect.html").write_text("nothing")
    nginx.path("file").write_text("file")
    nginx.start()
    same([nginx.get("/if?t=a") for _ in range(2)], [(200, "1 1"), (403, nginx.get("/if?t=a")[1])], "a condition")
    same(nginx.get("/redirect?t=b"), (200, "1"), "internal redirects")
    same(nginx.get("/redirect?t=b")[0], 403, "internal redirects, again")
    # $tamis_first_u is not in the configuration, so nginx does not keep its value.  The question comes first,
    # and then the key is in; but what was answered stays.
    same(nginx.get("/first.html?t=c")[1].strip(), "11 11 11 1", "a page")
    same(nginx.get("/first.html?t=c")[1].strip(), "01 01 01 0", "a page, again")
    same(nginx.get("/last.html?t=d")[1].strip(), "11 11", "a part of a page that comes first")
    same(nginx.get("/last.html?t=d")[1].strip(), "01 01", "a part of a page that comes first, again")
    same([nginx.get("/protected?t=e")[0] for _ in range(2)], [200, 403], "a subrequest without arguments")
    same(nginx.get("/protected")[0], 403, "a subrequest, and no token")
    # The key is the client's where a redirect has other arguments, and that of the redirect where it has one.
    same([nginx.get("/error?t=f")[1] for _ in range(2)], ["1 /page a=b", "0 /page a=b"], "the arguments of a page")
    same([nginx.get(f"/mapped?t={t}")[1] for t in "iij"], [" 1 ", " 0 ", " 1 "], "a key of a map")
    same([nginx.get(f"/captured/{t}")[1] for t in ("a", "a", "b", "")], ["1", "0", "1", "0"], "a key that an expression captures")
    same([nginx.get(path)[1] for path in ("/given?t=g", "/given?t=h")], ["1", "0"], "an argument that the client cannot choose")


def test_a_server_with_other_slashes(context):
    """nginx reads the URI as the default server says, and a redirect's key as the server does that Host names."""
    nginx = context.nginx(TOKENS)
    nginx.http += f"""server {{ listen unix:{nginx.path("socket")}; merge_slashes off; }}
      server {{ listen unix:{nginx.path("socket")}; server_name other; error_page 404 =200 /page?; location / {{ return 404; }}
               location = /page {{ return 200 "$tamis_first_t $uri"; }} }}"""
    nginx.start()

    def get(path):
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(str(nginx.path("socket")))
            connection.sendall(f"GET {path} HTTP/1.0\r\nHost: other\r\n\r\n".encode())
            return connection.makefile().read().rpartition("\n\n")[2]

    same([get(path) for path in ("/?t=a", "//..?t=a", "//..?t=b", "/x//../../?t=b")],
         ["1 /page", "0 /page", "1 /page", "0 /page"], "a URI that other slashes make")


def keys_until_full(nginx, n):
    connection = nginx.connect()
    return [connection.get(f"/?t=k{i}")[1] for i in range(n)]


def test_a_full_filter(context):
    """Keys that are not in count as seen, or as first ones; those that are in are known.  What is wrong is logged
    once a second by each worker."""
    for words, answer in ("", "0"), ("on_error=seen", "0"), ("on_error=first", "1"):
        nginx = context.start(f"tamis_filter t tokens key=$arg_t capacity=100 fpp=1e-6 {words};",
                              "location / { return 200 $tamis_first_t; } location /seen { return 200 $tamis_seen_t; }")
        begin = time.monotonic()
        got = keys_until_full(nginx, 2000)
        seconds = time.monotonic() - begin
        same(set(got[:80]) | set(got[500:]), {"1", answer}, f"{words}: answers")
        same(set(got[500:]), {answer}, f"{words}: answers when it is full")
        connection = nginx.connect()
        same({connection.get(f"/?t=k{i}")[1] for i in range(80)}, {"0"}, f"{words}: keys that are in")
        same(sum(connection.get(f"/seen?t=k{i}")[1] == "1" for i in range(1000, 2000)) < 100, True, "keys that are not in")
        name = "first" if answer == "1" else "seen"
        lines = re.findall(rf'\[error\].*tamis_filter "t": a key was not added, and counts as {name}: the filter is full '
                           r"\((\d+) more before\)", nginx.log())
        same(1 <= len(lines) <= seconds + 2, True, f"{words}: {len(lines)} lines in {seconds} s")
        time.sleep(1)
        connections = nginx.connect_to_each()
        for c in connections:
            c.get("/?t=other")
        wait_until(lambda: re.search(r"the filter is full \([1-9]\d+ more before\)", nginx.log()), "what was not logged is counted")


def test_growth_and_a_full_disk(context, on_small_disk):
    """A filter grows up to max_bytes; and where the disk is full before that, no worker dies."""
    say = "location / { return 200 $tamis_first_t; }"
    nginx = context.start("tamis_filter t tokens key=$arg_t capacity=100 max_bytes=1m growable fpp=1e-6;", say)
    same(set(keys_until_full(nginx, 5000)), {"1"}, "a filter that grows")
    nginx = on_small_disk("64k", "tamis_filter t disk/tokens key=$arg_t capacity=1000 max_bytes=64m growable fpp=1e-6;", say)
    nginx.start()
    got = keys_until_full(nginx, 30000)
    same((set(got[:1000]), set(got[-1000:])), ({"1"}, {"0"}), "answers")
    found(r"a key was not added, and counts as seen: input or output error \(\d+ more before\) "
          r"\(28: No space left on device\)", nginx.log())


WINDOW = "tamis_filter t {} key=$arg_t capacity=10k fpp=1e-6 window=2 period={};".format


def test_a_wrong_clock(context):
    """The log says what to do, and that loses no key."""
    nginx = context.nginx(WINDOW("tokens", "1h"), "location / { return 200 $tamis_first_t; }", has_clock=True)
    nginx.clock.set(4_000_000_000_000)
    same(nginx.start().get("/?t=a")[1], "1", "a key")
    nginx.stop()
    nginx.clock = None
    nginx.start()
    sentence = r"a wrong clock has begun period 1111111, .* 'tamis (window --period 3600 \S*/tokens)' puts the number right"
    found(sentence, nginx.log())
    subprocess.run([context.tool, *re.search(sentence, nginx.log())[1].split()], check=True, stdout=subprocess.DEVNULL)
    before = nginx.log().count("a wrong clock")
    nginx.reload()
    same([nginx.get("/?t=a")[1], nginx.get("/?t=b")[1], nginx.log().count("a wrong clock")], ["0", "1", before], "afterwards")


def test_keys_that_end(context):
    """A key is in for as many seconds as it is given, and until the period ends that then runs."""
    ttl = {"0": 0, "1": 1, "9": 9, "10": 10, "11s": 11, "20": 20, "21": 21, "1m": 60, "9" * 30: 99, "": 99, "x": 99, "-1": 99}
    nginx = context.nginx("tamis_filter t tokens key=$arg_t capacity=10k fpp=1e-6 window=2 period=10s ttl=$arg_ttl;\n"
                          "tamis_filter u tokens key=$arg_u capacity=10k fpp=1e-6 window=2 period=10s ttl=5s;",
                          "location / { return 200 '$tamis_first_t$tamis_seen_u'; } location /u { return 200 $tamis_first_u; }",
                          has_clock=True)
    begin, ends = nginx.clock.now, {}
    nginx.start()
    for into in 0, 1, 1000, 9999:
        nginx.clock.set(begin + into)
        for text, seconds in ttl.items():
            end = max(into + seconds * 1000, 1)
            ends[f"{text}_{into}"] = begin + -(-end // 10000) * 10000 if seconds <= 20 else begin + 30000
            same(nginx.get(f"/?t={text}_{into}&ttl={text}")[1], "10", "it is new")
        same(nginx.get(f"/u?u=constant_{into}")[1], "1", "it is new")
        ends[f"constant_{into}"] = begin + (10000 if into <= 5000 else 20000)
    for now in range(begin + 9999, begin + 30000, 10000):
        for later in 0, 1:
            nginx.clock.set(now + later)
            for key, end in ends.items():
                same(nginx.get(f"/?u={key}")[1][1], str(int(now + later < end)), f"{key} after {now + later - begin} ms")


def test_a_window_that_workers_cannot_open(context):
    if os.geteuid():
        pytest.skip("here workers may open what the master may")
    nginx = context.nginx(WINDOW("tokens", "1h"), "location / { return 200 $tamis_first_t; }")
    nginx.path("tokens").touch()
    nginx.path("tokens").chmod(0o640)  # not for root alone, so it is left as it is
    nginx.start()
    found(r'tamis_filter "t": a period could not be ended: input or output error .*\(13: Permission denied\)', nginx.log())
    same([nginx.get("/?t=a")[1] for _ in range(2)], ["0", "0"], "answers")
    found(r"a key was not added, and counts as seen: input or output error .*\(13: Permission denied\)", nginx.log())


def until_says(nginx, path, answer):
    """All workers answer so, sooner or later."""
    connections = nginx.connect_to_each()
    wait_until(lambda: {c.get(path)[1] for c in connections} == {answer}, f"{path} says {answer}")


def test_lists(context):
    """A list is replaced without a reload."""
    nginx = context.nginx("tamis_filter b lists/blocked key=$arg_id list;",
                          "location / { if ($tamis_seen_b) { return 403 blocked; } return 200 welcome; }")
    lists = nginx.path("lists")
    lists.mkdir()
    path = lists / "blocked"
    context.build_list(["a", "b"], path)
    nginx.start()
    same([nginx.get(f"/?id={key}")[1] for key in "abc"] + [nginx.get("/")[1]],
         ["blocked", "blocked", "welcome", "welcome"], "the first list")
    for kind in ((), ("--kind", "cuckoo", "--fixed", "--capacity", "10"), ("--kind", "counting"),
                 ("--layout", "word", "--fpp", "0.001", "--capacity", "30000")):
        key = f"key-{len(kind)}-{kind[1:2]}".translate({ord(c): None for c in "(),' []"})
        context.build_list([key, "c"], path, *kind)
        until_says(nginx, f"/?id={key}", "blocked")
        until_says(nginx, "/?id=a", "welcome")
    # A file of the same size and time is another one all the same.  (A large file is not packed, so its size is the same.)
    before = path.stat()
    context.build_list(["e", "c"], path, *kind, like=before)
    same((path.stat().st_size, path.stat().st_mtime_ns), (before.st_size, before.st_mtime_ns), "size and time")
    until_says(nginx, "/?id=e", "blocked")
    # Nothing is mapped any more but the last one.
    for pid in nginx.all_workers():
        with open(f"/proc/{pid}/maps") as maps:
            same([line.split()[-1] for line in maps if "/lists/" in line], [str(path)], "what a worker has mapped")


def test_a_list_that_is_missing_again(context):
    """The log says so each time."""
    nginx = context.nginx("tamis_filter b list key=$arg_id list;", "location / { return 200 $tamis_seen_b; }", workers=1, has_clock=True)
    path, away = nginx.path("list"), nginx.path("away")
    context.build_list(["a"], path)
    nginx.start()
    for times in 1, 2:
        for old, new in (path, away), (away, path):
            old.rename(new)
            nginx.clock.set(nginx.clock.now + 1000)
            same(nginx.get("/?id=a")[1], "1", "the old list")
        same(nginx.log().count("the list stays as it was"), times, "reports")


def test_reloads_leave_nothing(context):
    """What the master has open and mapped, and its threads, are the same after each reload; and a configuration
    that does not load the module unloads it."""
    nginx = context.nginx(TOKENS + "tamis_filter b blocked key=$arg_id list;" +
                          WINDOW("window", "1h").replace("filter t", "filter w"), SAY)
    context.build_list(["a"], nginx.path("blocked"), "--kind", "cuckoo", "--fixed", "--capacity", "10")
    nginx.start()

    def opened(master):
        for entry in os.scandir(f"/proc/{master}/fd"):
            with contextlib.suppress(FileNotFoundError):  # it has been closed just now
                yield os.readlink(entry.path)

    def state():
        master = nginx.master()
        with open(f"/proc/{master}/maps") as maps:
            mapped = sorted(line.split()[-1] for line in maps if str(context.top) in line)
        files = sorted(path for path in opened(master) if path.startswith(str(nginx.folder)) and not path.endswith(".log"))
        return mapped, files, len(os.listdir(f"/proc/{master}/task"))

    same(nginx.get("/?t=a")[1], "0 1", "before")
    states = []
    for _ in range(4):  # the first reload finds files that are there
        nginx.reload()
        wait_until(lambda: len(nginx.all_workers()) == nginx.workers, "the old workers have ended")
        states.append(state())
    same(states[1:], states[:1] * 3, "after each reload")
    nginx.http, nginx.server = "", "location / { return 200 nothing; }"
    nginx.write_config()
    path = nginx.path("nginx.conf")
    path.write_text(path.read_text().replace("load_module", "#"))
    nginx.reload()
    wait_until(lambda: not state()[0], "the module is unloaded")
    wait_until(lambda: nginx.get("/?t=a")[1] == "nothing", "workers without the module")
    nginx.http, nginx.server = TOKENS, SAY
    nginx.write_config()
    nginx.reload()
    wait_until(lambda: nginx.get("/?t=a")[1] == "1 0", "the module is there again")
