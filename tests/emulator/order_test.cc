// Check mode: seeded mistakes are found, and programs that wait where they must are left alone.
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/emulator/world.h"

namespace hocket {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// A process in check mode with two streams, an event, pinned memory h and device memory x.
class Checked {
 public:
  Checked() : puppet_(world_.Start()) {
    for (const char* line :
         {"stream one nonblocking", "stream two nonblocking", "event e -", "pinned h 64", "alloc x 64",
          "reserve r 2048", "create c 2048", "map r 0 2048 c", "access r 0 2048"}) {
      EXPECT_EQ(puppet_.Ask(line), "ok") << line;
    }
  }
  Checked& Does(const std::string& line) {
    EXPECT_EQ(puppet_.Ask(line), "ok") << line << "\n" << Errors();
    return *this;
  }
  // The line ends the process; what it said.
  std::string FailsAt(const std::string& line) {
    EXPECT_EQ(puppet_.Ask(line), "") << line << " was let pass";
    return Errors();
  }

 private:
  std::string Errors() {
    if (!reaped_) puppet_.Finish();
    reaped_ = true;
    return puppet_.Errors();
  }

  World world_;
  Puppet puppet_;
  bool reaped_ = false;
};

TEST(OrderTest, AMissingWaitBetweenStreamsIsFound) {
  Checked c;
  c.Does("kernel produce one write x 0 64");
  EXPECT_THAT(c.FailsAt("kernel consume two read x 32 1"),
              AllOf(HasSubstr("uses without order"), HasSubstr("\"consume\""), HasSubstr("\"produce\""),
                    HasSubstr("wrote before")));
}

TEST(OrderTest, AnEventOrdersTwoStreams) {
  Checked c;
  c.Does("kernel produce one write x 0 64")
      .Does("record e one")
      .Does("wait two e")
      .Does("kernel consume two read x 0 64");
}

TEST(OrderTest, AnEventOrdersOnlyWhatWasQueuedBeforeIt) {
  Checked c;
  c.Does("record e one").Does("kernel produce one write x 0 64").Does("wait two e");
  EXPECT_THAT(c.FailsAt("kernel consume two read x 0 64"), HasSubstr("uses without order"));
}

TEST(OrderTest, AnEarlyWaitOrdersNothing) {
  Checked c;
  c.Does("wait two e").Does("kernel produce one write x 0 64").Does("record e one");
  EXPECT_THAT(c.FailsAt("kernel consume two read x 0 64"), HasSubstr("uses without order"));
}

TEST(OrderTest, AStreamsOwnWorkIsOrdered) {
  Checked c;
  c.Does("kernel a one write x 0 64").Does("kernel b one read x 0 64").Does("fill x 0 64 1 one");
}

TEST(OrderTest, TwoReadersNeedNoOrder) {
  Checked c;
  c.Does("kernel a one read x 0 64").Does("kernel b two read x 0 64");
}

TEST(OrderTest, OverwritingWhatAnotherStreamStillReadsIsFound) {
  Checked c;
  c.Does("kernel a one read x 0 64");
  EXPECT_THAT(c.FailsAt("kernel b two write x 63 1"), HasSubstr("\"a\" on stream"));
}

TEST(OrderTest, DisjointRangesNeedNoOrder) {
  Checked c;
  c.Does("kernel a one write x 0 32").Does("kernel b two write x 32 32");
}

TEST(OrderTest, TheHostsWaitOrdersEverythingBeforeIt) {
  Checked c;
  c.Does("kernel a one write x 0 64").Does("sync one").Does("kernel b two write x 0 64");
  c.Does("sync-all").Does("kernel c one write x 0 64");
}

TEST(OrderTest, AQueryThatSaysDoneIsAWait) {
  Checked c;
  c.Does("kernel a one write x 0 64")
      .Does("record e one")
      .Does("query-event e")
      .Does("kernel b two write x 0 64");
}

// A block freed while another stream still uses it, and handed out again: record_stream forgotten.
TEST(OrderTest, ABlockReusedWhileASideStreamStillUsesItIsFound) {
  Checked c;
  c.Does("kernel fill one write x 0 64").Does("record e one").Does("wait two e");
  c.Does("kernel side two read x 0 64");
  EXPECT_THAT(c.FailsAt("kernel reuse one write x 0 64"),
              AllOf(HasSubstr("\"side\""), HasSubstr("read before")));
}

TEST(OrderTest, AnEarlyUnmapIsFound) {
  Checked c;
  c.Does("kernel a one write r 0 64");
  EXPECT_THAT(c.FailsAt("unmap r 0 2048"),
              AllOf(HasSubstr("\"unmap\" on the host"), HasSubstr("\"a\" on stream")));
}

TEST(OrderTest, AnUnmapAfterADrainIsFine) {
  Checked c;
  c.Does("kernel a one write r 0 64").Does("record-all e").Does("sync-event e").Does("unmap r 0 2048");
  c.Does("map r 0 2048 c").Does("access r 0 2048").Does("kernel b two write r 0 64");
}

TEST(OrderTest, AnEarlyUnmapUnderAQueuedCopyIsFound) {
  Checked c;
  c.Does("to-device r 0 h 64 one");
  EXPECT_THAT(c.FailsAt("unmap r 0 2048"), HasSubstr("\"memory copy to the device\""));
}

TEST(OrderTest, PinnedMemoryFreedUnderAQueuedCopyIsFound) {
  Checked c;
  c.Does("to-host x 0 h 64 one");
  EXPECT_THAT(c.FailsAt("free-pinned h"), HasSubstr("\"free of pinned memory\""));
}

TEST(OrderTest, PinnedMemoryReadByACopyWhileAnotherWritesItIsFound) {
  Checked c;
  c.Does("to-host x 0 h 32 one");
  EXPECT_THAT(c.FailsAt("to-device x 32 h 32 two"), HasSubstr("\"memory copy to the host\""));
}

TEST(OrderTest, TheDefaultStreamIsOrderedWithBlockingStreams) {
  Checked c;
  c.Does("stream b blocking").Does("kernel a b write x 0 64").Does("kernel c default write x 0 64");
  c.Does("kernel d b write x 0 64");
  EXPECT_THAT(c.FailsAt("kernel f one write x 0 64"), HasSubstr("\"d\""));
}

TEST(OrderTest, TheDefaultStreamIsOrderedAfterADestroyedBlockingStream) {
  Checked c;
  c.Does("stream b blocking").Does("kernel a b write x 0 64").Does("destroy b");
  c.Does("stream d blocking").Does("destroy d");  // forgets what is over
  c.Does("kernel c default write x 0 64");
}

TEST(OrderTest, AWaitForTheDeviceCoversDestroyedStreams) {
  Checked c;
  c.Does("stream b nonblocking").Does("kernel a b write r 0 64").Does("destroy b");
  c.Does("stream d nonblocking").Does("destroy d").Does("sync-all").Does("unmap r 0 2048");
}

TEST(OrderTest, FreeingWaitsForTheDeviceAsOnAGpu) {
  Checked c;
  c.Does("kernel a one write x 0 64").Does("free x").Does("alloc y 64").Does("kernel b two write y 0 64");
}

// --- memory that two processes see ---

class CheckedPair : public testing::Test {
 protected:
  CheckedPair() : a_(world_.Start()), b_(world_.Start()) {
    Does(a_, "create c 2048");
    const std::string exported = a_.Ask("export c");
    Does(b_, "import c " + std::to_string(a_.pid()) + " " + exported.substr(3));
    for (Puppet* p : {&a_, &b_}) {
      for (const char* line :
           {"reserve r 2048", "map r 0 2048 c", "access r 0 2048", "stream s nonblocking"}) {
        Does(*p, line);
      }
    }
  }
  static void Does(Puppet& puppet, const std::string& line) { EXPECT_EQ(puppet.Ask(line), "ok") << line; }

