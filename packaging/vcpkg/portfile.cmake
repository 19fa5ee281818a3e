message(WARNING "${PORT} needs the headers of ConcurrencyKit from the system: libck-dev (Debian), ck-devel (Fedora), libck (Arch)")
vcpkg_download_distfile(archive
  URLS "@URL@/tamis-${VERSION}.tar.gz"
  FILENAME "tamis-${VERSION}.tar.gz"
  SHA512 @SHA512@)
vcpkg_extract_source_archive(SOURCE_PATH ARCHIVE "${archive}")
vcpkg_find_acquire_program(PKGCONFIG)
vcpkg_cmake_configure(
  SOURCE_PATH "${SOURCE_PATH}"
  OPTIONS
    "-DPKG_CONFIG_EXECUTABLE=${PKGCONFIG}"
    -DTAMIS_BUILD_BENCH=OFF
    -DTAMIS_BUILD_NGINX=OFF
    -DTAMIS_BUILD_REDIS=OFF
    -DTAMIS_BUILD_TESTS=OFF
    -DTAMIS_BUILD_TOOL=OFF)
vcpkg_cmake_install()
vcpkg_cmake_config_fixup(CONFIG_PATH lib/cmake/tamis)
vcpkg_fixup_pkgconfig()
file(REMOVE_RECURSE "${CURRENT_PACKAGES_DIR}/debug/include" "${CURRENT_PACKAGES_DIR}/debug/share"
  "${CURRENT_PACKAGES_DIR}/share/doc" "${CURRENT_PACKAGES_DIR}/share/man")
file(INSTALL "${CMAKE_CURRENT_LIST_DIR}/usage" DESTINATION "${CURRENT_PACKAGES_DIR}/share/${PORT}")
vcpkg_install_copyright(FILE_LIST "${SOURCE_PATH}/LICENSE")
