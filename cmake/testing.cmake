# SPDX-License-Identifier: MIT
# What all folders of tests share.
pkg_check_modules(cmocka IMPORTED_TARGET cmocka)

# Sanitizers, an emulator and counting slow things down: shorter runs there.  What needs only one build, for
# the machine itself, is tested in a plain one.
if(TAMIS_SANITIZE OR CMAKE_CROSSCOMPILING OR TAMIS_COVERAGE)
  set(TAMIS_SHORTER 10 CACHE STRING "How much shorter runs are under sanitizers")
  set(scale ${TAMIS_SHORTER})
  set(plain OFF)
else()
  set(scale 1)
  set(plain ON)
endif()

# The library once more, with the hooks that a release does not have: for schedules and for stress.  Under
# a sanitizer the library has them everywhere, so it is compiled once.
list(TRANSFORM tamis_sources PREPEND ${PROJECT_SOURCE_DIR}/ OUTPUT_VARIABLE hooked_sources)
if(TAMIS_SANITIZE)
  add_library(tamis_hooked INTERFACE)
  target_link_libraries(tamis_hooked INTERFACE tamis::static)
  set(use INTERFACE)
else()
  add_library(tamis_hooked STATIC ${hooked_sources})
  # It is to be compiled soon, not fast.
  target_compile_options(tamis_hooked PRIVATE $<$<CONFIG:Release>:-O1>
                         $<$<C_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)
  target_compile_definitions(tamis_hooked PRIVATE TAMIS_ONE_COPY)
  count_runs(tamis_hooked)
  set(use PUBLIC)
endif()
target_compile_definitions(tamis_hooked ${use} TAMIS_HOOKS _GNU_SOURCE)
target_include_directories(tamis_hooked ${use} ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/lib
                           ${CK_INCLUDE_DIR} ${xxhash_INCLUDE_DIRS})
target_link_libraries(tamis_hooked ${use} ${urcu_LIBRARIES} Threads::Threads tamis_flags m)

# The library once more, with small constants (lib/base/compiler.h) and assertions.
if(TAMIS_BUILD_SMALL)
  add_library(tamis_small STATIC ${hooked_sources})
  target_compile_definitions(tamis_small PUBLIC TAMIS_SMALL TAMIS_HOOKS _GNU_SOURCE)
  target_include_directories(tamis_small PUBLIC ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/lib
                             ${CK_INCLUDE_DIR} ${xxhash_INCLUDE_DIRS})
  target_link_libraries(tamis_small PUBLIC ${urcu_LIBRARIES} Threads::Threads tamis_flags m)
endif()

add_library(test_flags INTERFACE)
target_compile_definitions(test_flags INTERFACE _GNU_SOURCE $<$<NOT:$<EQUAL:${scale},1>>:TAMIS_SLOW>)
target_include_directories(test_flags INTERFACE ${PROJECT_SOURCE_DIR}/tests/support)
if(cmocka_FOUND)
  target_sources(test_flags INTERFACE ${PROJECT_SOURCE_DIR}/tests/support/unit.c)
  target_link_libraries(test_flags INTERFACE PkgConfig::cmocka Threads::Threads)
else()
  leave_out("unit tests and schedules in C" "cmocka not found")
endif()
# One thread is nothing to a thread sanitizer: it gets the programs that start threads, or that test
# the thread of the library, and of these the tests that do so (unit.h).
if(TAMIS_SANITIZE STREQUAL thread)
  target_compile_definitions(test_flags INTERFACE TAMIS_THREADS_ONLY)
endif()
# The library's private parts, as they are shipped.
add_library(unit_flags INTERFACE)
target_include_directories(unit_flags INTERFACE ${PROJECT_SOURCE_DIR}/lib ${CK_INCLUDE_DIR} ${xxhash_INCLUDE_DIRS})
target_link_libraries(unit_flags INTERFACE test_flags stress_harness m)

# wrap(TARGET FUNCTION ...): the program has functions of its own in place of these.
function(wrap target)
  foreach(function IN LISTS ARGN)
    target_link_options(${target} PRIVATE -Wl,--wrap=${function})
  endforeach()
endfunction()

# close_room(LABEL): the last line of a folder of tests.  All its tests have the label; a test that hangs fails,
# after several times what the longest one takes on two busy cores.  LABEL-programs builds what they run.
function(close_room label)
  get_property(tests DIRECTORY PROPERTY TESTS)
  if(tests)
    set_tests_properties(${tests} PROPERTIES LABELS ${label} TIMEOUT 1800 SKIP_RETURN_CODE 77)
  endif()
  # A file of counts for each test, and in it for each library (%m): in one file for several programs, clang's
  # runtime would have the counts of one alone, if they have the same functions in another order.
  if(TAMIS_COVERAGE)
    foreach(test IN LISTS tests)
      set_property(TEST ${test} APPEND PROPERTY ENVIRONMENT
                   "LLVM_PROFILE_FILE=${PROJECT_BINARY_DIR}/counts/${test}.%m%c.profraw")
    endforeach()
  endif()
  get_property(targets DIRECTORY PROPERTY BUILDSYSTEM_TARGETS)
  foreach(target IN LISTS targets)
    get_target_property(type ${target} TYPE)
    if(type STREQUAL EXECUTABLE OR type MATCHES "LIBRARY")
      set_property(TARGET ${target} PROPERTY TAMIS_TEST_CODE ON)
      list(APPEND programs ${target})
    endif()
    if(type STREQUAL EXECUTABLE OR type STREQUAL MODULE_LIBRARY)
      list(APPEND built ${target})
    endif()
  endforeach()
  add_custom_target(${label}-programs DEPENDS tamis tamis_static ${built})
endfunction()
