// record_frames FOLDER: plays the scripts of this release and writes what was said into FOLDER.
#include <cstdio>
#include <exception>
#include <string>

#include "tests/recorded/stages.h"

int main(int argc, char** argv) {
  using namespace hocket::recorded;
  if (argc != 2) return std::fprintf(stderr, "record_frames FOLDER\n"), 2;
  const std::string folder = argv[1];
  try {
    const Recording coordinator = Play(CoordinatorScript(), *CoordinatorStage());
    const Recording job = Play(JobScript(), *JobStage());  // which works in a folder of its own meanwhile
    Write(folder + "/coordinator.bin", coordinator);
    Write(folder + "/job.bin", job);
  } catch (const std::exception& trouble) {
    return std::fprintf(stderr, "record_frames: %s\n", trouble.what()), 1;
  }
  return 0;
}
