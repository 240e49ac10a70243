// CIFAR-10's files, batches, and the text.
#include <algorithm>
#include <fstream>
#include <map>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/trainer/data/batches.hpp"
#include "harness/trainer/data/cifar10.hpp"
#include "harness/trainer/data/text.hpp"
#include "reference/comm/errors.hpp"
#include "reference/support/temporary_folder.hpp"

namespace plumbline::training::data {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// An image whose numbers are 0, 1, 2, … from `first` on, modulo 256.
Image counting(int first) {
  Image image(32, 32);
  for (std::size_t i = 0; i < image.pixels.size(); ++i)
    image.pixels[i] = static_cast<std::uint8_t>(static_cast<std::size_t>(first) + i);
  return image;
}

LabelledImages counting_images(std::size_t count) {
  LabelledImages images;
  for (std::size_t i = 0; i < count; ++i) images.add(counting(static_cast<int>(i)), static_cast<std::uint8_t>(i % 10));
  return images;
}

class Cifar10Test : public testing::Test {
 protected:
  [[nodiscard]] std::filesystem::path write(const std::string& name, const std::string& bytes) const {
    std::ofstream(folder.path() / name, std::ios::binary) << bytes;
    return folder.path() / name;
  }
  template <class Call>
  static std::string error_of(const Call& call) {
    try {
      call();
    } catch (const Error& error) {
      return std::string(error.kind()) + ": " + error.what();
    }
    return "no error";
  }
  job::TemporaryFolder folder;
};

// Written here by hand: label, then red, green and blue planes.
TEST_F(Cifar10Test, ReadsRecordsOfALabelAndThreePlanes) {
  std::string bytes(2 * 3073, '\0');
  bytes[0] = 6;
  bytes[1] = '\x0a';                // red, first pixel
  bytes[1 + 1024 + 33] = '\x0b';    // green, second row, second column
  bytes[1 + 2048 + 1023] = '\xff';  // blue, last pixel
  bytes[3073] = 9;
  const LabelledImages images = read_cifar10_file(write("one.bin", bytes));
  ASSERT_EQ(images.size(), 2u);
  EXPECT_EQ(images.label(0), 6);
  EXPECT_EQ(images.label(1), 9);
  const Image image = images.image(0);
  EXPECT_EQ(image.at(0, 0, 0), 10);
  EXPECT_EQ(image.at(1, 1, 1), 11);
  EXPECT_EQ(image.at(2, 31, 31), 255);
  EXPECT_EQ(std::ranges::count(image.pixels, 0), 3069);
  EXPECT_THROW((void)images.image(2), OutOfRange);
  EXPECT_THROW((void)images.label(2), OutOfRange);
}

// As large as the real files, and in the archive's own folder.
TEST_F(Cifar10Test, ReadsFilesOfTheRealSize) {
  constexpr std::size_t kRecords = 10'000, kBytes = 3073;
  const std::filesystem::path inner = folder.path() / "cifar-10-batches-bin";
  std::filesystem::create_directories(inner);
  const std::vector<std::string> names{"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin",
                                       "data_batch_4.bin", "data_batch_5.bin", "test_batch.bin"};
  for (std::size_t file = 0; file < names.size(); ++file) {
    std::string bytes(kRecords * kBytes, '\0');
    for (std::size_t record = 0; record < kRecords; ++record) {
      bytes[record * kBytes] = static_cast<char>((record + file) % 10);
      bytes[record * kBytes + 1 + 2047] = static_cast<char>(file + 1);  // the last green pixel
    }
    (void)write("cifar-10-batches-bin/" + names[file], bytes);
  }
  const Cifar10 data = read_cifar10(folder.path());
  ASSERT_EQ(data.training.size(), 50'000u);
  ASSERT_EQ(data.test.size(), 10'000u);
  for (const std::size_t number : {0u, 9'999u, 10'000u, 49'999u}) {
    EXPECT_EQ(data.training.label(number), (number % kRecords + number / kRecords) % 10) << number;
    EXPECT_EQ(data.training.image(number).at(1, 31, 31), number / kRecords + 1) << number;
  }
  EXPECT_EQ(data.test.image(7).at(1, 31, 31), 6);
}

TEST_F(Cifar10Test, ReadsWhatItWrote) {
  const Cifar10 data{.training = counting_images(12), .test = counting_images(3)};
  write_cifar10(data, folder.path() / "set");
  EXPECT_EQ(std::filesystem::file_size(folder.path() / "set" / "data_batch_1.bin"), 2 * 3073u);
  EXPECT_EQ(std::filesystem::file_size(folder.path() / "set" / "data_batch_5.bin"), 3 * 3073u);
  const Cifar10 read = read_cifar10(folder.path() / "set");
  EXPECT_EQ(read.training, data.training);
  EXPECT_EQ(read.test, data.test);
  std::filesystem::create_directories(folder.path() / "root");
  std::filesystem::rename(folder.path() / "set", folder.path() / "root" / "cifar-10-batches-bin");
  EXPECT_EQ(read_cifar10(folder.path() / "root").test, data.test) << "the archive's own folder";
}

TEST_F(Cifar10Test, SaysInOneLineWhatIsWrongWithAFile) {
  const auto read = [&](const std::string& name, const std::string& bytes) {
    const std::filesystem::path file = write(name, bytes);
    return error_of([&] { (void)read_cifar10_file(file); });
  };
  const std::string path = (folder.path() / "f.bin").string();
  EXPECT_EQ(read("f.bin", std::string(3073 + 5, '\0')),
            "invalid_argument: '" + path +
                "' has 3078 bytes and ends inside record 1; it must have whole records of 3073 bytes, 30730000 for the "
                "10000 of CIFAR-10");
  EXPECT_EQ(read("f.bin", ""),
            "invalid_argument: '" + path +
                "' is empty; it must have records of 3073 bytes, 30730000 for the 10000 of CIFAR-10");
  std::string bytes(3 * 3073, '\0');
  bytes[2 * 3073] = 10;
  EXPECT_EQ(read("f.bin", bytes),
            "invalid_argument: '" + path + "': record 2 (of 3, from 0) has label 10; labels are 0 to 9");
  EXPECT_THAT(
      error_of([&] { (void)read_cifar10(folder.path()); }),
      AllOf(HasSubstr("not_found: '" + (folder.path() / "data_batch_1.bin").string() + "' cannot be read: No such"),
            HasSubstr("data_batch_1.bin to data_batch_5.bin and test_batch.bin")));
  EXPECT_THAT(error_of([&] { (void)read_cifar10_file(folder.path()); }), HasSubstr("it is a folder"));
}

TEST_F(Cifar10Test, RefusesWhatDoesNotFit) {
  LabelledImages images;
  EXPECT_THROW(images.add(Image(32, 31), 0), InvalidArgument);
  EXPECT_THROW(images.add(Image(32, 32), 10), InvalidArgument);
  EXPECT_THROW(write_cifar10({.training = counting_images(4), .test = counting_images(1)}, folder.path() / "x"),
               InvalidArgument);
  EXPECT_THROW(write_cifar10({.training = counting_images(5), .test = {}}, folder.path() / "x"), InvalidArgument);
  std::ofstream(folder.path() / "file") << "a file";
  EXPECT_THROW(write_cifar10({.training = counting_images(5), .test = counting_images(1)}, folder.path() / "file"),
               RuntimeFailure);
}

TEST_F(Cifar10Test, DigitsBecomeGreyImages) {
  const Digits all = digits();
  const Cifar10 data = cifar10_of_digits(all, 20);
  EXPECT_EQ(data.training.size(), 20u);
  EXPECT_EQ(data.test.size(), 20u);
  EXPECT_EQ(cifar10_of_digits(all, 100'000).test.size(), 360u);
  for (std::size_t i = 0; i < 20; ++i) {
    const Image image = data.training.image(i);
    EXPECT_EQ(data.training.label(i), all.training[i].label);
    for (int y = 0; y < 32; ++y)
      for (int x = 0; x < 32; ++x)
        for (int channel = 0; channel < 3; ++channel)
          ASSERT_EQ(image.at(channel, y, x),
                    all.training[i].pixels[static_cast<std::size_t>(y / 4 * 8 + x / 4)] * 255 / 16);
  }
}

std::string plan_error(const BatchPlan& plan) {
  try {
    (void)batches_of_epoch(plan, 0);
  } catch (const InvalidArgument& error) {
    return error.what();
  }
  return "no error";
}

TEST(Batches, UseEveryRowOnceAnEpochInAnOrderOfItsOwn) {
  const BatchPlan plan{.rows = 50, .batch = 8, .seed = 3};
  EXPECT_EQ(batches_per_epoch(plan), 7u);
  std::set<std::vector<std::size_t>> orders;
  for (int epoch = 0; epoch < 4; ++epoch) {
    std::vector<std::size_t> order;
    for (const auto& batch : batches_of_epoch(plan, epoch)) {
      EXPECT_EQ(batch.size(), order.size() < 48 ? 8u : 2u);
      order.insert(order.end(), batch.begin(), batch.end());
    }
    orders.insert(order);
    std::ranges::sort(order);
    for (std::size_t row = 0; row < 50; ++row) ASSERT_EQ(order[row], row);
  }
  EXPECT_EQ(orders.size(), 4u);
  EXPECT_EQ(batches_of_epoch(plan, 2), batches_of_epoch(plan, 2));
  EXPECT_NE(batches_of_epoch(plan, 2), batches_of_epoch({.rows = 50, .batch = 8, .seed = 4}, 2));
  EXPECT_EQ(batches_per_epoch({.rows = 50, .batch = 8, .drop_last = true}), 6u);
  EXPECT_THAT(batches_of_epoch({.rows = 5, .batch = 3, .shuffle = false}, 9),
              testing::ElementsAre(testing::ElementsAre(0, 1, 2), testing::ElementsAre(3, 4)));
}

TEST(Batches, AreDealtOutToDataRanksInTurn) {
  std::map<std::size_t, int> used;
  std::vector<std::size_t> first;
  for (int rank = 0; rank < 3; ++rank) {
    const auto batches = batches_of_epoch({.rows = 10, .batch = 2, .seed = 5, .rank = rank, .ranks = 3}, 1);
    ASSERT_EQ(batches.size(), 2u) << "four rows each";
    first.push_back(batches[0][0]);
    for (const auto& batch : batches)
      for (const std::size_t row : batch) ++used[row];
  }
  EXPECT_EQ(used.size(), 10u) << "all rows, two of them twice";
  const auto whole = batches_of_epoch({.rows = 10, .batch = 10, .seed = 5}, 1)[0];
  EXPECT_EQ(first, std::vector(whole.begin(), whole.begin() + 3));
}

TEST(Batches, UnevenRanksUseEachRowOnce) {
  std::vector<std::size_t> all;
  for (int rank = 0; rank < 3; ++rank) {
    const BatchPlan plan{.rows = 7, .batch = 2, .seed = 5, .rank = rank, .ranks = 3, .uneven = true};
    EXPECT_EQ(batches_per_epoch(plan), rank == 0 ? 2u : 1u);
    for (const auto& batch : batches_of_epoch(plan, 1)) all.insert(all.end(), batch.begin(), batch.end());
  }
  std::ranges::sort(all);
  EXPECT_EQ(all, (std::vector<std::size_t>{0, 1, 2, 3, 4, 5, 6}));
}

TEST(Batches, HaveAsManyRowsAsTheirPartsDivide) {
  const auto sizes = [](const BatchPlan& plan) {
    std::vector<std::size_t> sizes;
    for (const auto& batch : batches_of_epoch(plan, 0)) sizes.push_back(batch.size());
    EXPECT_EQ(batches_per_epoch(plan), sizes.size());
    return sizes;
  };
  EXPECT_THAT(sizes({.rows = 23, .batch = 8, .parts = 4}), testing::ElementsAre(8, 8, 4));
  EXPECT_THAT(sizes({.rows = 19, .batch = 8, .parts = 4}), testing::ElementsAre(8, 8));
  EXPECT_THAT(sizes({.rows = 24, .batch = 8, .parts = 4}), testing::ElementsAre(8, 8, 8));
  EXPECT_THAT(sizes({.rows = 50'000, .batch = 64, .parts = 4}).back(), 16u) << "the real data loses nothing";
  EXPECT_EQ(plan_error({.rows = 3, .batch = 8, .parts = 4}),
            "batch = 8; a data rank has 3 rows, and what 4 equal parts do not use is left out");
  EXPECT_EQ(plan_error({.rows = 30, .batch = 8, .parts = 3}), "batch = 8; it must be a multiple of its 3 parts");
}

TEST(Batches, SayWhatIsWrongWithAPlan) {
  EXPECT_EQ(plan_error({.rows = 0}), "rows = 0; a data set has at least one row");
  EXPECT_EQ(plan_error({.rows = 4, .batch = 0}), "batch = 0; a batch has at least one row");
  EXPECT_EQ(plan_error({.rows = 4, .rank = 2, .ranks = 2}), "data rank 2 of 2; ranks are 0 to their number - 1");
  EXPECT_EQ(plan_error({.rows = 4, .batch = 5, .drop_last = true}),
            "batch = 5; a data rank has 4 rows, and a smaller last batch is left out");
}

TEST(Batches, AugmentARowTheSameWayWhereverItIs) {
  const LabelledImages images = counting_images(9);
  const std::vector<std::size_t> together{7, 2, 5}, alone{2};
  const ImageBatch batch = training_batch(images, together, 11, 3);
  EXPECT_EQ(batch.shape(), (std::vector<std::int64_t>{3, 3, 32, 32}));
  EXPECT_THAT(batch.y, testing::ElementsAre(7, 2, 5));
  const std::vector<float> second(batch.x.begin() + 3072, batch.x.begin() + 2 * 3072);
  EXPECT_EQ(training_batch(images, alone, 11, 3).x, second);
  int same = 0;  // some sub-policies change nothing now and then, and a crop may be the image
  for (int epoch = 4; epoch < 10; ++epoch) same += training_batch(images, alone, 11, epoch).x == second ? 1 : 0;
  EXPECT_LT(same, 2);
  EXPECT_NE(training_batch(images, alone, 12, 3).x, second);
  EXPECT_THROW((void)training_batch(images, std::vector<std::size_t>{9}, 0, 0), OutOfRange);
}

TEST(Batches, LeaveRowsToTestOnAsTheyAre) {
  const LabelledImages images = counting_images(2);
  const ImageBatch batch = test_batch(images, std::vector<std::size_t>{1});
  std::vector<float> expected(3072);
  normalise(images.image(1), expected);
  EXPECT_EQ(batch.x, expected);
}

TEST(TextData, IsEnglishOfItsOwnWithTheLastTenthHeldOut) {
  const Text both = text();
  EXPECT_GT(both.training.size(), 2500u);
  EXPECT_EQ((both.training.size() + both.held_out.size()) / 10, both.held_out.size());
  EXPECT_EQ(both.training.data() + both.training.size(), both.held_out.data());
}

TEST(TextData, PredictsTheNextByte) {
  const std::string alphabet = "abcdefghijklmnopqrstuvwxyz";
  std::set<std::int64_t> starts;
  for (int step = 0; step < 40; ++step) {
    const TextBatch batch = text_batch(alphabet, 3, 5, 1, step);
    ASSERT_EQ(batch.x.size(), 15u);
    for (std::size_t i = 0; i < 15; ++i) {
      EXPECT_EQ(batch.y[i], batch.x[i] + 1);
      EXPECT_TRUE(i % 5 == 0 || batch.x[i] == batch.x[i - 1] + 1);
    }
    for (std::size_t row = 0; row < 3; ++row) starts.insert(batch.x[5 * row]);
  }
  EXPECT_EQ(*starts.begin(), 'a');
  EXPECT_EQ(*starts.rbegin(), 'u') << "the last window ends with the text";
  EXPECT_EQ(text_batch(alphabet, 3, 5, 1, 2).x, text_batch(alphabet, 3, 5, 1, 2).x);
  EXPECT_NE(text_batch(alphabet, 3, 5, 1, 2).x, text_batch(alphabet, 3, 5, 2, 2).x);
  EXPECT_THROW((void)text_batch("abc", 1, 3, 0, 0), InvalidArgument);
  EXPECT_THROW((void)text_batch("abc", 0, 1, 0, 0), InvalidArgument);
}

TEST(TextData, TakesBytesAboveAsciiAsTheyAre) {
  EXPECT_THAT(text_batch("\xc3\xa4", 1, 1, 0, 0).x, testing::ElementsAre(0xc3));
}

}  // namespace
}  // namespace plumbline::training::data
