#include "reference/record/safetensors.hpp"

#include <cstring>
#include <fstream>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reference/comm/errors.hpp"
#include "reference/support/temporary_folder.hpp"

namespace plumbline::job {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class Safetensors : public testing::Test {
 protected:
  std::filesystem::path file() const { return folder_.path() / "x.safetensors"; }
  // A file of that header and data, the length put before it.
  void write(const std::string& header, const std::string& data) const {
    std::string bytes(8, '\0');
    const std::uint64_t length = header.size();
    std::memcpy(bytes.data(), &length, 8);
    write_bytes(bytes + header + data);
  }
  void write_bytes(const std::string& bytes) const {
    std::filesystem::remove(file());  // writing over a file waits for the disk
    std::ofstream(file(), std::ios::binary | std::ios::trunc) << bytes;
  }
  std::string error() const {
    try {
      const SafetensorsReader reader(file());
    } catch (const InvalidArgument& error) {
      return error.what();
    }
    return "no error";
  }
  std::string read_bytes() const {
    std::ifstream stream(file(), std::ios::binary);
    return {std::istreambuf_iterator<char>(stream), {}};
  }

 private:
  TemporaryFolder folder_;
};

TEST_F(Safetensors, GivesBackWhatWasWritten) {
  SafetensorsWriter writer;
  writer.add<std::uint8_t>("bytes", {3}, std::vector<std::uint8_t>{1, 2, 255});
  writer.add<float>("matrix", {2, 2}, std::vector<float>{1.5f, -0.0f, 3, 4});
  writer.add<double>("scalar", {}, std::vector<double>{0.1});
  writer.add<std::int64_t>("longs", {1}, std::vector<std::int64_t>{-5'000'000'000});
  writer.add<std::int32_t>("empty", {0, 4}, std::vector<std::int32_t>{});
  writer.add<comm::BFloat16>("half", {1}, std::vector{comm::to_bfloat16(2.5f)});
  writer.metadata("who", "a \"test\"");
  writer.write(file());

  const SafetensorsReader reader(file());
  EXPECT_EQ(reader.tensors().size(), 6u);
  EXPECT_EQ(reader.read<std::uint8_t>("bytes"), (std::vector<std::uint8_t>{1, 2, 255}));
  EXPECT_EQ(reader.read<float>("matrix"), (std::vector<float>{1.5f, -0.0f, 3, 4}));
  EXPECT_THAT(reader.find("matrix")->shape, ElementsAre(2, 2));
  EXPECT_THAT(reader.read<double>("scalar"), ElementsAre(0.1));
  EXPECT_THAT(reader.read<std::int64_t>("longs"), ElementsAre(-5'000'000'000));
  EXPECT_TRUE(reader.read<std::int32_t>("empty").empty());
  EXPECT_EQ(comm::to_float(reader.read<comm::BFloat16>("half")[0]), 2.5f);
  EXPECT_EQ(reader.metadata().at("who"), "a \"test\"");
  std::vector<float> part(2);
  reader.read_part("matrix", 1, std::span(part));
  EXPECT_EQ(part, (std::vector<float>{-0.0f, 3}));
}

TEST_F(Safetensors, AlignsEveryTensorForItsType) {
  SafetensorsWriter writer;
  writer.add<std::uint8_t>("a", {3}, std::vector<std::uint8_t>{1, 2, 3});
  writer.add<float>("b", {1}, std::vector<float>{1});
  writer.add<double>("c", {1}, std::vector<double>{1});
  writer.write(file());
  const std::string bytes = read_bytes();
  std::uint64_t length = 0;
  std::memcpy(&length, bytes.data(), 8);
  const SafetensorsReader reader(file());
  for (const auto& [name, info] : reader.tensors())
    EXPECT_EQ((8 + length + info.begin) % comm::size_of(info.dtype.value()), 0u) << name;
}

TEST_F(Safetensors, ReadsWhatTheFormatShowsAsItsExample) {
  write(R"({"a":{"dtype":"F16","shape":[1,2],"data_offsets":[0,4]},"__metadata__":{"k":"v"}} )",
        std::string("\0\x3c\0\xc0", 4));
  const SafetensorsReader reader(file());
  const auto values = reader.read<comm::Float16>("a");
  EXPECT_EQ(comm::to_float(values[0]), 1.0f);
  EXPECT_EQ(comm::to_float(values[1]), -2.0f);
  EXPECT_EQ(reader.metadata().at("k"), "v");
}

TEST_F(Safetensors, KeepsTensorsOfTypesThatNobodyHereReads) {
  write(
      R"({"a":{"dtype":"BOOL","shape":[3],"data_offsets":[0,3]},"b":{"dtype":"U8","shape":[1],"data_offsets":[3,4]}})",
      "\1\1\1\7");
  const SafetensorsReader reader(file());
  EXPECT_EQ(reader.find("a")->type, "BOOL");
  EXPECT_EQ(reader.find("a")->dtype, std::nullopt);
  EXPECT_EQ(reader.find("a")->elements(), 3);
  EXPECT_THAT(reader.read<std::uint8_t>("b"), ElementsAre(7));
  EXPECT_THROW((void)reader.read<std::uint8_t>("a"), InvalidArgument);
}

TEST_F(Safetensors, SaysWhatIsWrongWithAFile) {
  struct Bad {
    std::string header;
    std::size_t data;
    std::string error;
  };
  const auto entry = [](const std::string& fields) { return "{\"a\":{" + fields + "}}"; };
  const Bad bad[] = {
      {"[1]", 0, "its header is not a JSON object"},
      {" {}", 0, "its header is not a JSON object"},
      {"{\"a\":", 0, "its header is not JSON, from byte 6 on"},
      {"{\"a\xff\":1}", 0, "its header is not JSON"},
      {entry(R"("dtype":"F32","shape":[2],"data_offsets":[0,4])"), 4,
       "tensor 'a' has 4 bytes of data; shape [2] of F32 needs 8"},
      {entry(R"("dtype":"F32","shape":[1],"data_offsets":[0,8])"), 4,
       "must be [begin, end] within the 4 bytes of data"},
      {entry(R"("dtype":"F32","shape":[1],"data_offsets":[4,0])"), 4, "data_offsets [4,0]"},
      {entry(R"("dtype":"F32","shape":[1],"data_offsets":[0])"), 4, "data_offsets [0]"},
      {entry(R"("dtype":"F32","shape":[1],"data_offsets":[-4,0])"), 4, "data_offsets [-4,0]"},
      {entry(R"("dtype":"f32","shape":[1],"data_offsets":[0,4])"), 4,
       "tensor 'a' must have a word of the format as dtype"},
      {entry(R"("dtype":4,"shape":[1],"data_offsets":[0,4])"), 4, "tensor 'a' must have a word of the format as dtype"},
      {entry(R"("dtype":"F32","shape":[1e999],"data_offsets":[0,4])"), 4, "its header cannot be read: "},
      {entry(R"("dtype":"F32","shape":[-1],"data_offsets":[0,4])"), 4,
       "tensor 'a' has shape [-1]; it must be a list of sizes"},
      {entry(R"("dtype":"U8","shape":[4294967296,4294967296],"data_offsets":[0,0])"), 0, "it must be a list of sizes"},
      {entry(R"("dtype":"F32","shape":[4611686018427387904],"data_offsets":[0,0])"), 0, "tensor 'a' has 0 bytes"},
      {entry(R"("dtype":"F32","shape":[1.5],"data_offsets":[0,4])"), 4, "has shape [1.5]"},
      {entry(R"("dtype":"F32","shape":[1],"data_offsets":[0,4],"more":1)"), 4, "no other field"},
      {entry(R"("dtype":"F32","shape":[1])"), 4, "must have dtype, shape and data_offsets"},
      {"{\"a\":5}", 0, "must have dtype, shape and data_offsets"},
      {"{\"a\":[[[[1]]]]}", 0, "its header nests too deep"},
      {R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})",
       1, "its header has 'a' twice"},
      {R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}})",
       3, "tensor 'b' begins at byte 1 of the data, where 2 was expected: an overlap"},
      {R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"b":{"dtype":"U8","shape":[1],"data_offsets":[3,4]}})",
       4, "where 2 was expected: a gap"},
      {entry(R"("dtype":"U8","shape":[2],"data_offsets":[0,2])"), 5, "3 bytes of data belong to no tensor"},
      {R"({"__metadata__":{"a":1}})", 0, "__metadata__ 'a' is not a text"},
      {R"({"__metadata__":"a"})", 0, "__metadata__ is not an object of texts"},
  };
  for (const Bad& one : bad) {
    write(one.header, std::string(one.data, 'x'));
    EXPECT_THAT(error(), HasSubstr(one.error)) << one.header;
    EXPECT_THAT(error(), testing::StartsWith("'" + file().string() + "': ")) << one.header;
  }
}

