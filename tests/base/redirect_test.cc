// Over libraries of our own that call into another one: redirect_caller.cc and redirect_callee.cc.
#include "csrc/base/redirect.h"

#include <dlfcn.h>

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

extern "C" {
int HocketTestAnswer(int question);
int HocketTestOther();
int AskLazy(int question);
int AskNow(int question);
int AskOtherLazy();
int AskOtherNow();
void* AddressInLazy();
void* AddressInNow();
}

namespace hocket {
namespace {

using ::testing::HasSubstr;

int Redirected(int question) { return 1000 + HocketTestAnswer(question); }
int RedirectedOther() { return 1000 + HocketTestOther(); }

struct Caller {
  const char* library;
  int (*ask)(int);
  int (*ask_other)();
  void* (*address)();
};

class RedirectTest : public testing::TestWithParam<Caller> {
 protected:
  ~RedirectTest() override {
    (void)Redirect(reinterpret_cast<void*>(&HocketTestAnswer));
    (void)RedirectCalls(GetParam().library, {{"HocketTestOther", reinterpret_cast<void*>(&HocketTestOther)}});
  }

  absl::Status Redirect(void* target) {
    return RedirectCalls(GetParam().library, {{"HocketTestAnswer", target}});
  }

  void* const redirected_ = reinterpret_cast<void*>(&Redirected);
};

TEST_P(RedirectTest, OneLibrarysCallsLeadElsewhereAndNobodyElses) {
  ASSERT_EQ(GetParam().ask(7), 8);

  ASSERT_TRUE(Redirect(redirected_).ok());

  EXPECT_EQ(GetParam().ask(7), 1008);
  EXPECT_EQ(GetParam().address(), redirected_);
  EXPECT_EQ(HocketTestAnswer(7), 8) << "our own calls lead where they led";
  EXPECT_EQ(GetParam().ask_other(), 42) << "other functions are left alone";
}

// Its entry still leads to the dynamic linker, where calls are bound lazily.
TEST_P(RedirectTest, ACallThatWasNeverMadeBeforeStaysRedirected) {
  const Redirection other{"HocketTestOther", reinterpret_cast<void*>(&RedirectedOther)};
  ASSERT_TRUE(RedirectCalls(GetParam().library, {other}).ok());

  EXPECT_EQ(GetParam().ask_other(), 1042);
  EXPECT_EQ(GetParam().ask_other(), 1042) << "the dynamic linker does not write the entry back";
}

TEST_P(RedirectTest, WhereOneIsNotImportedNoneIsRedirected) {
  const absl::Status status = RedirectCalls(
      GetParam().library, {{"HocketTestAnswer", redirected_}, {"HocketTestMissing", redirected_}});

  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(status.message()), HasSubstr("does not import HocketTestMissing"));
  EXPECT_EQ(GetParam().ask(7), 8);
}

TEST(RedirectOfNothingTest, ALibraryThatIsNotLoadedIsNamed) {
  const absl::Status status = RedirectCalls("libnowhere.so", {{"cudaMalloc", nullptr}});

  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(status.message()), HasSubstr("libnowhere.so: it is not loaded"));
}

int AskTheOther() { return HocketTestOther(); }
int OfTheProgram() { return 7; }

TEST_P(RedirectTest, ALibraryIsFoundByAnyOfItsFunctions) {
  ASSERT_TRUE(
      RedirectCallsFrom(reinterpret_cast<void*>(GetParam().address), {{"HocketTestAnswer", redirected_}})
          .ok());

  EXPECT_EQ(GetParam().ask(7), 1008);
  EXPECT_EQ(HocketTestAnswer(7), 8) << "our own calls lead where they led";
}

TEST(RedirectOfTheProgramTest, ItsOwnCallsLeadElsewhereAndNoLibrarys) {
  ASSERT_EQ(AskTheOther(), 42);
  void* const theirs = dlsym(RTLD_DEFAULT, "HocketTestOther");
  const auto redirect = [](void* target) {
    return RedirectCallsFrom(reinterpret_cast<void*>(&AskTheOther), {{"HocketTestOther", target}});
  };

  ASSERT_TRUE(redirect(reinterpret_cast<void*>(&OfTheProgram)).ok());

  EXPECT_EQ(AskTheOther(), 7);
  EXPECT_EQ(AskOtherNow(), 42) << "a library's calls are left alone";
  EXPECT_TRUE(redirect(theirs).ok());
  EXPECT_EQ(AskTheOther(), 42);
}

TEST(RedirectOfNothingTest, AnAddressThatIsNobodysIsNamed) {
  const int on_the_stack = 0;
  const absl::Status status = RedirectCallsFrom(&on_the_stack, {{"HocketTestOther", nullptr}});

  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(status.message()), HasSubstr("it is not loaded"));
}

INSTANTIATE_TEST_SUITE_P(
    Binding, RedirectTest,
    testing::Values(Caller{"libhocket_redirect_Lazy.so", &AskLazy, &AskOtherLazy, &AddressInLazy},
                    Caller{"libhocket_redirect_Now.so", &AskNow, &AskOtherNow, &AddressInNow}),
    [](const auto& info) { return std::string(info.index == 0 ? "Lazy" : "Now"); });

}  // namespace
}  // namespace hocket
