// Jobs of one lane: the arena's chunks by descriptor, within a process and across two.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>

#include "tests/allocator/job.h"

extern char** environ;

namespace hocket {
namespace {

using testing::Announced;
using testing::EmulatedGpu;
using ::testing::HasSubstr;
using testing::Job;
using testing::kChunk;

class LaneTest : public ::testing::Test {
 protected:
  // A step whose transient memory peaks at `size`.
  void Step(Job& job, Bytes size) {
    job.allocator->BeginStep();
    const DevicePtr block = job.Malloc(size);
    std::memset(gpu.Host(block), 0x77, size);
    job.Free(block);
    job.allocator->EndStep();
  }

  EmulatedGpu& gpu = EmulatedGpu::Get();
};

TEST_F(LaneTest, TwoJobsNeedTheLargerPeakNotTheSum) {
  Job small, large;
  Announced from_large(large), from_small(small);
  const Bytes before = gpu.used();
  Step(large, 20_MiB);
  large.PassTurn();
  from_large.DeliverTo(small);
  Step(small, 12_MiB);
  small.PassTurn();
  EXPECT_TRUE(from_small.grew.empty());
  EXPECT_EQ(gpu.used(), before + 20_MiB);
}

// It would be made again in the next turn of the one who needs it.
TEST_F(LaneTest, WhatAFirstStepLeavesBehindTakesNoChunkThatOthersHaveMade) {
  Job other, late;
  Announced from_other(other), from_late(late);
  Step(other, 20_MiB);
  other.PassTurn();
  from_other.DeliverTo(late);
  const DevicePtr parameters = late.Malloc(8_MiB);
  late.allocator->BeginStep();
  late.Free(late.Malloc(20_MiB));
  const DevicePtr state = late.Malloc(8_MiB);
  late.allocator->EndStep();
  EXPECT_EQ(late.Held().arena, 20_MiB);
  EXPECT_TRUE(from_late.lost.empty());
  late.Free(state);
  late.Free(parameters);
}

TEST_F(LaneTest, AJobThatJoinsLateGetsTheWholeArena) {
  Job job, late;
  Step(job, 10_MiB);
  job.PassTurn();
  job.allocator->ExportArena({}, /*descriptors=*/true, [&](ArenaChunkId id, Bytes size, UniqueFd fd) {
    EXPECT_TRUE(late.allocator->AddArenaChunk(id, size, std::move(fd)).ok());
  });
  const Bytes before = gpu.used();
  Step(late, 10_MiB);
  EXPECT_EQ(gpu.used(), before);
  EXPECT_EQ(late.Held().arena, 10_MiB);
}

TEST_F(LaneTest, AnAdoptedChunkIsUnmappedByTheOthersAndStaysWithItsJob) {
  Job job, other;
  Announced from_job(job);
  job.allocator->BeginStep();
  const DevicePtr survivor = job.Malloc(kChunk);
  gpu.Fill(survivor, kChunk, 0x21);
  job.allocator->EndStep();
  from_job.DeliverTo(other);
  EXPECT_EQ(other.Held().arena, kChunk);
  job.PassTurn();
  from_job.DeliverTo(other);
  EXPECT_EQ(other.Held().arena, 0u);
  Step(other, kChunk);
  EXPECT_TRUE(gpu.Holds(survivor, kChunk, 0x21));
  job.Free(survivor);
}

TEST_F(LaneTest, AChunkMappedHereIsUnmappedWhenItIsDropped) {
  Job job, other;
  Announced from_job(job);
  Step(job, 4_MiB);
  job.PassTurn();
  from_job.DeliverTo(other);
  Step(other, 4_MiB);
  other.PassTurn();
  ArenaChunkId id = 0;
  job.allocator->ExportArena({}, /*descriptors=*/true,
                             [&](ArenaChunkId each, Bytes, UniqueFd) { id = each; });
  const Bytes before = gpu.used();
  other.allocator->DropArenaChunk(id);
  other.allocator->DropArenaChunk(id);
  other.allocator->CheckInvariants();
  EXPECT_EQ(other.Held().arena, kChunk);
  EXPECT_EQ(gpu.used(), before) << "the first job still holds it";
  job.allocator->DropArenaChunk(id);
  EXPECT_EQ(gpu.used(), before - kChunk);
}

// Two jobs that took one chunk for theirs would write over each other's tensors.
class AdoptedByAnotherTest : public LaneTest {
 protected:
  // Has one of the two chunks that are mapped in both jobs for its own, with a survivor of 0x21 in it.
  AdoptedByAnotherTest() {
    Step(adopts, 2 * kChunk);
    adopts.PassTurn();
    from_adopts.DeliverTo(other);
    Step(other, 2 * kChunk);
    other.PassTurn();
    adopts.TakeTurn();
    adopts.allocator->BeginStep();
    survivor = adopts.Malloc(kChunk);
    gpu.Fill(survivor, kChunk, 0x21);
    adopts.allocator->EndStep();
    adopts.PassTurn();
  }
  ~AdoptedByAnotherTest() override { gpu.FailNoCall(); }