TEST_F(Safetensors, RefusesAnImpossibleHeaderLength) {
  write_bytes("1234567");
  EXPECT_THAT(error(), HasSubstr("7 bytes long; not even the header's length fits"));
  write_bytes(std::string("\x10\0\0\0\0\0\0\0{}", 10));
  EXPECT_THAT(error(), HasSubstr("its header claims 16 bytes, but only 2 follow"));
  write_bytes(std::string("\xff\xff\xff\xff\xff\xff\xff\xff{}", 10));
  EXPECT_THAT(error(), HasSubstr("100000000 is the most"));
  EXPECT_THROW(SafetensorsReader("/"), InvalidArgument);
  EXPECT_THROW(SafetensorsReader(file().string() + ".none"), NotFound);
}

TEST_F(Safetensors, RefusesAWrongReadAndAFileCutShortMeanwhile) {
  SafetensorsWriter writer;
  writer.add<float>("a", {4}, std::vector<float>{1, 2, 3, 4});
  writer.write(file());
  const SafetensorsReader reader(file());
  EXPECT_THROW((void)reader.read<double>("a"), InvalidArgument);
  EXPECT_THROW((void)reader.read<float>("b"), NotFound);
  std::vector<float> two(2);
  EXPECT_THROW(reader.read_part("a", 3, std::span(two)), OutOfRange);
  EXPECT_THROW(reader.read_part("a", -1, std::span(two)), OutOfRange);
  std::filesystem::resize_file(file(), 40);
  EXPECT_THROW((void)reader.read<float>("a"), InvalidArgument);
}

