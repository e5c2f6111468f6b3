// What settings of PyTorch's allocator mean under Hocket's: PYTORCH_ALLOC_CONF, and what a program sets while
// it runs. Pure.
#ifndef HOCKET_CSRC_TORCH_ALLOC_CONF_H_
#define HOCKET_CSRC_TORCH_ALLOC_CONF_H_

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hocket {

struct AllocConf {
  std::optional<double> memory_fraction;    // per_process_memory_fraction: of the device, 0 to 1
  std::optional<bool> rejects_early;        // throw_on_cudamalloc_oom
  bool expandable_segments = false;         // they are asked for
  std::vector<std::string> without_effect;  // names of options, in the order given
};

// `text`: "name:value,name:[value,value],..." (PyTorch itself checks it; what cannot be read here is passed
// over). Options of pinned host memory are PyTorch's own and work as ever; they are in
// neither field.
AllocConf ParseAllocConf(std::string_view text);

// `text` without the choice of a backend: once PyTorch has chosen one, it takes another one's name for a bug.
std::string WithoutBackend(std::string_view text);

// The variable that PyTorch heeds, of PYTORCH_ALLOC_CONF and PYTORCH_CUDA_ALLOC_CONF, and its value; both are
// empty where neither is set.
struct AllocConfVariable {
  std::string name;
  std::string value;
};
AllocConfVariable FindAllocConf();

}  // namespace hocket

#endif  // HOCKET_CSRC_TORCH_ALLOC_CONF_H_
