#include "csrc/wire/shared_page.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <string>

namespace hocket::wire {
namespace {

using testing::HasSubstr;

UniqueFd Memfd(size_t size, int seals) {
  UniqueFd fd(memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  EXPECT_EQ(ftruncate(fd.get(), static_cast<off_t>(size)), 0);
  EXPECT_EQ(fcntl(fd.get(), F_ADD_SEALS, seals), 0);
  return fd;
}

std::string Refusal(int fd) { return std::string(SharedPageView::Open(fd).status().message()); }

TEST(SharedPageTest, WhatOneWritesTheOtherReads) {
  SharedPage page = SharedPage::Create().value();
  const SharedPageView view = SharedPageView::Open(page.fd()).value();
  page.words().steps.store(41, std::memory_order_relaxed);
  page.words().steps.fetch_add(1, std::memory_order_relaxed);
  page.words().restored_total.store(7, std::memory_order_relaxed);
  page.words().adopted_total.store(8, std::memory_order_relaxed);
  EXPECT_EQ(view.Read().steps, 42u);
  EXPECT_EQ(view.Read().adopted_total, 8u);
  EXPECT_EQ(view.Read().restored_total, 7u);
  EXPECT_EQ(view.Read().turns, 0u);
}

TEST(SharedPageTest, TheWriterCanChangeItsSizeNoMore) {
  SharedPage page = SharedPage::Create().value();
  EXPECT_NE(ftruncate(page.fd(), 0), 0);
  EXPECT_NE(ftruncate(page.fd(), 1 << 20), 0);
}

TEST(SharedPageTest, APageThatCouldShrinkIsRefused) {
  EXPECT_THAT(Refusal(Memfd(kPageSize, F_SEAL_GROW).get()), HasSubstr("seals"));
}

TEST(SharedPageTest, AFileThatIsNoMemfdIsRefused) {
  UniqueFd fd(open("/dev/null", O_RDWR | O_CLOEXEC));
  EXPECT_THAT(Refusal(fd.get()), HasSubstr("seals"));
}

TEST(SharedPageTest, AnotherSizeIsRefusedWithBoth) {
  EXPECT_THAT(Refusal(Memfd(100, F_SEAL_SHRINK | F_SEAL_GROW).get()),
              HasSubstr("has 100 bytes, expected 4096"));
}

TEST(SharedPageTest, WrongMagicVersionOrLengthIsRefused) {
  EXPECT_THAT(Refusal(Memfd(kPageSize, F_SEAL_SHRINK | F_SEAL_GROW).get()), HasSubstr("magic 0"));
  SharedPage page = SharedPage::Create().value();
  page.words().length.store(1 << 30);
  EXPECT_THAT(Refusal(page.fd()), HasSubstr("1073741824 bytes"));
  page.words().length.store(sizeof(PageWords));
  page.words().version.store(9);
  EXPECT_THAT(Refusal(page.fd()), HasSubstr("version 9"));
}

TEST(SharedPageTest, WordsThatAnOlderWriterDoesNotHaveReadAsZero) {
  SharedPage page = SharedPage::Create().value();
  page.words().steps.store(5);
  page.words().restored_total.store(6);
  page.words().length.store(24);  // magic, version, length, steps
  const SharedPageView view = SharedPageView::Open(page.fd()).value();
  EXPECT_EQ(view.Read().steps, 5u);
  EXPECT_EQ(view.Read().restored_total, 0u);
}

TEST(SharedPageTest, AGrantIsTakenBackOrAcceptedNotBoth) {
  SharedPage page = SharedPage::Create().value();
  SharedPageView view = SharedPageView::Open(page.fd()).value();
  EXPECT_TRUE(view.TakeGrantBack(1));
  EXPECT_FALSE(page.AcceptGrant(1));
  EXPECT_TRUE(page.AcceptGrant(2));
  EXPECT_FALSE(view.TakeGrantBack(2));
}

TEST(SharedPageTest, AnOlderJobsGrantCannotBeTakenBack) {
  SharedPage page = SharedPage::Create().value();
  page.words().length.store(offsetof(PageWords, grant));
  SharedPageView view = SharedPageView::Open(page.fd()).value();
  EXPECT_FALSE(view.TakeGrantBack(1));
  EXPECT_EQ(page.words().grant.load(), 0u);
}

TEST(SharedPageTest, APageThatMayOnlyBeReadIsReadAndNotWritten) {
  SharedPage page = SharedPage::Create().value();
  page.words().steps.store(5);
  UniqueFd reading(open(("/proc/self/fd/" + std::to_string(page.fd())).c_str(), O_RDONLY | O_CLOEXEC));
  ASSERT_TRUE(reading);
  SharedPageView view = SharedPageView::Open(reading.get()).value();
  EXPECT_EQ(view.Read().steps, 5u);
  EXPECT_FALSE(view.TakeGrantBack(1));
  EXPECT_TRUE(page.AcceptGrant(1));
}

}  // namespace
}  // namespace hocket::wire
