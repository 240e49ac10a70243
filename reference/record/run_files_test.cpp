#include "reference/record/run_files.hpp"

#include <limits>
#include <numeric>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reference/comm/errors.hpp"
#include "reference/support/temporary_folder.hpp"

namespace plumbline::job {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Two batches of four rows for linear(3, 2).
class RunFilesTest : public testing::Test {
 protected:
  RunFilesTest() {
    spec.layers = {Linear{3, 2}};
    spec.run = {.steps = 2, .global_batch = 4};
    spec.folder = folder.path();
    x.resize(24);
    std::iota(x.begin(), x.end(), 0.0f);
  }
  void write(const Shape& weight = {2, 3}, const Shape& x_shape = {2, 4, 3}) {
    SafetensorsWriter weights;
    weights.add<float>("0.weight", weight, std::vector<float>(static_cast<std::size_t>(elements_of(weight)), 0.5f));
    if (with_bias) weights.add<float>("0.bias", {2}, std::vector<float>(2));
    if (with_extra) weights.add<float>("1.bias", {2}, std::vector<float>(2));
    weights.write(spec.weights_file());
    SafetensorsWriter batches;
    batches.add<float>("x", x_shape, x);
    batches.add<std::int64_t>("y", y_shape, y);
    if (!w.empty()) batches.add<float>("w", {2, static_cast<std::int64_t>(w.size()) / 2}, w);
    batches.write(spec.batches_file());
  }
  std::string error() {
    try {
      RunFiles files(spec);
    } catch (const InvalidArgument& error) {
      return error.what();
    }
    return "no error";
  }

  TemporaryFolder folder;
  RunSpec spec;
  std::vector<float> x;
  std::vector<std::int64_t> y{0, 1, 1, 0, 1, 1, 0, 0};
  std::vector<float> w;
  Shape y_shape{2, 4};
  bool with_bias = true;
  bool with_extra = false;
};

TEST_F(RunFilesTest, ReadsTheRowsOfABatch) {
  write();
  const RunFiles files(spec);
  std::vector<float> rows(6);
  files.read_x(RowRange{1, 2, 2}, std::span(rows));
  EXPECT_THAT(rows, ElementsAre(18, 19, 20, 21, 22, 23));
  std::vector<std::int64_t> labels(2);
  files.read_y(RowRange{1, 0, 2}, std::span(labels));
  EXPECT_THAT(labels, ElementsAre(1, 1));
  EXPECT_THAT(files.row(), ElementsAre(3));
  EXPECT_THAT(files.output(), ElementsAre(2));
  EXPECT_THAT(files.weight("0.weight"), testing::Each(0.5f));
}

TEST_F(RunFilesTest, RefusesWeightsOfAnotherModel) {
  write({3, 2});
  EXPECT_THAT(error(), HasSubstr("weights.safetensors': tensor '0.weight' is F32 [3, 2]; it must be F32 [2, 3]"));
  with_bias = false;
  write();
  EXPECT_THAT(error(), HasSubstr("tensor '0.bias' is missing"));
  with_bias = with_extra = true;
  write();
  EXPECT_THAT(error(), HasSubstr("tensor '1.bias' is no parameter of the model"));
}

TEST_F(RunFilesTest, RefusesBatchesOfAnotherRun) {
  write({2, 3}, {4, 2, 3});
  EXPECT_THAT(error(), HasSubstr("batches.safetensors': tensor 'x' is F32 [4, 2, 3]; it must be F32 [2, 4, 3]"));
  write({2, 3}, {2, 4, 3, 1});
  EXPECT_THAT(error(), HasSubstr("model.layer[0] (linear) does not fit: a row that reaches it has shape [3, 1]"));
  write({2, 3}, {24});
  EXPECT_THAT(error(), HasSubstr("tensor 'x' is F32 [24]; it must be F32 [2, 4]"));
  y[5] = 2;
  write();
  EXPECT_THAT(error(), HasSubstr("tensor 'y' has 2; it must be a class, 0 to 1"));
  spec.loss = Loss::mse;
  EXPECT_THAT(error(), HasSubstr("tensor 'y' is I64 [2, 4]; it must be F32 [2, 4, 2]"));
}

TEST_F(RunFilesTest, HasALabelForEachToken) {
  write({2, 3}, {2, 4, 1, 3});
  EXPECT_THAT(error(), HasSubstr("tensor 'y' is I64 [2, 4]; it must be I64 [2, 4, 1]"));
  y_shape = {2, 4, 1};
  write({2, 3}, {2, 4, 1, 3});
  const RunFiles files(spec);
  EXPECT_THAT(files.output(), ElementsAre(1, 2));
  EXPECT_THAT(files.target(), ElementsAre(1));
  std::vector<std::int64_t> labels(2);
  files.read_y(RowRange{1, 0, 2}, std::span(labels));
  EXPECT_THAT(labels, ElementsAre(1, 1));
  y[7] = -1;
  write({2, 3}, {2, 4, 1, 3});
  EXPECT_THAT(error(), HasSubstr("tensor 'y' has -1; it must be a class, 0 to 1"));
  write({2, 3}, {2, 4, 1, 1, 3});
  EXPECT_THAT(error(),
              HasSubstr("the model makes [1, 1, 2] of a row; cross_entropy needs one number a class, of the row "
                        "or of each of its tokens"));
}

TEST_F(RunFilesTest, HasTheWeightsOfRows) {
  write();
  const std::vector<RowRange> some{{0, 1, 2}, {1, 2, 2}};
  EXPECT_THAT(RunFiles(spec).row_weights(some[0]), testing::IsEmpty());
  EXPECT_EQ(RunFiles(spec).weight_of(some), 4);
  spec.row_weights = true;
  w = {1, 0.5, 0, 2, 0, 0, 1, 0.25};
  write();
  EXPECT_THAT(RunFiles(spec).row_weights(some[0]), ElementsAre(0.5f, 0));
  EXPECT_EQ(RunFiles(spec).weight_of(some), 0.5 + 0 + 1 + 0.25);
}

TEST_F(RunFilesTest, RefusesWeightsOfRowsThatMakeNoMean) {
  spec.row_weights = true;
  write();
  EXPECT_THAT(error(), HasSubstr("tensor 'w' is missing"));
  w = {1, 1, 1, 1, 1, 1};
  write();
  EXPECT_THAT(error(), HasSubstr("tensor 'w' is F32 [2, 3]; it must be F32 [2, 4]"));
  w = {1, 1, 1, 1, 1, -0.5f, 1, 1};
  write();
  EXPECT_THAT(error(), HasSubstr("tensor 'w' has -0.5; it must be a finite number, at least 0"));
  w = {1, 1, 1, 1, 1, std::numeric_limits<float>::quiet_NaN(), 1, 1};
  write();
  EXPECT_THAT(error(), HasSubstr("tensor 'w' has nan; it must be a finite number"));
  spec.parallel.data = 2;
  w = {1, 1, 1, 1, 1, 1, 0, 0};
  write();
  EXPECT_THAT(error(), HasSubstr("tensor 'w' is 0 for all rows of data rank 1 in step 1; it must be above 0 for one"));
}

TEST_F(RunFilesTest, SaysWhichFileIsNotThere) { EXPECT_THROW(RunFiles files(spec), NotFound); }

}  // namespace
}  // namespace plumbline::job
