// What a checkpoint of a run has to be.
#include "reference/training/detail/run_checkpoint.hpp"

#include <ATen/ops/tensor.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reference/comm/errors.hpp"
#include "reference/support/temporary_folder.hpp"
#include "reference/training/checkpoint.hpp"

namespace plumbline::training {
namespace {

using testing::HasSubstr;

class RunCheckpoint : public testing::Test {
 protected:
  RunCheckpoint() {
    spec_.run.steps = 2;
    spec_.run.global_batch = 1;
    spec_.layers = {job::Linear{.in = 2, .out = 2, .bias = false}};
    spec_.checkpoint = job::CheckpointedSteps{.folder = folder_.path().string(), .begin = 0, .end = 1};
  }
  [[nodiscard]] SavedRun run(const at::Tensor& value, const Shard& shard = {}) const {
    SavedRun saved;
    saved.parts.push_back({.whole = job::parameters_of(spec_).front(), .shard = shard, .value = value});
    return saved;
  }
  // What the second part of the run says of the first one's file, after a change of that.
  template <class Change>
  std::string loaded_after(const Change& change) {
    save_run(spec_, 0, run(at::tensor({1.0f, 2.0f, 3.0f, 4.0f}).view({2, 2})));
    Checkpoint checkpoint = read_checkpoint(checkpoint_file(folder_.path(), 1, 0), configuration_of(spec_), 0, 1);
    change(checkpoint);
    (void)write_checkpoint(checkpoint, folder_.path());
    job::RunSpec second = spec_;
    second.checkpoint->begin = 1;
    second.checkpoint->end = 2;
    SavedRun found = run({}, {.dim = 1, .part = {.begin = 1, .size = 1}});
    try {
      load_run(second, found);
    } catch (const InvalidArgument& error) {
      return error.what();
    }
    const at::Tensor value = found.parts.front().value;
    return value.equal(at::tensor({2.0f, 4.0f}).view({2, 1})) ? "the second column" : "other values";
  }

  job::TemporaryFolder folder_;
  job::RunSpec spec_;
};

TEST_F(RunCheckpoint, GivesOtherPartsThanItWasSavedIn) {
  EXPECT_EQ(loaded_after([](Checkpoint&) {}), "the second column");
}

TEST_F(RunCheckpoint, HasTensorsInFloat32OfTheShapesOfTheirParts) {
  EXPECT_THAT(loaded_after([](Checkpoint& one) {
                StoredTensor& tensor = one.tensors.at("parameter/0.weight");
                tensor = {.dtype = comm::DType::f64, .shape = {2, 2}, .bytes = std::vector<std::byte>(32)};
              }),
              HasSubstr("the checkpoint's 'parameter/0.weight' is f64 [2, 2]; it must be f32 [2, 2]"));
  EXPECT_THAT(loaded_after([](Checkpoint& one) {
                StoredTensor& tensor = one.tensors.at("parameter/0.weight");
                tensor = {.dtype = comm::DType::f32, .shape = {1}, .bytes = std::vector<std::byte>(4)};
              }),
              HasSubstr("is f32 [1]; it must be f32 [2, 2]"));
}

TEST_F(RunCheckpoint, HasPartsThatLieInTheirParameters) {
  const std::pair<const char*, const char*> wrong[] = {{"0.weight.dim", "2"}, {"0.weight.dim", "0"}};
  for (const auto& [name, value] : wrong)
    EXPECT_THAT(loaded_after([&](Checkpoint& one) {
                  one.states[name] = value;
                  one.states["0.weight.begin"] = "1";
                  one.states["0.weight.size"] = "2";
                }),
                HasSubstr("the checkpoint has elements 1 and 2 more of dimension"))
        << value;
}

}  // namespace
}  // namespace plumbline::training
