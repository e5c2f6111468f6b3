# Third-party libraries: what the system has first (Debian 12's packages suffice); where a package is
# missing and a network allows it, the sources of one commit.
include(FetchContent)
find_package(Threads REQUIRED)

# hocket_third_party(NAME REPOSITORY COMMIT): find_package(NAME), else the sources of that commit.
function(hocket_third_party name repository commit)
  find_package(${name} QUIET GLOBAL)
  if(NOT ${name}_FOUND)
    message(STATUS "Hocket: ${name} is not installed; fetching it")
    FetchContent_Declare(${name} GIT_REPOSITORY ${repository} GIT_TAG ${commit})
    FetchContent_MakeAvailable(${name})
  endif()
endfunction()

set(ABSL_PROPAGATE_CXX_STD ON)
hocket_third_party(absl https://github.com/abseil/abseil-cpp 4447c7562e3bc702ade25105912dce503f0c4010)  # 20240722.0
hocket_third_party(nlohmann_json https://github.com/nlohmann/json 9cca280a4d0ccf0c08f47a99aa71d1b0e52f8d03)  # 3.11.3
hocket_third_party(spdlog https://github.com/gabime/spdlog 7c02e204c92545f869e2f04edaab1f19fe8b19fd)  # 1.13.0

if(HOCKET_TESTS)
  set(INSTALL_GTEST OFF CACHE INTERNAL "")
  hocket_third_party(GTest https://github.com/google/googletest 52eb8108c5bdec04579160ae17225d66034bd723)  # 1.17.0
  include(GoogleTest)
endif()
if(HOCKET_BENCHMARKS)
  find_package(benchmark QUIET)  # where it is missing, only the benchmarks written with it are left out
endif()
