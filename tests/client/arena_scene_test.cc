// How a job keeps up with the chunks of its lane's arena, and tells of its own.
#include <sys/eventfd.h>

#include <thread>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/scene.h"

namespace hocket {
namespace {

using ::testing::ElementsAre;

TEST(ArenaSceneTest, ArenaChunksAreKeptUpWithInOrder) {
  Scene scene;
  const UniqueFd any(eventfd(0, EFD_CLOEXEC));
  scene.allocator().TakeLog();
  scene.Says(wire::ArenaAdd{.chunk = 3, .size = 64}, any.get());
  scene.Says(wire::ArenaDrop{.chunk = 3});
  scene.Says(wire::ArenaAdd{.chunk = 4, .size = 64}, any.get());
  scene.Says(wire::ArenaDrop{.chunk = 0});
  scene.AgentHasObeyed();
  EXPECT_THAT(scene.allocator().TakeLog(), ElementsAre("add 3", "drop 3", "add 4", "drop all", "spill"));
}

TEST(ArenaSceneTest, ChunksToldBeforeTheAllocatorIsThereWaitForIt) {
  Scene::Options without;
  without.with_allocator = false;
  Scene scene(without);
  const UniqueFd any(eventfd(0, EFD_CLOEXEC));
  scene.Says(wire::ArenaAdd{.chunk = 3, .size = 64}, any.get());
  scene.AgentHasObeyed();
  scene.job().SetAllocator(&scene.allocator());
  scene.AgentHasObeyed();
  EXPECT_EQ(scene.allocator().TakeLog().front(), "add 3");
}

// Another job may have adopted what is still to be dropped.
TEST(ArenaSceneTest, AGrantDoesNotOvertakeWhatWasToldOfTheArenaBeforeTheAllocatorWasThere) {
  Scene::Options without;
  without.with_allocator = false;
  Happening adding, taken;
  Scene scene(without);
  const UniqueFd any(eventfd(0, EFD_CLOEXEC));
  std::thread thread([&] { scene.Step(); });
  scene.Expects<wire::Wait>();
  scene.Says(wire::ArenaAdd{.chunk = 3, .size = 64}, any.get());
  scene.Says(wire::ArenaAdd{.chunk = 4, .size = 64}, any.get());
  scene.Says(wire::ArenaDrop{.chunk = 3});  // nothing of it is kept until there is an allocator
  EXPECT_EQ(scene.Expects<wire::ArenaHeard>().count, 1u);
  scene.allocator().SetHook([&](const std::string& call) {
    if (call == "take turn") taken.Happens();
    if (call != "add") return;
    adding.Happens();
    taken.AwaitInVain();
  });
  std::thread sets([&] { scene.job().SetAllocator(&scene.allocator()); });
  adding.Await();
  scene.Grants(1);
  thread.join();
  sets.join();
  EXPECT_THAT(scene.allocator().TakeLog(), ElementsAre("add 4", "take turn", "begin step", "end step"));
}

TEST(ArenaSceneTest, ANewChunkIsToldWithItsDescriptorAndALostOneToo) {
  Scene scene;
  scene.job().ArenaGrew(9, 64, UniqueFd(eventfd(0, EFD_CLOEXEC)));
  const wire::ArenaGrew grew = scene.Expects<wire::ArenaGrew>();
  EXPECT_EQ(grew.chunk, 9u);
  EXPECT_FALSE(grew.bare);
  EXPECT_TRUE(scene.TakeDescriptor());
  scene.job().ArenaGrew(10, 64, UniqueFd());
  EXPECT_TRUE(scene.Expects<wire::ArenaGrew>().bare);
  scene.job().ArenaLost(9);
  EXPECT_EQ(scene.Expects<wire::ArenaLost>().chunk, 9u);
}

TEST(ArenaSceneTest, AnExportSendsEveryChunkToTheJobThatAsks) {
  Scene scene;
  scene.Says(wire::ArenaExport{.to_job = 12});
  for (std::uint64_t chunk : {7, 8}) {
    const wire::ArenaGrew grew = scene.Expects<wire::ArenaGrew>();
    EXPECT_EQ(grew.chunk, chunk);
    EXPECT_EQ(grew.to_job, 12u);
  }
}

}  // namespace
}  // namespace hocket
