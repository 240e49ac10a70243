// Checkpoints as files.
#include "reference/training/checkpoint.hpp"

#include <cstring>
#include <fstream>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reference/comm/errors.hpp"
#include "reference/record/safetensors.hpp"
#include "reference/support/temporary_folder.hpp"

namespace plumbline::training {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

StoredTensor floats(std::initializer_list<float> values) {
  StoredTensor tensor{.dtype = comm::DType::f32, .shape = {static_cast<std::int64_t>(values.size())}, .bytes = {}};
  tensor.bytes.resize(4 * values.size());
  std::memcpy(tensor.bytes.data(), values.begin(), tensor.bytes.size());
  return tensor;
}

Configuration configuration(int chunks = 1) {
  return {{"NUM_EPOCHS", "60"}, {"NUM_CHUNKS", fmt::format("{}", chunks)}};
}

Checkpoint checkpoint() {
  return {.configuration = configuration(),
          .at = {.epoch = 3, .batch = 5, .step = 41},
          .seed = 0xffff'ffff'ffff'fffe,
          .states = {{"shuffle", "1 2\n3"}},
          .tensors = {{"parameter/0.weight", floats({1.5f, -0.0f, 3e-45f})},
                      {"buffer/1.count", {.dtype = comm::DType::i64, .shape = {}, .bytes = std::vector<std::byte>(8)}},
                      {"moment1/0.weight", {.dtype = comm::DType::bf16, .shape = {0, 2}, .bytes = {}}}},
          .rank = 1,
          .ranks = 2};
}

class CheckpointTest : public testing::Test {
 protected:
  std::string error_of(const std::filesystem::path& file, const Configuration& run = configuration(), int rank = 1,
                       int ranks = 2) const {
    try {
      (void)read_checkpoint(file, run, rank, ranks);
    } catch (const Error& error) {
      return std::string(error.kind()) + ": " + error.what();
    }
    return "no error";
  }
  job::TemporaryFolder folder;
};

TEST_F(CheckpointTest, ComesBackAsItWas) {
  const Checkpoint written = checkpoint();
  const std::filesystem::path file = write_checkpoint(written, folder.path() / "run");
  EXPECT_EQ(file, folder.path() / "run" / "step-41" / "rank1.safetensors");
  EXPECT_EQ(file, checkpoint_file(folder.path() / "run", 41, 1));
  const Checkpoint read = read_checkpoint(file, written.configuration, 1, 2);
  EXPECT_EQ(read.configuration, written.configuration);
  EXPECT_EQ(read.at, written.at);
  EXPECT_EQ(read.seed, written.seed);
  EXPECT_EQ(read.states, written.states);
  EXPECT_EQ(read.tensors, written.tensors);
}

TEST_F(CheckpointTest, OfAnotherRunIsRefusedWithTheFirstDifference) {
  const std::filesystem::path file = write_checkpoint(checkpoint(), folder.path());
  EXPECT_EQ(error_of(file), "no error");
  EXPECT_EQ(error_of(file, configuration(2)),
            "invalid_argument: '" + file.string() + "': it is of another run: NUM_CHUNKS is 1 there and 2 here");
  EXPECT_EQ(error_of(file, configuration(), 0),
            "invalid_argument: '" + file.string() + "': it is of rank 1 of 2; rank 0 of 2 reads it");
  EXPECT_THAT(error_of(file, configuration(), 1, 4), HasSubstr("it is of rank 1 of 2; rank 1 of 4 reads it"));
}

TEST(Configurations, DifferInTheFirstFieldThatDiffers) {
  const Configuration a{{"model", "resnet50"}, {"lr", "1"}};
  EXPECT_EQ(first_difference(a, a), std::nullopt);
  EXPECT_EQ(first_difference(a, {{"model", "mlp"}, {"lr", "2"}}), "model is resnet50 there and mlp here");
  EXPECT_EQ(first_difference(a, {{"model", "resnet50"}}), "lr is 1 there and unknown here");
  EXPECT_EQ(first_difference({{"model", "resnet50"}}, a), "lr is unknown there and 1 here");
  EXPECT_EQ(first_difference(a, {{"model", "resnet50"}, {"rate", "1"}}), "field 1 is lr there and rate here");
  EXPECT_EQ(hash_of(a), hash_of(a));
  EXPECT_NE(hash_of(a), hash_of({{"model", "resnet50"}, {"lr", "2"}}));
  EXPECT_EQ(hash_of({}), "cbf29ce484222325") << "FNV-1a of nothing";
}

TEST_F(CheckpointTest, ThatIsDamagedOrNoneIsRefused) {
  const std::filesystem::path file = write_checkpoint(checkpoint(), folder.path());
  std::ifstream stream(file, std::ios::binary);
  std::string bytes((std::istreambuf_iterator<char>(stream)), {});
  const auto rewritten = [&](std::string from, const std::string& to) {
    std::string changed = bytes;
    EXPECT_NE(changed.find(from), std::string::npos);
    changed.replace(changed.find(from), from.size(), to);
    std::ofstream(file, std::ios::binary) << changed;
    return error_of(file);
  };
  EXPECT_THAT(rewritten("NUM_EPOCHS = 60", "NUM_EPOCHS = 61"), HasSubstr(": it is damaged"));
  EXPECT_THAT(rewritten("\"step\":\"41\"", "\"step\":\"4x\""),
              HasSubstr("its 'step' is '4x'; it must be a whole number"));
  EXPECT_THAT(rewritten("\"plumbline.checkpoint\":\"1\"", "\"plumbline.checkpoint\":\"2\""),
              HasSubstr("it is a checkpoint of version 2; 1 is known here"));
  EXPECT_THAT(rewritten("\"plumbline.checkpoint\"", "\"plumbline.checkpoin_\""), HasSubstr("so it is no checkpoint"));
  std::ofstream(file, std::ios::binary) << bytes.substr(0, bytes.size() - 1);
  EXPECT_THAT(error_of(file), HasSubstr("invalid_argument: '" + file.string()));
  EXPECT_THAT(error_of(folder.path() / "none"), HasSubstr("not_found"));
}

TEST_F(CheckpointTest, RefusesWhatItCouldNotReadAgain) {
  const auto refused = [&](const auto& change) {
    Checkpoint bad = checkpoint();
    change(bad);
    EXPECT_THROW((void)write_checkpoint(bad, folder.path() / "x"), InvalidArgument);
  };
  refused([](Checkpoint& c) { c.configuration.emplace_back("a", "b\nc"); });
  refused([](Checkpoint& c) { c.configuration.emplace_back("a = b", "c"); });
  refused([](Checkpoint& c) { c.tensors["parameter/0.weight"].shape = {4}; });
  EXPECT_FALSE(std::filesystem::exists(folder.path() / "x"));
  std::ofstream(folder.path() / "file") << "a file";
  EXPECT_THROW((void)write_checkpoint(checkpoint(), folder.path() / "file"), RuntimeFailure);
}

TEST_F(CheckpointTest, IsCompleteWhenAllRanksFilesAreThere) {
  const auto write = [&](std::int64_t step, int rank) {
    Checkpoint one = checkpoint();
    one.at.step = step;
    one.rank = rank;
    write_checkpoint(one, folder.path());
  };
  EXPECT_TRUE(checkpoint_steps(folder.path() / "none", 2).empty());
  for (const std::int64_t step : {9, 10, 100}) {
    write(step, 0);
    write(step, 1);
  }
  write(8, 1);
  write(200, 0);  // rank 1 did not get so far
  std::filesystem::create_directories(folder.path() / "step-x");
  EXPECT_THAT(checkpoint_steps(folder.path(), 2), ElementsAre(9, 10, 100));
  prune_checkpoints(folder.path(), 2, 2);
  EXPECT_THAT(checkpoint_steps(folder.path(), 2), ElementsAre(10, 100));
  EXPECT_FALSE(std::filesystem::exists(folder.path() / "step-8"));
  EXPECT_TRUE(std::filesystem::exists(folder.path() / "step-200")) << "it may be being written";
  prune_checkpoints(folder.path(), 2, 5);
  EXPECT_THAT(checkpoint_steps(folder.path(), 2), ElementsAre(10, 100));
  EXPECT_THROW(prune_checkpoints(folder.path(), 2, 0), InvalidArgument);
}

}  // namespace
}  // namespace plumbline::training
