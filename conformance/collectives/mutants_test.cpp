// Mutants beside the places where they show: in other checks, behind another door, and by another name.
#include "harness/mutants/mutants.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "conformance/support/component_tests.hpp"
#include "conformance/support/in_process.hpp"
#include "reference/comm/errors.hpp"

namespace plumbline::conformance {
namespace {

// Every check watches its buffers: a write beside one, or none into one, is found also where another requirement is
// checked.
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
    const auto& wrap = std::get<mutants::Wrap>(mutants::find_mutant(suite_under_test(), place.mutant).change);
    EXPECT_THAT(run_in_process(case_named(suite_under_test(), place.id), wrap), testing::Not(testing::IsEmpty()))
        << place.mutant << " in " << place.id;
    EXPECT_THAT(run_in_process(case_named(suite_under_test(), place.id)), testing::IsEmpty()) << place.id;
  }
}

TEST(Mutants, AreRefusedBehindAnotherDoor) {
  EXPECT_EQ(&mutants::find_mutant(suite_under_test(), "col.leaky_barrier", suite::Door::backend),
            &mutants::find_mutant(suite_under_test(), "col.leaky_barrier"));
  try {
    (void)mutants::find_mutant(suite_under_test(), "col.claims_bf16", suite::Door::adapter);
    FAIL();
  } catch (const InvalidArgument& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("--mutant col.claims_bf16: it breaks what --backend names, and the "
                                                 "subject here is one of --adapter"));
  }
  EXPECT_THROW((void)mutants::find_mutant(suite_under_test(), "ans.overlap_taken", suite::Door::backend),
               InvalidArgument);
}

TEST(Mutants, AnUnknownNameIsAnsweredWithTheNearest) {
  try {
    (void)mutants::find_mutant(suite_under_test(), "col.leaky_barier");
    FAIL();
  } catch (const NotFound& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("no mutant 'col.leaky_barier'; plumbline mutants --list has them; "
                                                 "did you mean col.leaky_barrier?"));
  }
}

}  // namespace
}  // namespace plumbline::conformance
