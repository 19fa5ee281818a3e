# SPDX-License-Identifier: MIT
# Toolchain: builds for arm64 with Debian's cross compiler, and runs tests under qemu-user.
# script/aarch64-sysroot makes the folder with the arm64 libraries.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)

set(sysroot "${CMAKE_CURRENT_LIST_DIR}/../build/aarch64-sysroot")
cmake_path(NORMAL_PATH sysroot)
if(NOT EXISTS "${sysroot}/complete")
  message(FATAL_ERROR "run script/aarch64-sysroot ${sysroot} first")
endif()
set(libraries "${sysroot}/usr/lib/aarch64-linux-gnu")

set(CMAKE_FIND_ROOT_PATH "${sysroot}")
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(ENV{PKG_CONFIG_LIBDIR} "${libraries}/pkgconfig")
set(ENV{PKG_CONFIG_SYSROOT_DIR} "${sysroot}")

set(headers "-isystem ${sysroot}/usr/include/aarch64-linux-gnu -isystem ${sysroot}/usr/include")
set(CMAKE_C_FLAGS_INIT "${headers}")
set(CMAKE_CXX_FLAGS_INIT "${headers}")
set(CMAKE_EXE_LINKER_FLAGS_INIT "-L${libraries} -Wl,-rpath,${libraries}")
set(CMAKE_SHARED_LINKER_FLAGS_INIT "${CMAKE_EXE_LINKER_FLAGS_INIT}")
set(CMAKE_MODULE_LINKER_FLAGS_INIT "${CMAKE_EXE_LINKER_FLAGS_INIT}")

# The loader and libc are those of the cross compiler.
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64 -L /usr/aarch64-linux-gnu)
