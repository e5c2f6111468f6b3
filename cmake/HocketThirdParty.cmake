# Third-party libraries: what the system has first (Debian 12's packages suffice); where a package is
# missing and a network allows it, the sources of one commit.
include(FetchContent)
find_package(Threads REQUIRED)

# hocket_third_party(NAME PACKAGES REPOSITORY COMMIT): find_package(NAME), which Debian's PACKAGES satisfy, else the
# sources of that commit. CMake's own FETCHCONTENT_SOURCE_DIR_<NAME> names sources that are here already.
function(hocket_third_party name packages repository commit)
  find_package(${name} QUIET GLOBAL)
  if(${name}_FOUND)
    return()
  endif()
  string(TOUPPER ${name} upper)
  set(sources ${CMAKE_BINARY_DIR}/_deps/${name}-${commit})
  if(NOT FETCHCONTENT_SOURCE_DIR_${upper} AND NOT EXISTS ${sources}/CMakeLists.txt)
    message(STATUS "Hocket: ${name} is not installed; fetching it")
    _hocket_fetch(${name} "${packages}" ${repository} ${commit} ${sources})
  endif()
  FetchContent_Declare(${name} SOURCE_DIR ${sources})
  FetchContent_MakeAvailable(${name})
endfunction()

function(_hocket_fetch name packages repository commit folder)
  execute_process(
    COMMAND sh -c "git init -q \"$1\" && cd \"$1\" && git fetch -q --depth 1 $2 $3 && git checkout -q FETCH_HEAD"
      sh ${folder} ${repository} ${commit}
    RESULT_VARIABLE failed ERROR_VARIABLE complaint OUTPUT_QUIET ERROR_STRIP_TRAILING_WHITESPACE)
  if(failed)
    message(FATAL_ERROR "Hocket needs ${name}, which is not installed, and its sources cannot be fetched from "
      "${repository}:\n  ${complaint}\n"
      "Install it (Debian: apt install ${packages}), or configure again where that address can be reached.")
  endif()
endfunction()

set(ABSL_PROPAGATE_CXX_STD ON)
hocket_third_party(absl libabsl-dev
  https://github.com/abseil/abseil-cpp 4447c7562e3bc702ade25105912dce503f0c4010)  # 20240722.0
hocket_third_party(nlohmann_json nlohmann-json3-dev
  https://github.com/nlohmann/json 9cca280a4d0ccf0c08f47a99aa71d1b0e52f8d03)  # 3.11.3
hocket_third_party(spdlog libspdlog-dev
  https://github.com/gabime/spdlog 7c02e204c92545f869e2f04edaab1f19fe8b19fd)  # 1.13.0

if(HOCKET_TESTS)
  set(INSTALL_GTEST OFF CACHE INTERNAL "")
  hocket_third_party(GTest "libgtest-dev libgmock-dev"
    https://github.com/google/googletest 52eb8108c5bdec04579160ae17225d66034bd723)  # 1.17.0
  include(GoogleTest)
endif()
if(HOCKET_BENCHMARKS)
  find_package(benchmark QUIET)  # where it is missing, only the benchmarks written with it are left out
endif()
