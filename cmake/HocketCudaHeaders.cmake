# Where CUDA's headers lie beside an installed torch. Included by the build, and by find_package(Hocket).
#
# torch's wheels bring cuda_runtime_api.h and its neighbours, but not the folder crt/ that these include: it is in the
# wheel nvidia-cuda-crt, in Triton's (on which torch's depends on Linux), and in a toolkit.

# hocket_find_cuda_headers(FOLDERS COMPLAINT SITE): sets FOLDERS to the folders to include, in this order, of the
# packages in SITE and of the toolkit in CUDA_HOME; or COMPLAINT to what is missing and what to do.
function(hocket_find_cuda_headers folders complaint site)
  set(toolkit "$ENV{CUDA_HOME}")
  if(NOT toolkit)
    set(toolkit /usr/local/cuda)
  endif()
  file(GLOB wheels "${site}/nvidia/cu*/include")
  set(${folders} "" PARENT_SCOPE)
  set(${complaint} "" PARENT_SCOPE)
  set(found "")
  foreach(header cuda_runtime_api.h crt/host_defines.h)
    set(folder "")
    set(triton "")
    if(found)
      set(triton "${site}/triton/backends/nvidia/include")
    endif()
    foreach(candidate ${found} ${wheels} "${site}/nvidia/cuda_runtime/include" ${triton} "${toolkit}/include")
      if(EXISTS "${candidate}/${header}")
        set(folder "${candidate}")
        break()
      endif()
    endforeach()
    if(NOT folder AND NOT found)
      set(${complaint} "there are no CUDA headers beside torch in ${site}. Install the CUDA build of PyTorch; its \
wheels bring nvidia/cu13/include. CUDA_HOME names a toolkit's folder instead." PARENT_SCOPE)
      return()
    elseif(NOT folder)
      set(${complaint} "the CUDA headers in ${found} include crt/host_defines.h, which is not there. Install it: pip \
install nvidia-cuda-crt. CUDA_HOME names a toolkit's folder instead." PARENT_SCOPE)
      return()
    endif()
    list(APPEND found "${folder}")
  endforeach()
  list(REMOVE_DUPLICATES found)
  set(${folders} "${found}" PARENT_SCOPE)
endfunction()
