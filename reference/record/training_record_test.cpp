#include "reference/record/training_record.hpp"

#include <fstream>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reference/comm/errors.hpp"
#include "reference/support/temporary_folder.hpp"

namespace plumbline::job {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::vector<std::string> texts(const TrainingRecord& record) {
  std::vector<std::string> list;
  for (const RecordFinding& finding : record.findings())
    list.push_back("rank " + std::to_string(finding.rank) + " step " + std::to_string(finding.step) + " " +
                   finding.tensor + " " + finding.what);
  return list;
}

void add_tensor(const std::filesystem::path& file, const std::string& name, const Shape& shape,
                const std::vector<float>& values) {
  SafetensorsWriter writer;
  {
    const SafetensorsReader reader(file);
    for (const auto& [key, value] : reader.metadata()) writer.metadata(key, value);
    for (const auto& [known, info] : reader.tensors()) writer.add<float>(known, info.shape, reader.read<float>(known));
  }
  writer.add<float>(name, shape, values);
  writer.write(file);
}

class TrainingRecordTest : public testing::Test {
 protected:
  TrainingRecordTest() {
    spec.parallel.data = 2;
    spec.run.steps = 2;
    spec.run.global_batch = 2;
    spec.layers = {Linear{2, 3, false}};
  }
  const std::filesystem::path& path() const { return folder.path(); }
  // Values that tell rank, step and moment apart.
  static std::vector<float> values(int rank, int step, Moment moment, std::size_t count) {
    return std::vector<float>(count, static_cast<float>(100 * rank + 10 * step + static_cast<int>(moment)));
  }
  RecordWriter filled(int rank) const {
    RecordWriter writer(spec, rank, "test", "1");
    for (int step = 0; step < spec.run.steps; ++step) {
      for (const Moment moment : {Moment::before, Moment::grad, Moment::after})
        for (const Parameter& parameter : parameters_of(spec))
          writer.add(step, moment, parameter,
                     values(rank, step, moment, static_cast<std::size_t>(elements_of(parameter.shape))));
      writer.add_loss(step, static_cast<float>(rank) + 0.5f);
    }
    return writer;
  }

