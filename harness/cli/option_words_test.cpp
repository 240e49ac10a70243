#include "harness/cli/option_words.hpp"

#include <gtest/gtest.h>

namespace plumbline::cli {
namespace {

TEST(OptionWords, NameTheOptionsOfFields) {
  const auto is = [](const char* given, const char* expected) {
    EXPECT_EQ(in_options_of_train(std::string(given)), expected);
  };
  is("BATCH_SIZE = 10; it must be a multiple of NUM_MICRO_BATCHES = 4",
     "--batch 10; it must be a multiple of --micro-batches 4");
  is("run.global_batch = 7; it must be a multiple of parallel.data x run.micro_batches = 4",
     "--batch 7; it must be a multiple of --data-parallel x --micro-batches = 4");
  is("schedule 'zb-h1' with parallel.pipeline = 2", "--schedule 'zb-h1' with --pipeline 2");
  is("run.schedule = 'zbv2'; it must be one of gpipe, 1f1b", "--schedule 'zbv2'; it must be one of gpipe, 1f1b");
  is("model 'gpt' with data 'digits'; gpt takes text", "--model 'gpt' with --data 'digits'; gpt takes text");
  is("20 stages; model 'conv' has 6 layers", "--pipeline x --chunks: 20 stages; --model 'conv' has 6 layers");
  is("--model 'nope'; it must be mlp", "--model 'nope'; it must be mlp");
}

}  // namespace
}  // namespace plumbline::cli
