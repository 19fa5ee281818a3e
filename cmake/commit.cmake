# SPDX-License-Identifier: MIT
# Writes a header with the commit of the source tree, for `tamis --version`, if it is another one than before:
#
#   cmake -D SOURCE=DIR -D HEADER=FILE -P commit.cmake
#
# The commit is empty in an archive, and where the tree is a part of another repository.
cmake_minimum_required(VERSION 3.22) # and its policies
set(ENV{GIT_OPTIONAL_LOCKS} 0) # nobody else's git has to wait
execute_process(COMMAND git rev-parse --show-toplevel WORKING_DIRECTORY ${SOURCE}
                OUTPUT_VARIABLE top OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
set(commit "")
get_filename_component(source ${SOURCE} REALPATH)
if(top STREQUAL source)
  execute_process(COMMAND git describe --always --dirty --exclude * --abbrev=12 WORKING_DIRECTORY ${SOURCE}
                  OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
endif()
file(CONFIGURE OUTPUT ${HEADER} CONTENT "#define COMMIT \"@commit@\"\n" @ONLY)