  TemporaryFolder folder;
  RunSpec spec;
};

TEST_F(TrainingRecordTest, GivesBackWhatTheRanksWrote) {
  for (int rank = 0; rank < 2; ++rank) filled(rank).write(path());
  const TrainingRecord record(spec, path());
  EXPECT_THAT(texts(record), IsEmpty());
  const auto copies = record.copies(1, Moment::after, parameters_of(spec)[0]);
  ASSERT_EQ(copies.size(), 2u);
  EXPECT_EQ(copies[1].rank, 1);
  EXPECT_EQ(copies[1].data, 1);
  EXPECT_EQ(copies[1].values, values(1, 1, Moment::after, 6));
  EXPECT_THAT(record.copies(0, Moment::local_grad, parameters_of(spec)[0]), IsEmpty());
  ASSERT_EQ(record.losses(1).size(), 2u);
  EXPECT_EQ(record.losses(1)[1].value, 1.5f);
}

TEST_F(TrainingRecordTest, HasOutputsOfLayersWhereTheyWereRecorded) {
  for (int rank = 0; rank < 2; ++rank) filled(rank).write(path());
  EXPECT_FALSE(TrainingRecord(spec, path()).has_activations());
  RecordWriter writer = filled(1);
  writer.add({1, Direction::backward, 0, 0}, {}, {1, 3}, std::vector<float>{1, 2, 3});
  writer.add({1, Direction::forward, 0, 0}, 1, {1, 2}, std::vector<float>{4, 5});
  writer.write(path());
  const TrainingRecord record(spec, path());
  EXPECT_THAT(texts(record), IsEmpty());
  EXPECT_TRUE(record.has_activations());
  const std::vector<Activation> gradients = record.activations({1, Direction::backward, 0, 0});
  ASSERT_EQ(gradients.size(), 1u);
  EXPECT_EQ(gradients[0].rank, 1);
  EXPECT_FALSE(gradients[0].dim);
  EXPECT_THAT(gradients[0].values, ElementsAre(1, 2, 3));
  const std::vector<Activation> outputs = record.activations({1, Direction::forward, 0, 0});
  ASSERT_EQ(outputs.size(), 1u);
  EXPECT_EQ(outputs[0].dim, 1);
  EXPECT_THAT(outputs[0].shape, ElementsAre(1, 2));
  EXPECT_THAT(record.activations({0, Direction::forward, 0, 0}), IsEmpty());
}

TEST_F(TrainingRecordTest, ReportsOutputsOfWhatIsNotThere) {
  for (int rank = 0; rank < 2; ++rank) filled(rank).write(path());
  RecordWriter writer = filled(0);
  const auto add = [&](const ActivationPlace& place) { writer.add(place, {}, {1, 3}, std::vector<float>(3)); };
  add({0, Direction::forward, 1, 0});
  add({0, Direction::backward, 0, 1});
  add({2, Direction::forward, 0, 0});
  writer.write(path());
  EXPECT_THAT(texts(TrainingRecord(spec, path())),
              testing::UnorderedElementsAre(
                  "rank 0 step 0 step0/activation/1/0 is of no layer of the run, 0 to 0",
                  "rank 0 step 0 step0/activation_grad/0/1 is of no micro-batch of a rank's step, 0 to 0",
                  "rank 0 step -1 step2/activation/0/0 is of no step of the run, 0 to 1"));
}

// Names that nobody looks up: garbage in them would be compared with nothing.
TEST_F(TrainingRecordTest, ReportsNamesThatNoPlaceHas) {
  const std::vector<float> values(6);
  for (const char* name :
       {"step0/activation/00/0", "step0/activation/0/0@-1", "step0/activation/0/0@8", "step0/activation/0/0@x",
        "step0/activation/0/0@", "step00/activation/0/0", "step00/local_grad/0.weight", "step0/local_grad/0.weight@-1",
        "step0/local_grad/0.weight@1"}) {
    for (int rank = 0; rank < 2; ++rank) filled(rank).write(path());
    add_tensor(record_file(path(), 1), name, {3, 2}, values);
    EXPECT_THAT(texts(TrainingRecord(spec, path())), ElementsAre(HasSubstr(name))) << name;
  }
}

TEST_F(TrainingRecordTest, ReportsASecondFormOfAnOutput) {
  for (int rank = 0; rank < 2; ++rank) filled(rank).write(path());
  RecordWriter writer = filled(1);
  writer.add({0, Direction::forward, 0, 0}, {}, {1, 3}, std::vector<float>(3));
  writer.add({0, Direction::forward, 0, 0}, 1, {1, 3}, std::vector<float>(3));
  writer.write(path());
  EXPECT_THAT(texts(TrainingRecord(spec, path())),
              ElementsAre("rank 1 step 0 step0/activation/0/0@1 is recorded as 'step0/activation/0/0', too; it must "
                          "have one form"));
}

TEST_F(TrainingRecordTest, ReportsAMissingRankAndOneTooMany) {
  filled(0).write(path());
  std::filesystem::copy_file(record_file(path(), 0), record_file(path(), 2));
  const TrainingRecord record(spec, path());
  EXPECT_THAT(texts(record),
              ElementsAre(HasSubstr("rank 2 step -1  'rank2.safetensors' exists, but the world has 2 ranks"),
                          HasSubstr("rank1.safetensors': no such file")));
  EXPECT_EQ(record.copies(0, Moment::before, parameters_of(spec)[0]).size(), 1u);
}

TEST_F(TrainingRecordTest, ReportsEveryMissingTensorAndStrangers) {
  filled(0).write(path());
  RecordWriter writer(spec, 1, "test", "1");
  const Parameter weight = parameters_of(spec)[0];
  for (const Moment moment : {Moment::before, Moment::grad, Moment::after, Moment::local_grad, Moment::updated})
    writer.add(0, moment, weight, values(1, 0, moment, 6));
  writer.add_loss(0, 1);
  writer.add(1, Moment::before, {"0.bias", 0, {3}}, std::vector<float>(3));
  writer.add(2, Moment::before, weight, std::vector<float>(6));
  writer.write(path());
  EXPECT_THAT(texts(TrainingRecord(spec, path())),
              testing::UnorderedElementsAre(
                  "rank 1 step 1 step1/before/0.weight is missing", "rank 1 step 1 step1/grad/0.weight is missing",
                  "rank 1 step 1 step1/after/0.weight is missing", "rank 1 step 1 step1/loss is missing",
                  "rank 1 step 1 step1/before/0.bias is nothing that a record has",
                  "rank 1 step 0 step0/updated/0.weight is nothing that a record has",
                  "rank 1 step -1 step2/before/0.weight is of no step of the run, 0 to 1"));
}

TEST_F(TrainingRecordTest, HasNoGradientsOfFrozenParameters) {
  spec.layers = {Linear{2, 3}};
  for (int rank = 0; rank < 2; ++rank) filled(rank).write(path());
  EXPECT_THAT(texts(TrainingRecord(spec, path())), IsEmpty());
  spec.frozen = {"0.bias"};
  EXPECT_THAT(texts(TrainingRecord(spec, path())),
              ElementsAre("rank 0 step 0 step0/grad/0.bias is of a parameter that is frozen",
                          "rank 0 step 1 step1/grad/0.bias is of a parameter that is frozen",
                          "rank 1 step 0 step0/grad/0.bias is of a parameter that is frozen",
                          "rank 1 step 1 step1/grad/0.bias is of a parameter that is frozen"));
  EXPECT_TRUE(has_moment(spec, Moment::after, parameters_of(spec)[1]));
  EXPECT_FALSE(has_moment(spec, Moment::local_grad, parameters_of(spec)[1]));
  EXPECT_TRUE(has_moment(spec, Moment::grad, parameters_of(spec)[0]));
}

TEST_F(TrainingRecordTest, HasExpertsOfTheRanksThatHoldThem) {
  spec.layers = {Moe{.features = 2, .hidden = 2, .experts = 2}};
  for (int rank = 0; rank < 2; ++rank) filled(rank).write(path());
  EXPECT_THAT(texts(TrainingRecord(spec, path())), IsEmpty());
  spec.parallel.expert = 2;
  spec.run.steps = 1;
  const TrainingRecord record(spec, path());
  EXPECT_THAT(texts(record),
              testing::IsSupersetOf({"rank 0 step 0 step0/grad/0.up.1 is of an expert that expert rank 0 "
                                     "does not hold",
                                     "rank 1 step 0 step0/after/0.down.0 is of an expert that expert "
                                     "rank 1 does not hold"}));
  for (const Parameter& parameter : parameters_of(spec)) {
    const std::vector<Copy> copies = record.copies(0, Moment::before, parameter);
    EXPECT_EQ(copies.size(), parameter.expert < 0 ? 2 : 1) << parameter.name;
    EXPECT_EQ(copies.back().rank, parameter.expert == 0 ? 0 : 1) << parameter.name;
  }
}

TEST_F(TrainingRecordTest, ReportsAnotherShapeAndAnotherPlace) {
  filled(0).write(path());
  RunSpec other = spec;
  other.layers = {Linear{3, 2, false}};
  RecordWriter writer(other, 0, "test", "1");  // says rank 0 in rank 1's file
  const Parameter weight = parameters_of(other)[0];
  for (int step = 0; step < 2; ++step) {
    for (const Moment moment : {Moment::before, Moment::grad, Moment::after})
      writer.add(step, moment, weight, std::vector<float>(6));
    writer.add_loss(step, 1);
  }
  const TemporaryFolder aside;
  writer.write(aside.path());
  std::filesystem::copy_file(record_file(aside.path(), 0), record_file(path(), 1));
  const TrainingRecord record(spec, path());
  EXPECT_THAT(texts(record),
              testing::Contains("rank 1 step 1 step1/grad/0.weight is F32 [2, 3]; it must be F32 [3, 2]"));
  EXPECT_THAT(texts(record), testing::Contains("rank 1 step -1 rank is '0' in the metadata; it must be '1'"));
  EXPECT_THAT(texts(record), testing::Contains("rank 1 step -1 data is '0' in the metadata; it must be '1'"));
  EXPECT_EQ(record.copies(1, Moment::grad, weight).size(), 1u);
}

TEST_F(TrainingRecordTest, ReportsNonsenseInPlaceOfAFile) {
  filled(0).write(path());
  std::ofstream(record_file(path(), 1)) << "this is no safetensors file";
  EXPECT_THAT(texts(TrainingRecord(spec, path())), ElementsAre(HasSubstr("rank1.safetensors': its header claims")));
}

TEST_F(TrainingRecordTest, WantsScaleAndSkippedOfARunWithAScaler) {
  spec.parallel.data = 1;
  spec.run.steps = 1;
  spec.scaler.emplace();
  filled(0).write(path());
  EXPECT_THAT(texts(TrainingRecord(spec, path())),
              ElementsAre("rank 0 step 0 step0/scale is missing", "rank 0 step 0 step0/skipped is missing"));
  RecordWriter writer = filled(0);
  writer.add_scale(0, 1024);
  writer.add_skipped(0, true);
  writer.write(path());
  const TrainingRecord record(spec, path());
  EXPECT_THAT(texts(record), IsEmpty());
  EXPECT_EQ(record.scales(0)[0].value, 1024);
  EXPECT_EQ(record.skipped(0)[0].value, 1);
}

TEST_F(TrainingRecordTest, WantsWhatIsBetweenOptimizerAndAverage) {
  spec.parallel.data = 1;
  spec.run.steps = 1;
  spec.averaging.emplace();
  filled(0).write(path());
  EXPECT_THAT(texts(TrainingRecord(spec, path())), ElementsAre("rank 0 step 0 step0/updated/0.weight is missing"));
  spec.averaging->algorithm = "sgp";
  EXPECT_THAT(texts(TrainingRecord(spec, path())),
              ElementsAre("rank 0 step 0 step0/weight is missing", "rank 0 step 0 step0/updated/0.weight is missing",
                          "rank 0 step 0 step0/seen/0.weight is missing"));
  RecordWriter writer = filled(0);
  for (const Moment moment : {Moment::updated, Moment::seen})
    writer.add(0, moment, parameters_of(spec)[0], values(0, 0, moment, 6));
  writer.add_weight(0, 0.75f);
  writer.write(path());
  const TrainingRecord record(spec, path());
  EXPECT_THAT(texts(record), IsEmpty());
  EXPECT_EQ(record.weights(0)[0].value, 0.75f);
  EXPECT_EQ(record.copies(0, Moment::seen, parameters_of(spec)[0])[0].values, values(0, 0, Moment::seen, 6));
}

TEST_F(TrainingRecordTest, ReportsATypeThatNobodyReadsAndKeepsTheRestOfTheFile) {
  spec.parallel.data = 1;
  spec.run.steps = 1;
  spec.scaler.emplace();
  RecordWriter writer = filled(0);
  writer.add_scale(0, 1024);
  writer.add_skipped(0, true);
  writer.write(path());
  std::stringstream bytes;
  bytes << std::ifstream(record_file(path(), 0), std::ios::binary).rdbuf();
  std::string text = bytes.str();
  text.replace(text.find("\"U8\""), 4, "\"I8\"");
  std::ofstream(record_file(path(), 0), std::ios::binary) << text;
  const TrainingRecord record(spec, path());
  EXPECT_THAT(texts(record), ElementsAre("rank 0 step 0 step0/skipped is I8 []; it must be U8 []"));
  EXPECT_THAT(record.skipped(0), IsEmpty());
  EXPECT_EQ(record.losses(0).size(), 1u);
  EXPECT_EQ(record.copies(0, Moment::grad, parameters_of(spec)[0]).size(), 1u);
}

// A tensor group of three that holds a [3, 5] weight in parts of 2, 1 and 2 columns.
class ShardedRecordTest : public testing::Test {
 protected:
  ShardedRecordTest() {
    spec.parallel.tensor = 3;
    spec.layers = {Linear{5, 3, false}};
  }
  void write(int rank, std::int64_t columns, float first) const {
    SafetensorsWriter writer;
    const Coordinates at = coordinates_of(spec.parallel, rank);
    for (const auto& [key, value] : {std::pair{"protocol", 1},
                                     {"rank", rank},
                                     {"pipeline", at.pipeline},
                                     {"data", at.data},
                                     {"tensor", at.tensor},
                                     {"steps", 1}})
      writer.metadata(key, std::to_string(value));
    writer.metadata("framework", "test");
    writer.metadata("version", "1");
    std::vector<float> part;
    for (int row = 0; row < 3; ++row)
      for (std::int64_t column = 0; column < columns; ++column)
        part.push_back(static_cast<float>(10 * row) + first + static_cast<float>(column));
    for (const char* moment : {"before", "grad", "after"})
      writer.add<float>(std::string("step0/") + moment + "/0.weight@1", {3, columns}, part);
    const float loss = 1;
    writer.add<float>("step0/loss", {}, std::span(&loss, 1));
    writer.write(record_file(folder.path(), rank));
  }
  TemporaryFolder folder;
  RunSpec spec;
};

TEST_F(ShardedRecordTest, JoinsUnevenPartsInTensorRankOrder) {
  write(0, 2, 0);
  write(1, 1, 2);
  write(2, 2, 3);
  const TrainingRecord record(spec, folder.path());
  EXPECT_THAT(texts(record), IsEmpty());
  const auto copies = record.copies(0, Moment::grad, parameters_of(spec)[0]);
  ASSERT_EQ(copies.size(), 1u);
  EXPECT_THAT(copies[0].values, ElementsAre(0, 1, 2, 3, 4, 10, 11, 12, 13, 14, 20, 21, 22, 23, 24));
}

TEST_F(ShardedRecordTest, ReportsPartsThatDoNotMakeTheWhole) {
  for (int rank = 0; rank < 3; ++rank) write(rank, 2, 0);
  const TrainingRecord record(spec, folder.path());
  EXPECT_THAT(texts(record),
              testing::Contains("rank 0 step 0 step0/grad/0.weight@1 has parts that make 6 of dimension 1; "
                                "the whole is [3, 5]"));
  EXPECT_THAT(record.copies(0, Moment::grad, parameters_of(spec)[0]), IsEmpty());
}

TEST_F(TrainingRecordTest, HasTheStepsOfItsPartOfARun) {
  spec.run.steps = 3;
  spec.checkpoint = CheckpointedSteps{.begin = 1, .end = 2};
  for (int rank = 0; rank < 2; ++rank) filled(rank).write(path());
  EXPECT_THAT(texts(TrainingRecord(spec, path())),
              testing::Contains("rank 0 step -1 step0/loss is of no step of the run, 1 to 1"));
  spec.checkpoint = CheckpointedSteps{.begin = 0, .end = 3};
  EXPECT_THAT(texts(TrainingRecord(spec, path())), IsEmpty());
}

class ShardsInARecord : public TrainingRecordTest {
 protected:
  ShardsInARecord() {
    spec.parallel = {.data = 4, .shard = 2};
    spec.run = {.steps = 1, .global_batch = 4};
  }
  // Of a replica's two ranks, as a parameter of this name and each with this shape.
  void write(const std::string& name, const std::vector<Shape>& shapes) {
    for (int rank = 0; rank < 4; ++rank) {
      const Shape& shape = shapes[static_cast<std::size_t>(rank % 2)];
      RecordWriter writer(spec, rank, "test", "1");
      for (const Moment moment : {Moment::before, Moment::grad, Moment::after})
        writer.add(0, moment, {.name = name, .layer = 0, .shape = shape},
                   values(rank, 0, moment, static_cast<std::size_t>(elements_of(shape))));
      writer.add(0, Moment::local_grad, parameters_of(spec)[0], values(rank, 0, Moment::local_grad, 6));
      writer.add_loss(0, 0.5f);
      writer.write(path());
    }
  }
};

TEST_F(ShardsInARecord, AreJoinedInEachReplica) {
  for (const auto& [name, shapes] : {std::pair<std::string, std::vector<Shape>>{"0.weight@flat", {{4}, {2}}},
                                     {"0.weight@0", {{2, 2}, {1, 2}}},
                                     {"0.weight@flat", {{6}, {0}}}}) {
    write(name, shapes);
    const TrainingRecord record(spec, path());
    EXPECT_THAT(texts(record), IsEmpty()) << name;
    const auto copies = record.copies(0, Moment::before, parameters_of(spec)[0]);
    ASSERT_EQ(copies.size(), 2u);
    EXPECT_THAT(copies[1].ranks, ElementsAre(2, 3));
    const float last = shapes[1].front() == 0 ? 200.0f : 300.0f;
    EXPECT_EQ(copies[1].values, (std::vector<float>{200, 200, 200, 200, last, last}));
    const auto local = record.copies(0, Moment::local_grad, parameters_of(spec)[0]);
    ASSERT_EQ(local.size(), 4u);
    EXPECT_EQ(local[3].data, 3);
  }
}

TEST_F(ShardsInARecord, HaveEachElementOnce) {
  write("0.weight@flat", {{3}, {2}});
  EXPECT_THAT(texts(TrainingRecord(spec, path())),
              testing::Contains("rank 0 step 0 step0/before/0.weight@flat has parts that make 5 of the elements; the "
                                "whole is [3, 2]"));
  write("0.weight@flat", {{7}, {2}});
  EXPECT_THAT(texts(TrainingRecord(spec, path())),
              testing::Contains(HasSubstr("is F32 [7]; it must be F32 a part of the elements of [3, 2]")));
}

TEST_F(ShardsInARecord, AreFlatOfDataRanksAlone) {
  spec.parallel.shard = 1;
  write("0.weight@flat", {{6}, {6}});
  EXPECT_THAT(texts(TrainingRecord(spec, path())),
              testing::Contains(HasSubstr("step0/before/0.weight@flat is in another form than the parameter's")));
}

}  // namespace
}  // namespace plumbline::job
