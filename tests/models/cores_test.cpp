// Cores as the scheduler and the container grant them.
#include "models/core/cores.h"

#include <thread>

#include <gtest/gtest.h>
#include <sched.h>

namespace zeroplan {
namespace {

TEST(Cores, OfAQuotaAreRoundedDownToAtLeastOne) {
  EXPECT_EQ(detail::cores_of_quota("200000 100000\n"), 2u);
  EXPECT_EQ(detail::cores_of_quota("350000 100000"), 3u);
  EXPECT_EQ(detail::cores_of_quota("50000 100000"), 1u);
  EXPECT_EQ(detail::cores_of_quota("max 100000"), 0u);
  EXPECT_EQ(detail::cores_of_quota("200000 0"), 0u);
  EXPECT_EQ(detail::cores_of_quota(""), 0u);
}

TEST(Cores, FollowTheAffinityOfTheThreadThatAsks) {
  std::uint64_t seen = 0;
  std::thread([&seen] {
    cpu_set_t all;
    ASSERT_EQ(::sched_getaffinity(0, sizeof(all), &all), 0);
    int first = 0;
    while (!CPU_ISSET(first, &all)) ++first;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(first, &one);
    ASSERT_EQ(::sched_setaffinity(0, sizeof(one), &one), 0);
    seen = usable_cores();
  }).join();
  EXPECT_EQ(seen, 1u);
  EXPECT_GE(usable_cores(), 1u);
}

}  // namespace
}  // namespace zeroplan
