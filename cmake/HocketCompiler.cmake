# Refuses a compiler that is too old, in one sentence: what it would say itself about C++20 names no cause.
set(_oldest_GNU 12)
set(_oldest_Clang 14)
set(_oldest ${_oldest_${CMAKE_CXX_COMPILER_ID}})
if(NOT cxx_std_20 IN_LIST CMAKE_CXX_COMPILE_FEATURES OR CMAKE_CXX_COMPILER_VERSION VERSION_LESS "${_oldest}")
  message(FATAL_ERROR "${CMAKE_CXX_COMPILER} (${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION}) is too old: Hocket "
    "is written in C++20. Install g++ ${_oldest_GNU} or clang ${_oldest_Clang} or newer (Debian: apt install g++), remove "
    "${CMAKE_BINARY_DIR} and try again; CXX=g++ in the environment names the compiler.")
endif()
