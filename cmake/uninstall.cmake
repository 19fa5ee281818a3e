# SPDX-License-Identifier: MIT
# Removes what the last installation from this build has put somewhere, and the folders named tamis that
# are empty then.  $DESTDIR counts as it did for the installation.
#
#   cmake -D MANIFEST=BUILD_DIR/install_manifest.txt -P uninstall.cmake
if(NOT EXISTS ${MANIFEST})
  message(FATAL_ERROR "Nothing has been installed from this build: there is no ${MANIFEST}")
endif()
file(STRINGS ${MANIFEST} files)
foreach(file IN LISTS files)
  string(PREPEND file "$ENV{DESTDIR}")
  if(EXISTS ${file} OR IS_SYMLINK ${file})
    message(STATUS "Removing: ${file}")
    file(REMOVE ${file})
  endif()
  cmake_path(GET file PARENT_PATH folder)
  while(folder MATCHES "/tamis(/|$)" AND IS_DIRECTORY ${folder})
    file(GLOB rest ${folder}/*)
    if(rest)
      break()
    endif()
    file(REMOVE_RECURSE ${folder})
    cmake_path(GET folder PARENT_PATH folder)
  endwhile()
endforeach()
