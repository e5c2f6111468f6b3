# cmake -D PROGRAM=FILE -D NM=nm -P StartsNoThread.cmake: fails where FILE refers to anything that starts a thread.
execute_process(COMMAND ${NM} --dynamic --undefined-only ${PROGRAM} OUTPUT_VARIABLE symbols RESULT_VARIABLE status)
if(NOT status EQUAL 0 OR NOT symbols MATCHES "__libc_start_main")
  message(FATAL_ERROR "the symbols of ${PROGRAM} cannot be read with ${NM} (status ${status})")
endif()
string(REGEX MATCHALL "pthread_create|thrd_create|_M_start_thread" found "${symbols}")
if(found)
  message(FATAL_ERROR "${PROGRAM} starts threads (${found}): take ONE_THREAD from its hocket_test(), "
          "so that the thread sanitizer runs it too")
endif()
