# SPDX-License-Identifier: MIT
"""Builds the package, with the library's own sources in its extension module.

In the project's tree the sources are beside this folder; a source distribution has a copy of them in the folder
`library`, which is made here.
"""
import concurrent.futures
import os
import pathlib
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.command.sdist import sdist

HERE = pathlib.Path(__file__).resolve().parent
LIBRARY = HERE / "library" if (HERE / "library").is_dir() else HERE.parent
COPIED = ["lib", "include/tamis/tamis.h", "cmake/inline_readers.c", "LICENSE"]
HEADERS = {"urcu/urcu-bp.h": "liburcu-dev", "xxhash.h": "libxxhash-dev", "ck_spinlock.h": "libck-dev"}

# A Python without the GIL has no limited API: its extension is for that version alone.
LIMITED = not sysconfig.get_config_var("Py_GIL_DISABLED")


def version():
    header = (LIBRARY / "include/tamis/tamis.h").read_text()
    return ".".join(re.findall(r"^#define TAMIS_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)", header, re.M))


class Build(build_ext):
    """Compiles the library's sources, several at a time, and links them into the extension."""

    def build_extension(self, ext):
        self.check_headers()
        if self.can_compile((LIBRARY / "cmake/inline_readers.c").read_text()) and self.urcu_is_known():
            ext.define_macros.append(("TAMIS_INLINE_READERS", None))
        # lib/alone/ takes the place of others, for machines without threads.
        sources = sorted(str(path) for path in (LIBRARY / "lib").rglob("*.c") if path.parent.name != "alone")
        jobs = len(os.sched_getaffinity(0))
        with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
            ext.extra_objects += [objects[0] for objects in pool.map(lambda one: self.compile(ext, one), sources)]
        super().build_extension(ext)

    def compile(self, ext, source):
        return self.compiler.compile(
            [source], output_dir=os.path.join(self.build_temp, "library"), macros=ext.define_macros,
            include_dirs=ext.include_dirs, extra_postargs=ext.extra_compile_args)

    def can_compile(self, text):
        with tempfile.TemporaryDirectory() as folder:
            program = pathlib.Path(folder, "program.c")
            program.write_text(text)
            command = [*self.compiler.compiler_so, "-fsyntax-only", str(program)]
            return subprocess.run(command, capture_output=True).returncode == 0

    def check_headers(self):
        missing = [package for header, package in HEADERS.items() if not self.can_compile(f"#include <{header}>\n")]
        if missing:
            sys.exit("tamis: headers are missing; on Debian, root installs them with\n"
                     f"  apt-get install {' '.join(missing)}")

    @staticmethod
    def urcu_is_known():
        """As CMakeLists.txt has it: the reader that the library inlines is that of liburcu 0.13 to 0.15."""
        try:
            known = subprocess.run(["pkg-config", "--max-version=0.15.99", "liburcu-bp"])
        except FileNotFoundError:
            return False
        return known.returncode == 0


class SourceDistribution(sdist):
    def make_release_tree(self, base_dir, files):
        super().make_release_tree(base_dir, files)
        for name in COPIED:
            target = pathlib.Path(base_dir, "library", name)
            target.parent.mkdir(parents=True, exist_ok=True)
            if (LIBRARY / name).is_dir():
                shutil.copytree(LIBRARY / name, target, dirs_exist_ok=True)
            else:
                shutil.copy(LIBRARY / name, target)


setup(
    version=version(),
    ext_modules=[Extension(
        "tamis._tamis",
        sources=sorted(path.relative_to(HERE).as_posix() for path in (HERE / "extension").glob("*.c")),
        depends=sorted(path.relative_to(HERE).as_posix() for path in (HERE / "extension").glob("*.[hm]*")),
        include_dirs=[str(LIBRARY / "include"), str(LIBRARY / "lib")],
        define_macros=[("_GNU_SOURCE", None), ("NDEBUG", None)]
        + ([("Py_LIMITED_API", "0x030b0000")] if LIMITED else []),
        # As CMakeLists.txt has it: plans of filters are the same on every machine.
        extra_compile_args=["-std=c11", "-ffp-contract=off", "-fvisibility=hidden"]
        + ([] if "-O" in os.environ.get("CFLAGS", "") else ["-O3"]),
        # The module exports one function, and not those of the library; nothing unloads it.
        extra_link_args=["-Wl,--version-script=extension/exports.map", "-Wl,-z,nodelete"],
        libraries=["urcu-bp", "m"],
        py_limited_api=LIMITED,
    )],
    cmdclass={"build_ext": Build, "sdist": SourceDistribution},
    options=({"bdist_wheel": {"py_limited_api": "cp311"}} if LIMITED else {})
    # In the project's tree, what is built goes where everything built goes.
    | ({"build": {"build_base": str(LIBRARY / "build/python-package")}} if LIBRARY == HERE.parent else {}),
)
