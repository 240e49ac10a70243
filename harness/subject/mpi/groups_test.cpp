#include <algorithm>
#include <chrono>
#include <thread>

#include <mpi.h>

#include "harness/subject/modules.hpp"
#include "harness/subject/mpi/job_test.hpp"
#include "reference/comm/errors.hpp"

namespace plumbline::subject::mpi {
namespace {

using namespace comm;

using MpiGroups = MpiTest;
using MpiBackendModule = MpiTest;

bool contains(const std::vector<int>& ranks, int rank) { return std::ranges::count(ranks, rank) > 0; }

// Each member gives its world rank: the group's order shows.
void expect_members(Communicator& group, const std::vector<int>& world_ranks) {
  EXPECT_EQ(group.group().ranks, world_ranks);
  const std::int32_t mine = group.group().ranks[static_cast<std::size_t>(group.rank())];
  EXPECT_EQ(mine, job().rank());
  std::vector<std::int32_t> seen(world_ranks.size());
  group.all_gather({&mine, 1, DType::i32}, {seen.data(), static_cast<std::int64_t>(seen.size()), DType::i32});
  EXPECT_EQ(seen, std::vector<std::int32_t>(world_ranks.begin(), world_ranks.end()));
}

std::vector<int> counting(int from, int to, int step) {
  std::vector<int> ranks;
  for (int rank = from; step > 0 ? rank < to : rank > to; rank += step) ranks.push_back(rank);
  return ranks;
}

TEST_F(MpiGroups, KeepTheOrderOfTheirRanksAndAreMadeByTheirMembersAlone) {
  for (const auto& ranks :
       {counting(0, n, 1), counting(n - 1, -1, -1), counting(0, n, 2), counting(n - 1, 0, -2), counting(n - 1, n, 1)})
    if (contains(ranks, me)) expect_members(*world.create_group(ranks), ranks);
}

TEST_F(MpiGroups, MayOverlap) {
  std::vector<std::unique_ptr<Communicator>> pairs;
  for (int low = 0; low + 1 < n; ++low)
    if (me == low || me == low + 1) pairs.push_back(world.create_group(std::vector{low, low + 1}));
  for (const auto& pair : pairs) expect_members(*pair, pair->group().ranks);
}

TEST_F(MpiGroups, AreMadeOfGroups) {
  const auto reversed = world.create_group(counting(n - 1, -1, -1));
  const auto even_places = counting(0, n, 2);  // of the reversed group: n-1, n-3, …
  if (!contains(even_places, reversed->rank())) return;
  const auto group = reversed->create_group(even_places);
  expect_members(*group, counting(n - 1, -1, -2));
  const auto last = static_cast<int>(even_places.size()) - 1;
  if (group->rank() == last) expect_members(*group->create_group(std::vector{last}), {n - 1 - 2 * last});
}

TEST_F(MpiGroups, AreNamedByTheirRanksAndNumberedByCreation) {
  EXPECT_EQ(world.group().name, "world");
  const auto ranks = counting(n - 1, -1, -1);
  const auto first = world.create_group(ranks);
  const auto second = world.create_group(ranks);
  std::string list;
  for (const int rank : ranks) list += (list.empty() ? "[" : " ") + std::to_string(rank);
  EXPECT_EQ(first->group().name, list + "]");
  EXPECT_EQ(second->group().name, list + "] #2");
  EXPECT_EQ(first->group().id, group_id(world.group().id, ranks, 1));
  EXPECT_EQ(second->group().id, group_id(world.group().id, ranks, 2));
}

TEST_F(MpiGroups, AreMadeWhileAReceiveIsUnderWayInTheirParent) {
  // Open MPI would let it take the messages of the creation if both used one communicator and tag.
  const int peer = n - 1 - me;
  if (peer == me) return (void)world.duplicate();
  void* largest = nullptr;
  int known = 0;
  MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &largest, &known);
  ASSERT_NE(known, 0);
  const std::uint64_t tags = static_cast<std::uint64_t>(*static_cast<int*>(largest)) + 1;
  const int tag = static_cast<int>(group_id(world.group().id, counting(0, n, 1), 1) % tags);
  std::int32_t value = -1;
  Work receive = world.start({.operation = Operation::recv, .root = peer, .tag = tag, .out = {&value, 1, DType::i32}});
  const auto group = world.duplicate();
  world.send({&me, 1, DType::i32}, peer, tag);
  receive.wait();
  EXPECT_EQ(value, peer);
}

TEST_F(MpiGroups, OfTwoThreadsAreMadeAndUsedAtOnce) {
  if (!world.capabilities().has(Capability::thread_multiple)) return;
  const auto left = world.duplicate();
  const auto right = world.duplicate();
  const auto use = [&](Communicator& parent, const std::vector<int>& ranks) {
    for (int round = 0; round < 10; ++round) {
      const auto group = parent.create_group(ranks);
      std::vector<std::int32_t> values(200, me + round);
      group->all_reduce({values.data(), 200, DType::i32}, {values.data(), 200, DType::i32}, ReduceOp::sum);
      EXPECT_THAT(values, testing::Each(n * (n - 1) / 2 + n * round));
    }
  };
  std::jthread other([&] { use(*left, counting(0, n, 1)); });
  use(*right, counting(n - 1, -1, -1));
}

TEST_F(MpiGroups, OfTwoThreadsAreKeptApartAlsoWhereTheirListsAreTheSame) {
  if (!world.capabilities().has(Capability::thread_multiple)) return;
  const auto left = world.duplicate();
  const auto right = world.duplicate();
  // Ranks come to the two groups in different order.
  const auto use = [&](Communicator& parent, std::int32_t mark, bool late) {
    for (int round = 0; round < 10; ++round) {
      if (late) std::this_thread::sleep_for(std::chrono::milliseconds(2));
      const auto group = parent.duplicate();
      std::vector<std::int32_t> marks(un);
      group->all_gather({&mark, 1, DType::i32}, {marks.data(), n, DType::i32});
      EXPECT_THAT(marks, testing::Each(mark)) << group->group().name;
    }
  };
  std::jthread other([&] { use(*left, 1, me % 2 == 0); });
  use(*right, 2, me % 2 == 1);
}

TEST_F(MpiGroups, OfWrongRanksAreRefused) {
  EXPECT_THROW((void)world.create_group({}), InvalidArgument);
  EXPECT_THROW((void)world.create_group(std::vector{me, n}), InvalidArgument);
}

TEST_F(MpiBackendModule, GivesAWorldOfItsFirstProcesses) {
  for (int ranks = 1; ranks <= n; ++ranks) {
    if (me < ranks) {
      expect_members(*job().world(ranks), counting(0, ranks, 1));
    } else {
      EXPECT_THROW((void)job().world(ranks), InvalidArgument);
    }
  }
  EXPECT_THROW((void)job().world(0), InvalidArgument);
  EXPECT_THROW((void)job().world(n + 1), InvalidArgument);
}

std::string refusal(const BackendOptions& options) {
  try {
    (void)open_backend("mpi", options);
  } catch (const InvalidArgument& error) {
    return error.what();
  }
  return "not refused";
}

TEST_F(MpiBackendModule, SaysWhatToDoWhereAModuleIsAbsent) {
  try {
    (void)open_backend("nonesuch", {});
    ADD_FAILURE() << "opened";
  } catch (const NotAvailable& error) {
    EXPECT_THAT(error.what(), testing::MatchesRegex("backend nonesuch: not part of this build \\('.*' is missing\\); "
                                                    "configure and build again"));
  }
}

TEST_F(MpiBackendModule, RefusesOptionsInOneLine) {
  EXPECT_EQ(refusal({{"colour", "red"}}),
            "backend mpi: colour=red: no such option; there are threads and segment_elements");
  EXPECT_EQ(refusal({{"threads", "many"}}),
            "backend mpi: threads=many: no thread level; use single, funneled, serialized or multiple");
  for (const char* value : {"0", "-3", "12x", "", "2147483648"})
    EXPECT_EQ(refusal({{"segment_elements", value}}),
              std::string("backend mpi: segment_elements=") + value +
                  ": no segment length; use a whole number from 1 to 2147483647");
}

TEST_F(MpiBackendModule, SaysWhatItClaimsAndWhatItCannotDo) {
  const Capabilities& all = job().capabilities();
  EXPECT_EQ(all.backend, "mpi");
  EXPECT_FALSE(all.version.empty());
  const auto threads = job_options().find("threads");
  EXPECT_EQ(all.has(Capability::thread_multiple), threads == job_options().end() || threads->second == "multiple");
  EXPECT_EQ(!all.has(Capability::thread_multiple), std::ranges::any_of(all.notes, [](const std::string& note) {
    return note.starts_with("MPI provides thread level");
  }));
  for (const Capability unclaimed :
       {Capability::names_missing, Capability::misuse_detection, Capability::failure_detection, Capability::rank_order})
    EXPECT_FALSE(all.has(unclaimed)) << name_of(unclaimed);
}

TEST_F(MpiBackendModule, RecordsItsEnvironment) {
  setenv("UCX_TLS", "sm", 0);
  setenv("PMIX_SERVER_TMPDIR", "/nowhere", 0);
  const auto environment = job().environment();
  EXPECT_TRUE(environment.contains("library"));
  EXPECT_EQ(environment.at("UCX_TLS"), "sm");
  EXPECT_FALSE(environment.contains("PMIX_SERVER_TMPDIR"));
  const auto segment = job_options().find("segment_elements");
  EXPECT_EQ(environment.at("segment_elements"), segment == job_options().end() ? "1073741824" : segment->second);
}

}  // namespace
}  // namespace plumbline::subject::mpi
