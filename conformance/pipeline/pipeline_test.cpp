// The checks of pipelines that train: the reference passes them on the local backend.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "conformance/components.hpp"
#include "conformance/support/component_tests.hpp"
#include "conformance/training/in_process.hpp"
#include "harness/modes/modes.hpp"
#include "harness/mutants/record_rewriting.hpp"
#include "reference/support/temporary_folder.hpp"

namespace plumbline::conformance {
namespace {

const suite::Suite& pipelines() {
  static const suite::Suite suite = suite_of(add_pipeline);
  return suite;
}

// Puts a rank's communicator under an arm, whose files are to lie in `folder`.
decltype(Fault::wrap) under(const std::string& mode, const std::filesystem::path& folder) {
  if (mode == "plain") return {};
  return [mode, folder](std::unique_ptr<comm::Communicator> world) {
    return modes::under(suite::ExecutionMode::parse(mode), std::move(world), folder, std::chrono::seconds(20));
  };
}

TEST(PipelineSuite, HasACheckForEachRequirementAndCitesWhatIsWritten) {
  EXPECT_THAT(pipelines().problems(), testing::IsEmpty());
}

TEST(PipelineChecks, PassOnTheLocalBackend) {
  for (const suite::Case& one : pipelines().cases()) {
    SCOPED_TRACE(one.id());
    run_case(one);
  }
}

// The command runs them all in all arms.
TEST(PipelineChecks, OfOneScheduleOnTwoRanksPassWithoutBuffersAndWithDelays) {
  for (const char* mode : {"rendezvous", "chaos:1"})
    for (const suite::Case& one : pipelines().cases()) {
      if (!one.check->deadlock_prone || one.world() > 2) continue;
      if (one.parameters.has("schedule") && one.parameters.text("schedule") != "1f1b") continue;
      SCOPED_TRACE(one.id() + " " + mode);
      const job::TemporaryFolder folder;
      EXPECT_EQ(failures_of(one, {.wrap = under(mode, folder.path())}), "");
    }
}

using mutants::RecordedTensor;

mutants::ChangeRecord scaling_gradients(
    const std::function<double(const job::RunSpec&, int rank, const std::string&)>& by) {
  return mutants::with_tensors([by](const job::RunSpec& spec, int rank, RecordedTensor& tensor) {
    if (!mutants::is_of(tensor, job::Moment::grad) && !mutants::is_of(tensor, job::Moment::local_grad)) return;
    for (float& value : tensor.values) value *= static_cast<float>(by(spec, rank, tensor.name));
  });
}

// Of another program only the bounds are known: faults are found by them.
TEST(PipelineJobs, AreHeldToTheSingleDevice) {
  const auto failures = [](const char* setup, const mutants::ChangeRecord& change) {
    return failures_of(case_named(pipelines(), "pipeline.job." + std::string(setup)), {.record = change});
  };
  const auto sum_not_mean = scaling_gradients(
      [](const job::RunSpec& spec, int, const std::string&) { return static_cast<double>(spec.run.micro_batches); });
  EXPECT_THAT(
      failures("single_device[model=mlp,schedule=1f1b,micro_batches=2p,accumulation=1,data=1,world=2]", sum_not_mean),
      testing::ContainsRegex("PIPE-002: step 0, rank [01], [02].(weight|bias).*bound [0-9]"));
  EXPECT_THAT(
      failures("single_device[model=mlp,schedule=interleaved-1f1b,micro_batches=2p,accumulation=3,data=1,world=3]",
               scaling_gradients(
                   [](const job::RunSpec& spec, int, const std::string&) { return 1.0 / spec.run.accumulation; })),
      testing::HasSubstr("PIPE-002: step 0"));
  const char* tied = "single_device[model=tied,schedule=1f1b,micro_batches=2p,accumulation=1,data=1,world=3]";
  EXPECT_THAT(failures(tied, scaling_gradients([](const job::RunSpec&, int rank, const std::string& name) {
                         return rank == 2 && name.ends_with("/2.weight") ? 0.5 : 1;
                       })),
              testing::ContainsRegex("PIPE-006: step 0, rank 2, 2.weight.*differs from that of rank 1"));
  // What a pipeline with shared parameters violates is named, of shared parameters and of others.
  EXPECT_THAT(failures(tied, sum_not_mean),
              testing::AllOf(testing::ContainsRegex("PIPE-002: step 0, rank 0, 0.weight"),
                             testing::ContainsRegex("PIPE-006: step 0, rank [12], 2.weight"),
                             testing::Not(testing::ContainsRegex("PIPE-006: step [0-9], rank [0-9], [01].weight"))));
  const auto other_loss = mutants::with_tensors([](const job::RunSpec&, int, RecordedTensor& tensor) {
    if (tensor.name.ends_with("/loss")) tensor.values.front() *= 1.01f;
  });
  EXPECT_THAT(failures(tied, other_loss),
              testing::AllOf(testing::HasSubstr("PIPE-005: step 0"), testing::Not(testing::HasSubstr("PIPE-006"))));
  // In the last step, after which no other starts.
  const auto rank_1_drifts = mutants::with_tensors([](const job::RunSpec& spec, int rank, RecordedTensor& tensor) {
    if (rank != 1 || !mutants::is_of(tensor, job::Moment::after)) return;
    if (!tensor.name.starts_with(fmt::format("step{}/", spec.run.steps - 1))) return;
    for (float& value : tensor.values) value *= 1.001f;
  });
  EXPECT_THAT(failures("optimizers[optimizer=sgd_decay,schedule=zbv,world=2]", rank_1_drifts),
              testing::ContainsRegex("PIPE-003: step [1-9], rank 1, .*bound [0-9]"));
}

}  // namespace
}  // namespace plumbline::conformance
