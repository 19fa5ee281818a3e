# SPDX-License-Identifier: MIT
"""Options and the fixture for tests of the module in nginx.

    python3 -m pytest nginx/tests/test_config.py [--module PATH] [--tool PATH] [-k WORD]

The tests run in a process of their own.  Its supervisors end nginx and remove its folder, however it ends.
"""
import os
import re

import pytest
import server
from loopback import SKIPPED, finish, supervise


def pytest_addoption(parser):
    parser.addoption("--module", default="build/release/nginx/ngx_http_tamis_module.so")
    parser.addoption("--tool", default="build/release/tools/tamis", help="the command, which makes lists")


def pytest_configure(config):
    config.context = server.Context(supervise(), config.option)
    if not config.context.program:
        pytest.exit("skipped: no nginx here", SKIPPED)


pytest_sessionfinish = finish


@pytest.fixture
def context(pytestconfig):
    yield pytestconfig.context
    pytestconfig.context.end()


@pytest.fixture
def on_small_disk(context):
    """nginx whose folder `disk` is a disk of its own, if this machine lets root mount one."""
    def make(size, *args):
        nginx = context.nginx(*args)
        nginx.path("disk").mkdir()
        nginx.wrapper = ["unshare", "-m", "sh", "-c", f'mount -t tmpfs -o size={size} none {nginx.path("disk")} && exec "$@"', "sh"]
        said = nginx.test()[1] if os.geteuid() == 0 else "only root mounts disks"
        if re.search("only root|unshare|mount", said):
            pytest.skip(said)
        return nginx
    return make
