# SPDX-License-Identifier: MIT
class Tamis < Formula
  desc "Approximate-membership filters that many threads share"
  homepage "@URL@"
  url "@URL@/tamis-@VERSION@.tar.gz"
  sha256 "@SHA256@"
  license "MIT"

  depends_on "cmake" => :build
  depends_on "concurrencykit" => :build
  depends_on "pkgconf" => :build
  depends_on "python@3.14" => :build
  depends_on "xxhash" => :build
  depends_on :linux
  depends_on "userspace-rcu"

  def install
    system "cmake", "-S", ".", "-B", "build", "-DTAMIS_BUILD_BENCH=OFF", "-DTAMIS_BUILD_NGINX=OFF",
                    "-DTAMIS_BUILD_REDIS=OFF", "-DTAMIS_BUILD_TESTS=OFF", *std_cmake_args
    system "cmake", "--build", "build"
    system "cmake", "--install", "build"
  end

  test do
    (testpath/"test.c").write <<~C
      #include <tamis/tamis.h>
      int main(void) {
        tamis_options options = TAMIS_OPTIONS_INIT;
        tamis_filter *filter;
        return tamis_create(&options, &filter) != TAMIS_OK || tamis_add(filter, "key", 3) != TAMIS_OK;
      }
    C
    system ENV.cc, "test.c", "-I#{include}", "-L#{lib}", "-ltamis", "-o", "test"
    system "./test"
    assert_equal "a\nb\n", pipe_output("#{bin}/tamis dedup", "a\nb\na\n", 0)
  end
end