  // In a turn of the other's, with whatever that takes for its own.
  void ExpectTheSurvivorStaysWhatItIs() {
    EXPECT_EQ(other.Held().arena, kChunk);
    EXPECT_EQ(other.Held().persistent, 0u) << "it is not the other's";
    Step(other, 3 * kChunk);
    EXPECT_TRUE(gpu.Holds(survivor, kChunk, 0x21));
  }
  void ExpectTheOtherLetsGoOfIt() {
    other.PassTurn();
    const Bytes before = gpu.used();
    adopts.Free(survivor);
    adopts.allocator->EmptyCache();
    EXPECT_EQ(gpu.used(), before - kChunk);
  }

  Job adopts, other;
  Announced from_adopts{adopts};
  DevicePtr survivor = 0;
};

TEST_F(AdoptedByAnotherTest, AChunkThatCannotBeUnmappedIsNotUsedAgain) {
  gpu.FailEvery("MemUnmap", 999);
  from_adopts.DeliverTo(other);
  gpu.FailNoCall();
  other.TakeTurn();
  ExpectTheSurvivorStaysWhatItIs();
  ExpectTheOtherLetsGoOfIt();
}

TEST_F(AdoptedByAnotherTest, NorIsOneThatWorkOnTheDeviceMayStillReach) {
  other.TakeTurn();
  gpu.FailEvery("EventSynchronize", 999);
  gpu.FailNext("EventQuery", 999);
  from_adopts.DeliverTo(other);
  gpu.FailNoCall();
  ExpectTheSurvivorStaysWhatItIs();
  ExpectTheOtherLetsGoOfIt();
}

TEST_F(AdoptedByAnotherTest, NorIsOneThatIsDroppedWhileAGraphIsCaptured) {
  other.TakeTurn();
  other.allocator->BeginAllocateToPool(
      {0, 1}, [](Stream) { return false; }, /*captures=*/true);
  from_adopts.DeliverTo(other);
  ExpectTheSurvivorStaysWhatItIs();
  other.allocator->EndAllocateToPool({0, 1});
  other.allocator->ReleasePool({0, 1});
  ExpectTheOtherLetsGoOfIt();
}

// A message on its way meets a job that has just left: it would use the chunk without turns.
TEST_F(LaneTest, WhoHasLeftTheArenaTakesNoChunkAnyMore) {
  Job job, leaves;
  Announced from_job(job);
  Step(job, 4_MiB);
  job.PassTurn();
  leaves.allocator->LeaveArena();
  ASSERT_FALSE(from_job.grew.empty());
  for (auto& [id, size, fd] : from_job.grew) {
    EXPECT_TRUE(absl::IsFailedPrecondition(leaves.allocator->AddArenaChunk(id, size, std::move(fd))));
  }
  EXPECT_EQ(leaves.Held().arena, 0u);
}

// Check mode would end the process if a chunk were unmapped under the kernel.
TEST_F(LaneTest, InATurnAChunkIsDroppedWhenTheDeviceIsDone) {
  Job job;
  job.allocator->BeginStep();
  const Stream stream = gpu.driver().CreateStream().value();
  const DevicePtr block = job.Malloc(kChunk);
  gpu.ReadInKernel("reader", stream, block, kChunk);
  job.allocator->RecordStream(block, stream);
  job.Free(block);
  const DevicePtr other = job.Malloc(kChunk);
  gpu.ReadInKernel("reader", nullptr, other, kChunk);
  job.Free(other);
  job.allocator->DropWholeArena();
  job.allocator->CheckInvariants();
  EXPECT_EQ(job.Held().arena, 0u);
  job.allocator->EndStep();
  ASSERT_TRUE(gpu.driver().DestroyStream(stream).ok());
}

TEST_F(LaneTest, AfterAHoldersDeathNoChunkOfTheArenaIsUsedAgain) {
  Job job;
  const Bytes before = gpu.used();
  const DevicePtr persistent = job.Malloc(kChunk);
  gpu.Fill(persistent, kChunk, 0x31);
  Step(job, 8_MiB);
  job.PassTurn();
  job.allocator->DropWholeArena();
  job.allocator->CheckInvariants();
  EXPECT_EQ(job.Held().arena, 0u);
  EXPECT_EQ(gpu.used(), before + kChunk);
  EXPECT_TRUE(gpu.Holds(persistent, kChunk, 0x31));
  job.TakeTurn();
  Step(job, 8_MiB);
  EXPECT_EQ(job.Held().arena, 8_MiB);
  job.Free(persistent);
}

TEST_F(LaneTest, AChunkOfAnotherSizeIsRefusedWithBothSizes) {
  Job job;
  const absl::Status status = job.allocator->AddArenaChunk(7, 4_MiB, UniqueFd(dup(2)));
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("an arena chunk of 4.0 MiB was offered; this job's are 2.0 MiB"));
}

TEST_F(LaneTest, ADescriptorThatIsNoDeviceMemoryIsRefused) {
  Job job;
  EXPECT_FALSE(job.allocator->AddArenaChunk(7, kChunk, UniqueFd(dup(2))).ok());
  EXPECT_FALSE(job.allocator->AddArenaChunk(7, kChunk, UniqueFd()).ok());
  job.allocator->CheckInvariants();
}

TEST_F(LaneTest, AnArenaThatShrinksIsGivenBackByTheJobThatGrewIt) {
  Job job;
  Announced from_job(job);
  Step(job, 20_MiB);
  for (int turn = 0; turn < 40; ++turn) {
    job.PassTurn();
    job.TakeTurn();
    Step(job, 4_MiB);
  }
  EXPECT_EQ(job.Held().arena, 4_MiB);
  EXPECT_EQ(from_job.lost.size(), 8u);
}

TEST_F(LaneTest, ARestoreTakesFromTheArenaWhatTheDeviceDoesNotHave) {
  Job job, other;
  Announced from_job(job), from_other(other);
  const DevicePtr block = job.Malloc(100_MiB);
  gpu.Fill(block, 100_MiB, 0x41);
  job.PassTurn();
  ASSERT_TRUE(job.Spill(testing::kEverything).ok());
  Step(other, 200_MiB);
  other.PassTurn();
  from_other.DeliverTo(job);
  job.TakeTurn();
  EXPECT_TRUE(gpu.Holds(block, 100_MiB, 0x41));
  EXPECT_GE(from_job.lost.size(), 44_MiB / kChunk);
  from_job.DeliverTo(other);
  job.Free(block);
}

// --- two processes ---

// The other process: gets the arena's descriptors on descriptor 3 and runs a step in it.
void SendDescriptor(int socket, ArenaChunkId id, int descriptor) {
  iovec data{&id, sizeof id};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(int));
  std::memcpy(CMSG_DATA(header), &descriptor, sizeof descriptor);
  ASSERT_EQ(sendmsg(socket, &message, 0), static_cast<ssize_t>(sizeof id));
}

