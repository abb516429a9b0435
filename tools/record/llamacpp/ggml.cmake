# Only ggml computes values; it is built as for a release. The rest is built with -O1 (build.sh), in half the time.
set(CMAKE_CXX_FLAGS_RELEASE "-O3 -DNDEBUG")
