// A file system of this process's own with one file, whose closing nobody ever answers: who closes it waits
// until the file system is gone.
#ifndef HOCKET_TESTS_WIRE_SLOW_FILES_H_
#define HOCKET_TESTS_WIRE_SLOW_FILES_H_

#include <fcntl.h>
#include <linux/fuse.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>

#include "csrc/base/unique_fd.h"

namespace hocket::wire {

class SlowFiles {
 public:
  SlowFiles() {
    char name[] = "/tmp/hocket-slow-XXXXXX";
    folder_ = mkdtemp(name);
    device_ = UniqueFd(open("/dev/fuse", O_RDWR | O_CLOEXEC));
    const std::string options =
        "fd=" + std::to_string(device_.get()) + ",rootmode=40000,user_id=0,group_id=0";
    mounted_ =
        device_ && mount("hocket-slow", folder_.c_str(), "fuse", MS_NOSUID | MS_NODEV, options.c_str()) == 0;
    if (mounted_) server_ = std::thread([this] { Serve(); });
  }
  // Whoever waits for it goes on.
  ~SlowFiles() {
    if (mounted_) umount2(folder_.c_str(), MNT_FORCE | MNT_DETACH);
    const std::uint64_t one = 1;
    (void)!write(stop_.get(), &one, sizeof(one));
    if (server_.joinable()) server_.join();
    device_.Reset();
    rmdir(folder_.c_str());
  }
  bool mounted() const { return mounted_; }
  UniqueFd Open() const { return UniqueFd(open((folder_ + "/file").c_str(), O_RDONLY | O_CLOEXEC)); }

 private:
  static constexpr std::uint64_t kFile = 2;

  static fuse_attr Attributes(std::uint64_t node) {
    fuse_attr attributes{};
    attributes.ino = node;
    attributes.mode = node == kFile ? S_IFREG | 0600 : S_IFDIR | 0700;
    attributes.nlink = 1;
    return attributes;
  }
  template <typename Body>
  void Answer(std::uint64_t request, const Body& body) {
    char reply[sizeof(fuse_out_header) + sizeof(Body)];
    const fuse_out_header header{.len = sizeof(reply), .error = 0, .unique = request};
    std::memcpy(reply, &header, sizeof(header));
    std::memcpy(reply + sizeof(header), &body, sizeof(body));
    (void)!write(device_.get(), reply, sizeof(reply));
  }
  void Refuse(std::uint64_t request) {
    const fuse_out_header header{.len = sizeof(header), .error = -ENOSYS, .unique = request};
    (void)!write(device_.get(), &header, sizeof(header));
  }
  void Serve() {
    alignas(fuse_in_header) char buffer[256 * 1024];
    for (;;) {
      pollfd ready[] = {{device_.get(), POLLIN, 0}, {stop_.get(), POLLIN, 0}};
      if (poll(ready, 2, -1) < 0 && errno != EINTR) return;
      if (ready[1].revents != 0) return;
      if (read(device_.get(), buffer, sizeof(buffer)) < static_cast<ssize_t>(sizeof(fuse_in_header)))
        continue;
      const auto& asked = *reinterpret_cast<const fuse_in_header*>(buffer);
      if (asked.opcode == FUSE_INIT) {
        fuse_init_out init{};
        init.major = FUSE_KERNEL_VERSION;
        init.minor = 31;
        init.max_write = 4096;
        Answer(asked.unique, init);
      } else if (asked.opcode == FUSE_LOOKUP) {
        fuse_entry_out entry{};
        entry.nodeid = kFile;
        entry.attr = Attributes(kFile);
        Answer(asked.unique, entry);
      } else if (asked.opcode == FUSE_GETATTR) {
        fuse_attr_out attributes{};
        attributes.attr = Attributes(asked.nodeid);
        Answer(asked.unique, attributes);
      } else if (asked.opcode == FUSE_OPEN) {
        Answer(asked.unique, fuse_open_out{});
      } else if (asked.opcode != FUSE_FLUSH && asked.opcode != FUSE_FORGET) {
        Refuse(asked.unique);
      }
    }
  }

  std::string folder_;
  UniqueFd device_;
  UniqueFd stop_{eventfd(0, EFD_CLOEXEC)};
  bool mounted_ = false;
  std::thread server_;
};

}  // namespace hocket::wire

#endif  // HOCKET_TESTS_WIRE_SLOW_FILES_H_
