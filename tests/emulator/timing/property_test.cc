// Random programs, run by the engine and by the naive reference: every item must end at the same nanosecond.
#include <gtest/gtest.h>

#include <random>
#include <sstream>
#include <vector>

#include "tests/emulator/timing/reference.h"
#include "tests/emulator/timing/scene.h"

namespace hocket::emulator::timing {
namespace {

constexpr Nanos kSlice = 23;

struct Submission {
  Nanos at;
  int process;
  ReferenceItem item;
};

class Program {
 public:
  explicit Program(int seed) : random_(seed), processes_(1 + Below(3)), streams_(1 + Below(4)) {
    std::vector<int> submitted(processes_);
    Nanos at = 1000;
    for (int i = 0; i < 120; ++i) {
      if (Below(3) == 0) at += Below(Below(6) == 0 ? 400 : 30);
      const int process = Below(processes_);
      submissions_.push_back({at, process, RandomItem(submitted[process]++)});
    }
  }

  int processes() const { return processes_; }
  int streams() const { return streams_; }
  const std::vector<Submission>& submissions() const { return submissions_; }
  int Below(int n) { return static_cast<int>(random_() % n); }

 private:
  ReferenceItem RandomItem(int earlier) {
    ReferenceItem item;
    item.stream = Below(streams_);
    item.engine = Below(5) == 0 ? -1 : Below(3) == 0 ? 1 + Below(2) : 0;
    if (item.engine >= 0) item.duration = 1 + Below(Below(10) == 0 ? 3 : 70);
    while (earlier > 0 && Below(5) == 0) item.after.push_back(Below(earlier));
    return item;
  }

  std::mt19937 random_;
  const int processes_;
  const int streams_;
  std::vector<Submission> submissions_;
};

// What the engine makes of a program: the ends, by process and item.
class Play {
 public:
  explicit Play(Program& program)
      : program_(program),
        scene_(program.processes(), kSlice),
        ends_(program.processes()),
        points_(program.processes()) {
    for (int p = 0; p < program.processes(); ++p) {
      streams_.emplace_back();
      for (int s = 0; s < program.streams(); ++s) streams_.back().push_back(scene_.NewStream(p));
      ends_[p].resize(program.submissions().size(), -1);
    }
  }

  void Run(Nanos end) {
    for (const Submission& submission : program_.submissions()) {
      scene_.RunUntil(submission.at);
      Submit(submission.process, submission.item);
      LookAround();
    }
    scene_.RunUntil(end);
    for (int p = 0; p < program_.processes(); ++p) {
      scene_.process(p).CheckInvariants();
      EXPECT_TRUE(scene_.process(p).Idle()) << "process " << p;
    }
  }

  Nanos End(int process, int item) const { return ends_[process][item]; }

 private:
  void Submit(int p, const ReferenceItem& item) {
    Nanos* end = &ends_[p][points_[p].size()];
    Work work = Mark(end);
    if (item.engine >= 0) work.kind = Work::Kind::kTimed;
    if (item.engine >= 0) work.engine = static_cast<Engine>(item.engine);
    work.duration = item.duration;
    for (int i : item.after) work.after.push_back(points_[p][i]);
    points_[p].push_back(scene_.Submit(p, streams_[p][item.stream], std::move(work)));
  }

  // Who asks, and how often, must make no difference.
  void LookAround() {
    if (program_.Below(4) != 0) return;
    const int p = program_.Below(program_.processes());
    if (!points_[p].empty()) scene_.Done(p, points_[p][program_.Below(static_cast<int>(points_[p].size()))]);
    if (program_.Below(3) == 0) scene_.process(p).CheckInvariants();
  }

  Program& program_;
  Scene scene_;
  std::vector<std::vector<std::shared_ptr<Stream>>> streams_;
  std::vector<std::vector<Nanos>> ends_;
  std::vector<std::vector<Point>> points_;
};

std::string Describe(const Program& program, int process, int count) {
  std::ostringstream text;
  int index = 0;
  for (const Submission& s : program.submissions()) {
    if (s.process != process || index > count) continue;
    text << "  item " << index++ << " at " << s.at << ": stream " << s.item.stream << ", engine "
         << s.item.engine << ", " << s.item.duration << " ns, after";
    for (int i : s.item.after) text << ' ' << i;
    text << '\n';
  }
  return text.str();
}

class RandomProgramTest : public testing::TestWithParam<int> {};

TEST_P(RandomProgramTest, EveryItemEndsWhenTheReferenceSays) {
  for (int seed = GetParam() * 100; seed < GetParam() * 100 + 30; ++seed) {
    Program program(seed);
    Reference reference(program.processes(), kSlice, 1000);
    for (const Submission& submission : program.submissions()) {
      reference.RunUntil(submission.at);
      reference.Submit(submission.process, submission.item);
    }
    const Nanos end = reference.RunToTheEnd();
    Play play(program);
    play.Run(end);
    for (int p = 0; p < program.processes(); ++p) {
      for (std::size_t i = 0; i < reference.items()[p].size(); ++i) {
        ASSERT_EQ(play.End(p, i), reference.items()[p][i].ended)
            << "seed " << seed << ", process " << p << " of " << program.processes() << ", item " << i << "\n"
            << Describe(program, p, i);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomProgramTest, testing::Range(0, 20));

}  // namespace
}  // namespace hocket::emulator::timing
