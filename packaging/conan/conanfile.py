# SPDX-License-Identifier: MIT
from conan import ConanFile
from conan.errors import ConanInvalidConfiguration
from conan.tools.cmake import CMake, CMakeToolchain, cmake_layout
from conan.tools.files import copy, get, rmdir
from conan.tools.system.package_manager import Apk, Apt, Dnf, PacMan


class Tamis(ConanFile):
    name = "tamis"
    version = "@VERSION@"
    description = "Approximate-membership filters that many threads share: Bloom, cuckoo, sliding windows"
    license = "MIT"
    url = homepage = "@URL@"
    topics = ("bloom-filter", "cuckoo-filter", "concurrency")
    package_type = "library"
    languages = "C"
    settings = "os", "arch", "compiler", "build_type"
    options = {"shared": [True, False]}
    default_options = {"shared": False}

    def validate(self):
        if self.settings.os != "Linux" or self.settings.arch not in ("x86_64", "armv8"):
            raise ConanInvalidConfiguration("tamis is for Linux on x86-64 and arm64")

    def system_requirements(self):
        """From the system, as Conan's own centre has neither liburcu nor ConcurrencyKit."""
        Apt(self).install(["libck-dev", "liburcu-dev", "libxxhash-dev", "pkg-config"], check=True)
        Apk(self).install(["ck-dev", "userspace-rcu-dev", "xxhash-dev", "pkgconf"], check=True)
        Dnf(self).install(["ck-devel", "userspace-rcu-devel", "xxhash-devel", "pkgconf"], check=True)
        PacMan(self).install(["libck", "liburcu", "xxhash", "pkgconf"], check=True)

    def layout(self):
        cmake_layout(self, src_folder="src")

    def source(self):
        get(self, f"{self.url}/tamis-{self.version}.tar.gz", sha256="@SHA256@", strip_root=True)

    def generate(self):
        toolchain = CMakeToolchain(self)
        for part in ("BENCH", "NGINX", "REDIS", "TESTS", "TOOL"):
            toolchain.cache_variables[f"TAMIS_BUILD_{part}"] = False
        toolchain.generate()

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.build()

    def package(self):
        CMake(self).install()
        copy(self, "LICENSE", self.source_folder, f"{self.package_folder}/licenses")
        for folder in ("lib/cmake", "lib/pkgconfig", "share"):
            rmdir(self, f"{self.package_folder}/{folder}")

    def package_info(self):
        self.cpp_info.libs = ["tamis"]
        self.cpp_info.system_libs = ["m", "pthread"] if self.options.shared else ["urcu-bp", "urcu-common", "m", "pthread"]
