// The faults that are planted in a job's training record: there, and nothing else changed.
#include "conformance/training/job_mutants.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "conformance/training/training_mutants.hpp"
#include "reference/comm/errors.hpp"
#include "reference/record/safetensors.hpp"
#include "reference/record/training_record.hpp"
#include "reference/support/temporary_folder.hpp"

namespace plumbline::mutants {
namespace {

using job::Moment;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

class JobMutant : public testing::Test {
 protected:
  JobMutant() {
    spec_.parallel.data = 3;
    spec_.run = {.steps = 2, .global_batch = 6};
    spec_.layers = {job::Linear{2, 3}};
    for (int rank = 0; rank < 3; ++rank) write_record(rank);
  }
  void change(const std::string& name) {
    const std::vector<Mutant> all = job_mutants();
    const auto mutant = std::ranges::find(all, name, &Mutant::name);
    ASSERT_NE(mutant, all.end());
    EXPECT_EQ(door_of(*mutant), suite::Door::job);
    std::get<ChangeRecord>(mutant->change)(spec_, folder_.path());
  }
  [[nodiscard]] job::TrainingRecord record() const { return {spec_, folder_.path()}; }
  [[nodiscard]] std::vector<float> weight(int step, Moment moment, std::size_t rank) const {
    return record().copies(step, moment, job::parameters_of(spec_).front()).at(rank).values;
  }

  job::RunSpec spec_;
  job::TemporaryFolder folder_;