TEST_F(Safetensors, WriterRefusesWhatItCannotWrite) {
  SafetensorsWriter writer;
  EXPECT_THROW(writer.add<float>("a", {3}, std::vector<float>{1}), InvalidArgument);
  writer.add<float>("a", {1}, std::vector<float>{1});
  EXPECT_THROW(writer.add<float>("a", {1}, std::vector<float>{1}), InvalidArgument);
  EXPECT_THROW(writer.write(file().parent_path() / "none" / "x"), RuntimeFailure);
  EXPECT_THROW(writer.write("/dev/full/x"), RuntimeFailure);
}

// Any bytes give either a reader whose tensors can all be read, or InvalidArgument.
void read_all(const std::filesystem::path& file) {
  try {
    const SafetensorsReader reader(file);
    for (const auto& [name, info] : reader.tensors())
      if (info.dtype == comm::DType::f32) (void)reader.read<float>(name);
  } catch (const InvalidArgument&) {
  }
}

TEST_F(Safetensors, AnyTruncationAndAnyFlippedBitsAreAnErrorOrAFile) {
  SafetensorsWriter writer;
  writer.add<float>("step0/grad/0.weight", {2, 3}, std::vector<float>{1, 2, 3, 4, 5, 6});
  writer.add<std::uint8_t>("step0/skipped", {}, std::vector<std::uint8_t>{0});
  writer.metadata("rank", "0");
  writer.write(file());
  const std::string good = read_bytes();
  for (std::size_t length = 0; length < good.size(); ++length) {
    write_bytes(good.substr(0, length));
    EXPECT_NE(error(), "no error") << "cut to " << length << " bytes";
  }
  std::mt19937 random(1);
  for (int round = 0; round < 3000; ++round) {
    std::string bad = good;
    for (unsigned flips = 1 + random() % 4; flips > 0; --flips)
      bad[random() % bad.size()] ^= static_cast<char>(1u << random() % 8);
    write_bytes(bad);
    read_all(file());
  }
  for (int round = 0; round < 3000; ++round) {  // structure, too: swap, repeat and drop pieces
    std::string bad = good;
    const std::size_t from = random() % bad.size();
    const std::string piece = bad.substr(from, random() % 12);
    bad.replace(random() % bad.size(), std::min<std::size_t>(random() % 12, bad.size()), piece);
    write_bytes(bad);
    read_all(file());
  }
}

}  // namespace
}  // namespace plumbline::job
