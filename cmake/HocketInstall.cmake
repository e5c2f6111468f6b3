# What the Python package carries, as `cmake --install BUILD --component package --prefix .../hocket` lays it out:
#
#   _native*.so, _control*.so        the extension modules
#   bin/hocketd                      the coordinator
#   lib/libhocket.so                 for _native and for C++ programs
#   lib/emulator/                    the emulated GPU
#   include/, lib/cmake/Hocket/      for find_package(Hocket)
#
# The target hocket_package builds all of it, and nothing else.
include(CMakePackageConfigHelpers)
add_custom_target(hocket_package)

# hocket_package_target(TARGET FOLDER): builds and installs TARGET; a room that is not there is left out.
function(hocket_package_target target folder)
  if(NOT TARGET ${target})
    return()
  endif()
  add_dependencies(hocket_package ${target})
  install(TARGETS ${target} COMPONENT package
    RUNTIME DESTINATION ${folder}
    LIBRARY DESTINATION ${folder} NAMELINK_SKIP)
endfunction()

hocket_package_target(hocket_native .)
hocket_package_target(hocket_control .)
hocket_package_target(hocketd bin)
hocket_package_target(hocket lib)
hocket_package_target(hocket_emulator_driver lib/emulator)
hocket_package_target(hocket_emulator_runtime lib/emulator)
hocket_package_target(hocket_emulator_operators lib/emulator)

install(FILES csrc/torch/hocket.h coordinator/own/hocket_policy.h DESTINATION include COMPONENT package)
install(FILES csrc/client/job.h csrc/client/job_options.h DESTINATION include/csrc/client COMPONENT package)

configure_package_config_file(cmake/HocketConfig.cmake.in ${CMAKE_CURRENT_BINARY_DIR}/HocketConfig.cmake
  INSTALL_DESTINATION lib/cmake/Hocket NO_SET_AND_CHECK_MACRO NO_CHECK_REQUIRED_COMPONENTS_MACRO)
write_basic_package_version_file(${CMAKE_CURRENT_BINARY_DIR}/HocketConfigVersion.cmake
  COMPATIBILITY SameMajorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/HocketConfig.cmake ${CMAKE_CURRENT_BINARY_DIR}/HocketConfigVersion.cmake
  cmake/HocketCudaHeaders.cmake DESTINATION lib/cmake/Hocket COMPONENT package)
