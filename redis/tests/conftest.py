# SPDX-License-Identifier: MIT
"""Options and fixtures for tests of the module in real servers.

    python3 -m pytest redis/tests/test_commands.py [--server valkey] [--module PATH] [-k WORD]

The tests run in a process of their own.  Its supervisors kill the servers and remove their folder, however it ends.
"""
import pytest
import server as servers
from loopback import SKIPPED, finish, supervise


def pytest_addoption(parser):
    parser.addoption("--server", choices=servers.KINDS, default="redis", help="which server")
    parser.addoption("--module", default="build/release/redis/tamis-redis.so")


def pytest_configure(config):
    if not servers.find_program(config.option.server):
        pytest.exit(f"skipped: no {config.option.server}-server here", SKIPPED)
    supervise()
    config.context = servers.Context(config.option.server, config.option.module)


pytest_sessionfinish = finish


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item):
    """A test that failed may have left anything in the server that tests share."""
    if (yield).get_result().failed:
        item.config.context.forget()


@pytest.fixture
def context(pytestconfig):
    yield pytestconfig.context
    pytestconfig.context.check_alive()


@pytest.fixture
def server(context):
    """The server that tests share, empty."""
    return context.server()


@pytest.fixture
def start(context):
    """Starts servers that end with the test."""
    return context.start