// id 0: nothing more comes.
std::pair<ArenaChunkId, UniqueFd> ReceiveDescriptor(int socket) {
  ArenaChunkId id = 0;
  iovec data{&id, sizeof id};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  if (recvmsg(socket, &message, MSG_CMSG_CLOEXEC) <= 0) return {0, UniqueFd()};
  int descriptor = -1;
  std::memcpy(&descriptor, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof descriptor);
  return {id, UniqueFd(descriptor)};
}

// Not a test of its own: TwoProcessesUseTheSameMemory runs it in another process.
TEST_F(LaneTest, DISABLED_TheOtherProcess) {
  Job job;
  for (auto [id, fd] = ReceiveDescriptor(3); id != 0; std::tie(id, fd) = ReceiveDescriptor(3)) {
    ASSERT_TRUE(job.allocator->AddArenaChunk(id, kChunk, std::move(fd)).ok());
  }
  const Bytes before = gpu.used();
  job.allocator->BeginStep();
  const DevicePtr block = job.Malloc(8_MiB);
  EXPECT_EQ(gpu.used(), before) << "the lane's chunks suffice";
  EXPECT_TRUE(gpu.Holds(block, 8_MiB, 0x77)) << "the bytes that the last holder left";
  job.Free(block);
  job.allocator->EndStep();
}

TEST_F(LaneTest, TwoProcessesUseTheSameMemory) {
  Job job;
  Step(job, 8_MiB);
  job.PassTurn();
  int sockets[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets), 0);

  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, sockets[1], 3);
  const char* argv[] = {"lane_test", "--gtest_also_run_disabled_tests",
                        "--gtest_filter=LaneTest.DISABLED_TheOtherProcess", nullptr};
  pid_t child = 0;
  ASSERT_EQ(posix_spawn(&child, "/proc/self/exe", &actions, nullptr, const_cast<char**>(argv), environ), 0);
  posix_spawn_file_actions_destroy(&actions);
  close(sockets[1]);
  job.allocator->ExportArena({}, /*descriptors=*/true, [&](ArenaChunkId id, Bytes, UniqueFd fd) {
    SendDescriptor(sockets[0], id, fd.get());
  });
  close(sockets[0]);

  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "the other process's own expectations, above";
}

}  // namespace
}  // namespace hocket
