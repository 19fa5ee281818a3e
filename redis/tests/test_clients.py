# SPDX-License-Identifier: MIT
"""The calls that client libraries have for BF.* and CF.* work unchanged: python3-redis from Debian, and
redis from npm.
"""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import pytest
import server as servers
from server import same

HERE = pathlib.Path(__file__).resolve().parent
NODE_REDIS = "redis@5.9.0"  # which names the version of each package that it needs


def test_python_redis(context):
    sys.path.append("/usr/lib/python3/dist-packages")  # for a Python that is not Debian's
    try:
        import redis
    except ImportError:
        pytest.skip("no python3-redis here")
    port = context.server().port
    context.shared("CONFIG", "SET", "tamis.cf-error-rate", "1e-6")  # so that counts are exact
    r = redis.Redis(port=port)
    bf, cf = r.bf(), r.cf()
    assert bf.create("f", 0.001, 1000)
    assert bf.create("e", 0.001, 1000, expansion=4)
    assert bf.create("n", 0.001, 3, noScale=True)
    same(bf.add("f", "a"), 1)
    same(bf.madd("f", "a", "b", "c"), [0, 1, 1])
    same(bf.insert("f", ["c", "d"]), [0, 1])
    same(bf.insert("g", ["a"], capacity=500, error=0.01, expansion=2), [1])
    same(bf.exists("f", "a"), 1)
    same(bf.mexists("f", "a", "absent"), [1, 0])
    info = bf.info("f")
    same((info.capacity, info.filterNum, info.insertedNum, info.expansionRate), (1000, 1, 4, 2))
    assert info.size > 1000
    same(bf.info("n").expansionRate, None)
    if hasattr(bf, "card"):
        same(bf.card("f"), 4)
    load(bf, "f", "f again")
    same(bf.mexists("f again", "a", "d", "absent"), [1, 1, 0])
    for call in (lambda: bf.create("f", 0.1, 10), lambda: bf.insert("missing", ["a"], noCreate=True),
                 lambda: bf.madd("missing")):
        try:
            call()
        except redis.ResponseError:
            continue
        raise AssertionError("no error")
    assert cf.create("c", 1000)
    assert cf.create("d", 1000, expansion=2, bucket_size=4, max_iterations=30)
    same(cf.add("c", "a"), 1)
    same(cf.add("c", "a"), 1)
    same(cf.addnx("c", "a"), 0)
    same(cf.insert("c", ["b", "x"]), [1, 1])
    same(cf.insertnx("c", ["b", "y"]), [0, 1])
    same(cf.insert("z", ["a"], capacity=500), [1])
    same(cf.count("c", "a"), 2)
    same(cf.delete("c", "a"), 1)
    same(cf.exists("c", "a"), 1)
    same(cf.exists("c", "absent"), 0)
    info = cf.info("c")
    same((info.insertedNum, info.deletedNum, info.bucketSize, info.expansionRate, info.maxIteration)[1:], (1, 2, 1, 20))
    load(cf, "c", "c again")
    same(cf.count("c again", "a"), 1)
    with r.pipeline() as pipe:
        pipe.bf().add("p", "a")
        pipe.bf().exists("p", "a")
        same(pipe.execute(), [1, 1])


def load(commands, source, target):
    cursor = 0
    while True:
        cursor, data = commands.scandump(source, cursor)
        if cursor == 0:
            return
        assert commands.loadchunk(target, cursor, data)


# ---- npm ----


_installed = None


def installed():
    """A folder with the package, or the reason why there is none."""
    global _installed
    if _installed is None:
        _installed = install()
    if isinstance(_installed, str):
        pytest.skip(_installed)
    return _installed


def install():
    for program in ("node", "npm"):
        if not shutil.which(program):
            return f"no {program} here"
    folder = pathlib.Path(tempfile.mkdtemp(dir=servers.temporary_folder()))
    shutil.copy(HERE / "node_redis.js", folder)
    environment = dict(os.environ, npm_config_cache=str(folder / "cache"), npm_config_fetch_retries="1",
                       npm_config_fetch_timeout="20000")
    try:
        done = subprocess.run(["npm", "install", "--ignore-scripts", "--no-audit", "--no-fund",
                               "--loglevel=error", NODE_REDIS],
                              cwd=folder, env=environment, capture_output=True, text=True, timeout=120)
    except subprocess.TimeoutExpired:
        return "npm cannot install within 120 s"
    if done.returncode == 0:
        return folder
    if any(word in done.stderr for word in ("EUSAGE", "EINTEGRITY", "E404", "ETARGET")):
        raise AssertionError(f"npm install: {done.stderr}")
    return f"npm cannot install: {done.stderr.strip().splitlines()[-1] if done.stderr else done.returncode}"


def node(context, script, *words):
    port = context.server().port
    context.shared("CONFIG", "SET", "tamis.cf-error-rate", "1e-6")  # so that counts are exact
    done = subprocess.run(["node", script, str(port), *words], cwd=installed(), capture_output=True, text=True,
                          timeout=240)
    assert done.returncode == 0, done.stderr


def test_npm_node_redis(context):
    node(context, "node_redis.js", "2")


def test_npm_node_redis_resp3(context):
    node(context, "node_redis.js", "3")
