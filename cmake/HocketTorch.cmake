# PyTorch as HOCKET_PYTHON has it installed: its headers and libraries, and the CUDA headers that come with
# its own wheels (no toolkit, no driver and no GPU are needed). Included by every room that needs torch.
#
#   hocket::torch_headers   torch's headers and the ABI its libraries were compiled with
#   hocket::torch           torch_headers + libc10, libtorch_cpu
#   hocket::torch_cuda      torch + libc10_cuda, libtorch_cuda and the CUDA headers
#   hocket::torch_python    torch + libtorch_python
#   hocket::cuda_headers    cuda.h, cuda_runtime_api.h, cublas_v2.h, ...
#   hocket::python          Python's headers and pybind11's, for extension modules
#
# HOCKET_TORCH_VERSION, HOCKET_TORCH_LIB (its folder of libraries) and HOCKET_EXTENSION_SUFFIX are set too.
include_guard(GLOBAL)

function(_hocket_ask variable question advice)
  execute_process(COMMAND ${HOCKET_PYTHON} -c "${question}" OUTPUT_VARIABLE answer ERROR_VARIABLE complaint
    RESULT_VARIABLE failed OUTPUT_STRIP_TRAILING_WHITESPACE)
  if(failed)
    message(FATAL_ERROR "${HOCKET_PYTHON} cannot answer what the build asks.\n${complaint}\n${advice}")
  endif()
  set(${variable} "${answer}" CACHE INTERNAL "asked of HOCKET_PYTHON" FORCE)
endfunction()

# torch is not imported for its folder: on a busy machine that takes seconds, and finding it needs none of it.
set(_torch_advice "Install PyTorch (2.11 or newer, the CUDA build) into the environment of HOCKET_PYTHON.")
_hocket_ask(HOCKET_TORCH_DIR
  "import importlib.util as u, os, sys; s = u.find_spec('torch'); sys.exit('torch is not installed') if s is None else print(os.path.dirname(s.origin))"
  "${_torch_advice}")
_hocket_ask(HOCKET_TORCH_VERSION
  "import runpy; print(runpy.run_path(r'${HOCKET_TORCH_DIR}/version.py')['__version__'])" "${_torch_advice}")
if(HOCKET_TORCH_VERSION VERSION_LESS 2.11)
  message(FATAL_ERROR "torch ${HOCKET_TORCH_VERSION} is too old for Hocket. ${_torch_advice}")
endif()
include(${CMAKE_CURRENT_LIST_DIR}/HocketCudaHeaders.cmake)
get_filename_component(_hocket_site "${HOCKET_TORCH_DIR}" DIRECTORY)
hocket_find_cuda_headers(HOCKET_CUDA_HEADERS _hocket_complaint "${_hocket_site}")
if(_hocket_complaint)
  message(FATAL_ERROR "Hocket cannot be compiled: ${_hocket_complaint}")
endif()
_hocket_ask(HOCKET_PYTHON_HEADERS
  "import os, sys, sysconfig; d = sysconfig.get_paths()['include']; print(d) if os.path.exists(d + '/Python.h') else sys.exit('there is no ' + d + '/Python.h')"
  "Install Python's headers (Debian: apt install python3-dev).")
_hocket_ask(HOCKET_EXTENSION_SUFFIX "import sysconfig; print(sysconfig.get_config_var('EXT_SUFFIX'))" "")
_hocket_ask(HOCKET_PYBIND11_HEADERS "import pybind11; print(pybind11.get_include())"
  "Install pybind11 into the environment of HOCKET_PYTHON: pip install pybind11.")
set(HOCKET_TORCH_LIB "${HOCKET_TORCH_DIR}/lib" CACHE INTERNAL "" FORCE)
message(STATUS "Hocket: torch ${HOCKET_TORCH_VERSION}, CUDA headers ${HOCKET_CUDA_HEADERS}")

function(_hocket_interface name)
  add_library(hocket_${name} INTERFACE)
  add_library(hocket::${name} ALIAS hocket_${name})
endfunction()

_hocket_interface(cuda_headers)
target_include_directories(hocket_cuda_headers SYSTEM INTERFACE ${HOCKET_CUDA_HEADERS})

_hocket_interface(torch_headers)
target_include_directories(hocket_torch_headers SYSTEM INTERFACE
  ${HOCKET_TORCH_DIR}/include ${HOCKET_TORCH_DIR}/include/torch/csrc/api/include)
# Wheels of torch 2.7 and newer all use the C++11 string ABI.
target_compile_definitions(hocket_torch_headers INTERFACE _GLIBCXX_USE_CXX11_ABI=1)

_hocket_interface(torch)
target_link_libraries(hocket_torch INTERFACE hocket_torch_headers
  ${HOCKET_TORCH_LIB}/libc10.so ${HOCKET_TORCH_LIB}/libtorch_cpu.so)

_hocket_interface(torch_cuda)
target_link_libraries(hocket_torch_cuda INTERFACE hocket_torch hocket_cuda_headers
  ${HOCKET_TORCH_LIB}/libc10_cuda.so ${HOCKET_TORCH_LIB}/libtorch_cuda.so)
# The vendor's libraries behind libtorch_cuda lie in other wheels and are loaded by torch itself.
target_link_options(hocket_torch_cuda INTERFACE -Wl,--allow-shlib-undefined)

_hocket_interface(torch_python)
target_link_libraries(hocket_torch_python INTERFACE hocket_torch ${HOCKET_TORCH_LIB}/libtorch_python.so)

_hocket_interface(python)
target_include_directories(hocket_python SYSTEM INTERFACE ${HOCKET_PYTHON_HEADERS} ${HOCKET_PYBIND11_HEADERS})