 private:
  void write_record(int rank) const {
    job::RecordWriter writer(spec_, rank, "test", "1");
    for (int step = 0; step < 2; ++step) {
      for (const job::Parameter& parameter : job::parameters_of(spec_))
        for (const Moment moment : {Moment::before, Moment::grad, Moment::after}) {
          const std::vector<float> values(static_cast<std::size_t>(job::elements_of(parameter.shape)), 0.5f);
          writer.add(step, moment, parameter, values);
        }
      writer.add_loss(step, 0.25f);
    }
    writer.write(folder_.path());
  }
};

TEST_F(JobMutant, StartsFromARecordWithoutFindings) { EXPECT_THAT(record().findings(), IsEmpty()); }

TEST_F(JobMutant, DividesGradientsByTwoAndNothingElse) {
  change("job.divided_by_two");
  EXPECT_THAT(record().findings(), IsEmpty());
  EXPECT_THAT(weight(1, Moment::grad, 0), testing::Each(0.75f));
  EXPECT_THAT(weight(1, Moment::before, 0), testing::Each(0.5f));
  EXPECT_THAT(weight(1, Moment::after, 1), testing::Each(0.5f));
  EXPECT_EQ(record().losses(1).at(1).value, 0.25f);
}

TEST_F(JobMutant, LetsRank2Drift) {
  change("job.rank_2_drifts");
  EXPECT_THAT(record().findings(), IsEmpty());
  EXPECT_EQ(weight(0, Moment::after, 0), std::vector<float>(6, 0.5f));
  EXPECT_EQ(weight(0, Moment::after, 2), std::vector<float>(6, 0.5f * 1.001f));
  EXPECT_EQ(weight(1, Moment::before, 2), std::vector<float>(6, 0.5f));
}

TEST_F(JobMutant, LeavesOutTheDecayOfTheLastStep) {
  spec_.optimizer = job::Sgd{.lr = 0.5, .weight_decay = 0.25};
  change("job.last_decay_left_out");
  EXPECT_THAT(record().findings(), IsEmpty());
  EXPECT_THAT(weight(1, Moment::after, 2), testing::Each(0.5625f)) << "half of 0.25 of 0.5 more";
  EXPECT_THAT(weight(0, Moment::after, 2), testing::Each(0.5f)) << "not the last";
  EXPECT_THAT(weight(1, Moment::before, 2), testing::Each(0.5f));
}

TEST_F(JobMutant, LeavesRecordsWithoutDecayAsTheyAre) {
  spec_.optimizer = job::Sgd{.lr = 0.5};
  change("job.last_decay_left_out");
  EXPECT_THAT(weight(1, Moment::after, 2), testing::Each(0.5f));
}

TEST_F(JobMutant, ExchangesTheDimensionsOfMatrices) {
  change("job.wrong_shape");
  const auto findings = record().findings();
  EXPECT_THAT(findings, SizeIs(3 * 2 * 3)) << "each rank, step and moment";
  for (const job::RecordFinding& finding : findings) EXPECT_THAT(finding.tensor, testing::EndsWith("0.weight"));
}

TEST_F(JobMutant, LeavesOutTheGradientsOfTheLastStep) {
  change("job.last_gradients_missing");
  const auto findings = record().findings();
  EXPECT_THAT(findings, SizeIs(3 * 2)) << "each rank and parameter";
  for (const job::RecordFinding& finding : findings) {
    EXPECT_EQ(finding.step, 1);
    EXPECT_THAT(finding.tensor, testing::HasSubstr("/grad/"));
  }
}

TEST_F(JobMutant, ChangesActivationsAlone) {
  spec_.run.micro_batches = 2;
  job::RecordWriter writer(spec_, 1, "test", "1");
  for (int part = 0; part < 2; ++part)
    for (const job::Direction direction : job::kDirections)
      writer.add({0, direction, 0, part}, {}, {1, 3}, std::vector<float>(3, static_cast<float>(part + 1)));
  writer.write(folder_.path());
  const auto left = [&](job::Direction direction, int part) {
    return record().activations({0, direction, 0, part}).at(0).values;
  };
  change("job.first_micro_batch_again");
  EXPECT_EQ(left(job::Direction::forward, 1), std::vector<float>(3, 1));
  EXPECT_EQ(left(job::Direction::backward, 1), std::vector<float>(3, 2));
  change("job.activation_gradients_multiplied");
  EXPECT_EQ(left(job::Direction::forward, 0), std::vector<float>(3, 1));
  EXPECT_EQ(left(job::Direction::backward, 1), std::vector<float>(3, 4));
  EXPECT_EQ(weight(1, Moment::grad, 0), std::vector<float>(6, 0.5f));
}

TEST(JobMutants, LetOtherRanksMakeAStepThatOneSkips) {
  job::RunSpec spec;
  spec.injections = {{.step = 2, .rank = 1}};
  const auto left = [&](const std::string& name, int rank) {
    RecordedBytes bytes{name, {1}};
    skip_by_own_gradients(spec, rank, bytes);
    return bytes.values.front();
  };
  EXPECT_EQ(left("step2/skipped", 0), 0);
  EXPECT_EQ(left("step2/skipped", 1), 1);
  EXPECT_EQ(left("step1/skipped", 0), 1) << "overflowed by itself";
}

TEST_F(JobMutant, ChangesTheGradientsOfTheFirstStageAlone) {
  spec_.run.micro_batches = 2;
  with_tensors(scale_first_stage_again)(spec_, folder_.path());
  EXPECT_THAT(record().findings(), IsEmpty());
  EXPECT_THAT(weight(1, Moment::grad, 2), testing::Each(0.25f));
  EXPECT_THAT(weight(1, Moment::after, 2), testing::Each(0.5f));
}

TEST_F(JobMutant, ExchangesRanksWhereTheirOrderIsAnother) {
  exchange_ranks(spec_, folder_.path());
  EXPECT_THAT(record().findings(), IsEmpty()) << "the usual order";
  spec_.parallel.pipeline = 2;
  spec_.parallel.data = 1;
  spec_.parallel.order = {"tensor", "data", "pipeline"};
  exchange_ranks(spec_, folder_.path());
  spec_.parallel = {.data = 3};
  EXPECT_THAT(record().findings(), IsEmpty()) << "one axis has one order";
  std::filesystem::rename(job::record_file(folder_.path(), 2), job::record_file(folder_.path(), 3));
  std::filesystem::copy(job::record_file(folder_.path(), 1), job::record_file(folder_.path(), 2));
  spec_.parallel = {.pipeline = 2, .data = 2, .order = {"data", "pipeline", "tensor"}};
  exchange_ranks(spec_, folder_.path());
  const auto rank_in = [&](int file) {
    return job::SafetensorsReader(job::record_file(folder_.path(), file)).metadata().at("rank");
  };
  EXPECT_EQ(rank_in(1), "1") << "what lay in file 2";
  EXPECT_EQ(rank_in(3), "2") << "its place is the same in both orders";
}

TEST(JobMutants, OmitWhatLiesOnLaterChunks) {
  job::RunSpec spec;
  spec.layers = {job::Linear{2, 3}, job::Linear{3, 3}, job::Linear{3, 3}};
  spec.stages = {0, 1, 2};
  spec.parallel.pipeline = 2;
  const auto left = [&](const std::string& name) {
    RecordedTensor tensor{name, {3}, {1, 2, 3}};
    omit_later_chunks(spec, 0, tensor);
    return tensor.name;
  };
  for (const char* name : {"step0/grad/0.weight", "step1/after/1.bias", "step0/loss"}) EXPECT_EQ(left(name), name);
  EXPECT_EQ(left("step0/before/2.bias"), "");
}

TEST_F(JobMutant, KeepsBytesAndPassesOverAbsentRanks) {
  const auto file = job::record_file(folder_.path(), 0);
  job::SafetensorsWriter writer;
  const std::uint8_t skipped = 1;
  writer.add<std::uint8_t>("step0/skipped", {}, std::span(&skipped, 1));
  writer.metadata("rank", "0");
  writer.write(file);
  std::filesystem::remove(job::record_file(folder_.path(), 1));
  change("job.divided_by_two");
  const job::SafetensorsReader reader(file);
  EXPECT_THAT(reader.read<std::uint8_t>("step0/skipped"), ElementsAre(1));
  EXPECT_EQ(reader.metadata().at("rank"), "0");
  EXPECT_FALSE(std::filesystem::exists(job::record_file(folder_.path(), 1)));
}

}  // namespace
}  // namespace plumbline::mutants
