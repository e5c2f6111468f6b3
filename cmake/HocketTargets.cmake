# hocket_test(NAME SOURCES... LIBS... [ONE_THREAD]): one GoogleTest binary, every test in it known to ctest by name; under
# a sanitizer, in a few processes, of which ctest knows (NAME.shard0 ...).
# Linked by lld where there is one, which takes a third of the time.
# ONE_THREAD: it starts none, which a test of its own checks; so the thread sanitizer has nothing to find, and leaves it out.
find_program(HOCKET_LLD ld.lld)
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
  if(HOCKET_LLD AND NOT T_ONE_THREAD)  # of a library it may take in more than is called, threads too
    target_link_options(${name} PRIVATE -fuse-ld=lld)
  endif()
  if(HOCKET_SANITIZE)
    _hocket_shards(${name} ${T_TIMEOUT} "${T_ENVIRONMENT}")
  else()
    gtest_discover_tests(${name} DISCOVERY_MODE PRE_TEST DISCOVERY_TIMEOUT 300
      PROPERTIES TIMEOUT ${T_TIMEOUT} ENVIRONMENT "${T_ENVIRONMENT}")
  endif()
  if(T_ONE_THREAD AND NOT HOCKET_SANITIZE)  # a sanitizer's own code starts threads
    add_test(NAME ${name}.StartsNoThread COMMAND ${CMAKE_COMMAND} -D PROGRAM=$<TARGET_FILE:${name}> -D NM=${CMAKE_NM}
             -P ${PROJECT_SOURCE_DIR}/cmake/StartsNoThread.cmake)
  endif()
endfunction()

# A sanitizer takes longer to start and to look for leaks at the end than most tests take, so many share a process. That
# each also passes in a process of its own the tests without sanitizers show.
function(_hocket_shards name timeout environment)
  set(shards 4)
  math(EXPR last "${shards} - 1")
  foreach(shard RANGE ${last})
    add_test(NAME ${name}.shard${shard} COMMAND ${name})
    set_tests_properties(${name}.shard${shard} PROPERTIES TIMEOUT ${timeout}
      ENVIRONMENT "GTEST_TOTAL_SHARDS=${shards};GTEST_SHARD_INDEX=${shard};${environment}")
  endforeach()
endfunction()
