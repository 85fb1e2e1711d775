#include "runtime/topology.hpp"

#include <gtest/gtest.h>
#include <sched.h>

#include <string>

namespace strata {
namespace {

TEST(Topology, CountsAreConsistent) {
  const Topology t = probe_topology();
  EXPECT_GE(t.packages, 1u);
  EXPECT_GE(t.numa_nodes, 1u);
  EXPECT_GE(t.cores, t.packages);
  EXPECT_GE(t.cpus, t.cores);
  EXPECT_GE(t.usable_cores, 1u);
  EXPECT_LE(t.usable_cores, t.cores);
  EXPECT_LE(t.usable_cpus, t.cpus);
  EXPECT_LE(t.usable_cores, t.usable_cpus);
  EXPECT_FALSE(t.cpuset.empty());
  EXPECT_EQ(default_threads(), t.threads());
}

TEST(Topology, FollowsTheAffinityMask) {
  cpu_set_t before;
  ASSERT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
  cpu_set_t one;
  CPU_ZERO(&one);
  int first = 0;
  while (!CPU_ISSET(first, &before)) ++first;
  CPU_SET(first, &one);
  ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
  const Topology t = probe_topology();
  ASSERT_EQ(sched_setaffinity(0, sizeof before, &before), 0);
  EXPECT_EQ(t.usable_cpus, 1u);
  EXPECT_EQ(t.usable_cores, 1u);
  EXPECT_EQ(t.threads(), 1u);
  EXPECT_EQ(t.cpuset, std::to_string(first));
}

TEST(Topology, ThreadsAreCoresWithinTheQuota) {
  Topology t;
  t.usable_cores = 8;
  EXPECT_EQ(t.threads(), 8u);
  t.cpu_quota = 2.5;
  EXPECT_EQ(t.threads(), 3u);
  t.cpu_quota = 0.1;
  EXPECT_EQ(t.threads(), 1u);
  t.cpu_quota = 64;
  EXPECT_EQ(t.threads(), 8u);
  t.usable_cores = 0;
  EXPECT_EQ(t.threads(), 1u);
}

TEST(Topology, DescribesItselfInALine) {
  Topology t;
  t.packages = t.numa_nodes = 1;
  t.cores = 4;
  t.cpus = 8;
  t.usable_cores = 2;
  t.cpuset = "0-3";
  EXPECT_EQ(t.describe(), "1 package, 1 NUMA node, 4 cores, 8 CPUs; usable: 2 cores (CPUs 0-3)");
  t.cpu_quota = 1.5;
  EXPECT_NE(t.describe().find("quota 150 % of a CPU"), std::string::npos) << t.describe();
}

TEST(Topology, ParsesQuotas) {
  EXPECT_EQ(parse_cpu_max("max 100000\n"), std::nullopt);
  EXPECT_EQ(parse_cpu_max("150000 100000\n"), 1.5);
  EXPECT_EQ(parse_cpu_max("200000\n 100000\n"), 2.0) << "two files of v1";
  EXPECT_EQ(parse_cpu_max("-1\n 100000\n"), std::nullopt) << "v1 without a limit";
  for (const char* bad :
       {"", " ", "\n", "100000", "0 100000", "5 0", "x 1", "1 x", "1e", "nan 1"}) {
    EXPECT_EQ(parse_cpu_max(bad), std::nullopt) << bad;
  }
}

}  // namespace
}  // namespace strata