  World world_;
  Puppet a_, b_;
};

TEST_F(CheckedPair, AHandOverWithoutADrainIsFound) {
  Does(a_, "kernel last s write r 0 64");
  EXPECT_EQ(b_.Ask("kernel first s write r 0 64"), "");
  b_.Finish();
  EXPECT_THAT(b_.Errors(), AllOf(HasSubstr("\"first\""), HasSubstr("process " + std::to_string(a_.pid()))));
}

TEST_F(CheckedPair, AHandOverAfterADrainIsFine) {
  for (int turn = 0; turn < 3; ++turn) {
    Does(a_, "kernel last s write r 0 64");
    Does(a_, "sync-all");
    Does(b_, "kernel first s write r 0 64");
    Does(b_, "sync s");
  }
}

TEST_F(CheckedPair, WhatWasDrainedOnceStaysDrained) {
  Does(a_, "stream t nonblocking");
  Does(a_, "alloc x 64");
  Does(a_, "kernel first t write x 0 64");
  Does(a_, "kernel last s write r 0 64");
  Does(a_, "sync-all");
  Does(a_, "kernel busy t write x 0 64");
  Does(a_, "sync s");  // says nothing of t
  Does(b_, "kernel first s write r 0 64");
}

TEST_F(CheckedPair, AnInterprocessEventOrdersAHandOver) {
  Does(a_, "event e shared");
  Does(b_, "open-event e " + a_.Ask("share-event e").substr(3));
  Does(a_, "kernel last s write r 0 64");
  Does(a_, "record-all e");
  Does(b_, "wait s e");
  Does(b_, "kernel first s write r 0 64");
}

TEST_F(CheckedPair, UnmappingWhatAnotherProcessUsesNowHarmsNobody) {
  Does(a_, "kernel last s write r 0 64");
  Does(b_, "unmap r 0 2048");
  Does(a_, "kernel more s write r 0 64");
}

TEST_F(CheckedPair, ADeadProcessOwesNoWait) {
  Does(a_, "kernel last s write r 0 64");
  a_.Kill();
  Does(b_, "kernel first s write r 0 64");
}

}  // namespace
}  // namespace hocket
