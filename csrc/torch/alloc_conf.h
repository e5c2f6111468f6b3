// What a user's PYTORCH_ALLOC_CONF means under Hocket's allocator. Pure.
#ifndef HOCKET_CSRC_TORCH_ALLOC_CONF_H_
#define HOCKET_CSRC_TORCH_ALLOC_CONF_H_

#include <string>
#include <string_view>
#include <vector>

namespace hocket {

struct AllocConf {
  double memory_fraction = 1;               // per_process_memory_fraction: of the device, > 0 and <= 1
  std::vector<std::string> without_effect;  // names of options, in the order given
};

// `text`: "name:value,name:[value,value],..." (PyTorch itself has checked it when CUDA started; what cannot
// be read here is passed over). Options of pinned host memory are PyTorch's own and work as ever; they are in
// neither field.
AllocConf ParseAllocConf(std::string_view text);

// The variable that PyTorch heeds, of PYTORCH_ALLOC_CONF and PYTORCH_CUDA_ALLOC_CONF, and its value; both are
// empty where neither is set.
struct AllocConfVariable {
  std::string name;
  std::string value;
};
AllocConfVariable FindAllocConf();

}  // namespace hocket

#endif  // HOCKET_CSRC_TORCH_ALLOC_CONF_H_
