// Each mutant is found where it shows, and not where it hides: then the checks can fail, and for the reason given.
#include "harness/mutants/mutants.hpp"

#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "conformance/collectives/collectives_checks.hpp"
#include "conformance/collectives/in_process.hpp"
#include "harness/mutants/rewritten_adapter.hpp"
#include "harness/subject/adapter/client.hpp"
#include "reference/comm/errors.hpp"

namespace plumbline::conformance {
namespace {

using mutants::Mutant;

const suite::Case& case_named(const std::string& id) {
  const auto found = std::ranges::find(collectives().cases(), id, &suite::Case::id);
  if (found == collectives().cases().end()) throw NotFound("no case " + id);
  return *found;
}

class EveryMutant : public testing::TestWithParam<std::string> {
 protected:
  const Mutant& mutant() const { return mutants::find_mutant(GetParam()); }
  std::vector<std::string> failures_at(const std::string& id, const std::string& arm,
                                       std::chrono::milliseconds patience) const {
    if (const auto* wrap = std::get_if<mutants::Wrap>(&mutant().change))
      return run_in_process(case_named(id), *wrap, patience, suite::Arm::parse(arm));
    const auto rewrite = std::get<mutants::RewriteAnswer>(mutant().change);
    const auto reference = subject::open_adapter("reference");
    mutants::RewrittenAdapter adapter(*reference, rewrite);
    return run_in_process(case_named(id), adapter);
  }
};

TEST_P(EveryMutant, FailsWhereItShows) {
  // Longer than what the checks allow after a limit, shorter than what a person waits.
  const auto failures = failures_at(mutant().shows, mutant().shows_arm, std::chrono::milliseconds(1300));
  EXPECT_THAT(failures, testing::Not(testing::IsEmpty())) << mutant().what;
  if (!failures.empty()) std::cout << failures.front().substr(0, 300) << '\n';
}

TEST_P(EveryMutant, PassesWhereItHides) {
  if (mutant().hides.empty()) {
    EXPECT_FALSE(mutant().why_hides.empty());
    return;
  }
  EXPECT_THAT(failures_at(mutant().hides, mutant().hides_arm, std::chrono::seconds(20)), testing::IsEmpty())
      << mutant().why_hides;
}

std::vector<std::string> names() {
  std::vector<std::string> list;
  for (const Mutant& mutant : mutants::all_mutants())
    if (mutant.violates.starts_with("COLL-")) list.push_back(mutant.name);
  return list;
}

INSTANTIATE_TEST_SUITE_P(Mutants, EveryMutant, testing::ValuesIn(names()), [](const auto& info) {
  std::string name = info.param;
  std::ranges::replace(name, '.', '_');
  return name;
});

// Every check watches its buffers: a write beside one, or none into one, is found also where another requirement is checked.
TEST(Mutants, OfBuffersAreFoundInOtherChecks) {
  struct Place {
    const char *mutant, *id;
  };
  for (const Place& place : {
           Place{"col.writes_before_start", "collectives.messages.tags[world=2]"},
           Place{"col.writes_before_start", "collectives.messages.groups_apart[world=2]"},
           Place{"col.writes_before_start", "collectives.messages.to_self[world=2]"},
           Place{"col.writes_before_start", "collectives.nonblocking.exchange_in_a_batch[size=small,world=2]"},
           Place{"col.writes_before_start", "collectives.nonblocking.returns_at_once[world=2]"},
           Place{"col.writes_before_start", "collectives.groups.roots_and_peers[world=3]"},
           Place{"col.writes_before_start", "collectives.gather.exact[world=2]"},
           Place{"col.writes_past_end", "collectives.barrier.nobody_leaves_early[world=2]"},
           Place{"col.writes_past_end", "collectives.reductions.equal_on_all_ranks[dtype=f32,world=2]"},
           Place{"col.clobbers_input", "collectives.reductions.rounding_bound[dtype=f32,world=2]"},
           Place{"col.message_tail_stale", "collectives.nonblocking.returns_at_once[world=2]"},
           Place{"col.message_tail_stale", "collectives.nonblocking.test_is_honest[world=2]"},
           Place{"col.leaves_zeros", "collectives.reductions.zero_sign[dtype=f32,world=3]"},
       }) {
    const auto& wrap = std::get<mutants::Wrap>(mutants::find_mutant(place.mutant).change);
    EXPECT_THAT(run_in_process(case_named(place.id), wrap), testing::Not(testing::IsEmpty()))
        << place.mutant << " in " << place.id;
    EXPECT_THAT(run_in_process(case_named(place.id)), testing::IsEmpty()) << place.id;
  }
}

TEST(Mutants, AreRefusedBehindAnotherDoor) {
  EXPECT_EQ(&mutants::find_mutant("col.leaky_barrier", suite::Door::backend),
            &mutants::find_mutant("col.leaky_barrier"));
  try {
    (void)mutants::find_mutant("red.none", suite::Door::adapter);
    FAIL();
  } catch (const InvalidArgument& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("--mutant red.none: it breaks what --backend names, and the subject "
                                                 "here is one of --adapter"));
  }
  EXPECT_THROW((void)mutants::find_mutant("ans.overlap_taken", suite::Door::backend), InvalidArgument);
}

TEST(Mutants, AnUnknownNameIsAnsweredWithTheNearest) {
  try {
    (void)mutants::find_mutant("col.leaky_barier");
    FAIL();
  } catch (const NotFound& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("no mutant 'col.leaky_barier'; did you mean col.leaky_barrier or "));
  }
}

}  // namespace
}  // namespace plumbline::conformance
