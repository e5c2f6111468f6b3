# hocket_test(NAME SOURCES... LIBS... [ONE_THREAD]): one GoogleTest binary, every test in it known to ctest by name.
# ONE_THREAD: it starts none, which a test of its own checks; so the thread sanitizer has nothing to find, and leaves it out.
function(hocket_test name)
  cmake_parse_arguments(T "ONE_THREAD" "TIMEOUT" "SOURCES;LIBS;ENVIRONMENT" ${ARGN})
  if(NOT HOCKET_TESTS OR (T_ONE_THREAD AND HOCKET_SANITIZE STREQUAL "thread"))
    return()
  endif()
  if(NOT T_TIMEOUT)
    set(T_TIMEOUT 600)  # for what hangs: a busy machine takes its time
  endif()
  add_executable(${name} ${T_SOURCES})
  # GoogleTest's macros take a third longer to compile at -O2, and under sanitizers 1.8 times as long at -O1; what a test
  # does is in the libraries that it links.
  target_compile_options(${name} PRIVATE $<$<CONFIG:Release,RelWithDebInfo>:-Og>)
  target_link_libraries(${name} PRIVATE ${T_LIBS} GTest::gmock GTest::gtest_main)
  gtest_discover_tests(${name} DISCOVERY_MODE PRE_TEST PROPERTIES TIMEOUT ${T_TIMEOUT} ENVIRONMENT "${T_ENVIRONMENT}")
  if(T_ONE_THREAD AND NOT HOCKET_SANITIZE)  # a sanitizer's own code starts threads
    add_test(NAME ${name}.StartsNoThread COMMAND ${CMAKE_COMMAND} -D PROGRAM=$<TARGET_FILE:${name}> -D NM=${CMAKE_NM}
             -P ${PROJECT_SOURCE_DIR}/cmake/StartsNoThread.cmake)
  endif()
endfunction()
