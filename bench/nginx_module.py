#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""What the variables cost: requests a second for a small file with and without them, next to nginx' limit_req,
which keeps its keys in a zone of shared memory.  docs/use/nginx.md has its figures.

    nginx_module.py --module PATH --tool PATH [--rounds N] [--seconds N] [--keys N]

All subjects are measured in turns by wrk, in one nginx with two workers; figures are medians of rounds.  Each key
is a random number of 128 bits, which nginx makes for every request of each subject.
"""
import argparse
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import sys

import results
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "nginx/tests"))
from server import HOST, Context  # noqa: E402
from loopback import supervised  # noqa: E402

HTTP = """
tamis_filter tokens tokens key=$request_id capacity={keys} fpp=1e-6 max_bytes=8g growable;
tamis_filter again again key=$scheme capacity=1m fpp=1e-6;
tamis_filter list list key=$request_id list;
limit_req_zone $request_id zone=limited:64m rate=1r/s;
"""
SUBJECTS = {  # name: what its location has
    "the file alone": "add_header X $request_id;",
    "`$tamis_seen_…`, a list": "add_header X $request_id$tamis_seen_list;",
    "`$tamis_first_…`, a new key": "add_header X $request_id$tamis_first_tokens;",
    "`$tamis_first_…`, one key for all": "add_header X $request_id$tamis_first_again;",
    "`limit_req`, a new key": "add_header X $request_id; limit_req zone=limited;",
}


def processor_seconds(pids):
    ticks = 0
    for pid in pids:
        fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def measure(nginx, number, seconds):
    """Requests a second, and microseconds of the workers' processor time for each."""
    before = processor_seconds(nginx.all_workers())
    said = subprocess.run(["wrk", "-t", "2", "-c", "32", "-d", f"{seconds}s", f"http://{HOST}:{nginx.port}/{number}/file"],
                          stdout=subprocess.PIPE, check=True).stdout.decode()
    if "Non-2xx" in said:
        raise AssertionError(said)
    requests = int(re.search(r"(\d+) requests in", said)[1])
    rate = float(re.search(r"Requests/sec: +([\d.]+)", said)[1])
    return rate, (processor_seconds(nginx.all_workers()) - before) / requests * 1e6


def main(folder, args):
    context = Context(folder, args)
    server = "".join(f"location /{i}/ {{ alias {{folder}}/; {what} }}\n" for i, what in enumerate(SUBJECTS.values()))
    nginx = context.nginx(HTTP.format(keys=args.keys), workers=2)
    nginx.server = server.replace("{folder}", str(nginx.folder))
    nginx.path("file").write_text("a small file\n")
    context.build_list(range(args.keys), nginx.path("list"))
    nginx.start()
    numbers = {name: i for i, name in enumerate(SUBJECTS)}
    results.interleaved(1, numbers, lambda number: measure(nginx, number, 1))  # warms up
    found = results.interleaved(args.rounds, numbers, lambda number: measure(nginx, number, args.seconds))
    nginx.stop()
    alone = found["the file alone"]
    print("| | requests a second | the same, of the file alone | processor time of the workers, of the file alone |\n"
          "|---|--:|--:|--:|")
    for name, rounds in found.items():
        faster, dearer = (statistics.median(mine[i] / its[i] for mine, its in zip(rounds, alone)) for i in (0, 1))
        print(f"| {name} | {statistics.median(rate for rate, _ in rounds):,.0f} | {faster:.2f} | {dearer:.2f} |")
    return True


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--module", required=True, help="ngx_http_tamis_module.so")
    parser.add_argument("--tool", required=True, help="the command tamis")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--seconds", type=int, default=3, help="of each subject in each round")
    parser.add_argument("--keys", type=int, default=1000000, help="of the list, and of the filter before it grows")
    arguments = parser.parse_args()
    if not shutil.which("wrk"):
        sys.exit("wrk is missing: apt-get install wrk")
    supervised(lambda folder: main(folder, arguments))
