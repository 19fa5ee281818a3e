# SPDX-License-Identifier: MIT
import multiprocessing
import os
import shutil
import subprocess
import sys

import pytest


@pytest.fixture
def spawned():
    """Runs `python -c PROGRAM ARGUMENTS` with the package, and returns what it prints."""

    def run(program, *arguments, options=(), **environment):
        done = subprocess.run([sys.executable, *options, "-c", program, *map(str, arguments)], text=True,
                              capture_output=True, env={**os.environ, **environment}, timeout=300)
        assert done.returncode == 0, done.stderr[-3000:]
        return done.stdout

    return run


@pytest.fixture
def command():
    """The command tamis: that of the build (TAMIS_COMMAND), or the one that is installed."""
    found = os.environ.get("TAMIS_COMMAND") or shutil.which("tamis")
    if not found:
        pytest.skip("the command tamis is not there")
    return found


@pytest.fixture
def spawn():
    return multiprocessing.get_context("spawn")
