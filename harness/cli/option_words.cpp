#include "harness/cli/option_words.hpp"

#include <array>
#include <regex>
#include <string_view>
#include <utility>

#include <fmt/format.h>

namespace plumbline::cli {
namespace {

constexpr std::array<std::pair<std::string_view, std::string_view>, 21> kOptionOfField{
    {{"run.global_batch", "--batch"},
     {"run.micro_batches", "--micro-batches"},
     {"run.accumulation", "--accumulation"},
     {"run.bucket_bytes", "--bucket-size"},
     {"run.schedule", "--schedule"},
     {"run.chunks", "--chunks"},
     {"run.device", "--device"},
     {"run.dtype", "--precision"},
     {"run.steps", "--steps"},
     {"parallel.pipeline", "--pipeline"},
     {"parallel.tensor", "--tensor"},
     {"parallel.data", "--data-parallel"},
     {"scaler.init_scale", "--loss-scale"},
     {"NUM_MICRO_BATCHES", "--micro-batches"},
     {"gradient_accumulation", "--accumulation"},
     {"WARMUP_EPOCHS", "--warmup-epochs"},
     {"LEARNING_RATE", "--learning-rate"},
     {"BATCH_SIZE", "--batch"},
     {"NUM_EPOCHS", "--epochs"},
     {"NUM_CHUNKS", "--chunks"},
     {"SEED", "--seed"}}};

}  // namespace

std::string in_options_of_train(std::string words) {
  for (const auto& [field, option] : kOptionOfField) {
    std::string pattern(field);
    if (const std::size_t dot = pattern.find('.'); dot != std::string::npos) pattern.insert(dot, "\\");
    // "parallel.data x run.micro_batches = 4" is a product, whose value is no option's.
    words = std::regex_replace(words, std::regex(fmt::format("(^|with |of |to |: |, ){} = ", pattern)),
                               fmt::format("$1{} ", option));
    words = std::regex_replace(words, std::regex(fmt::format("\\b{}\\b", pattern)), std::string(option));
  }
  static const std::array<std::pair<std::regex, const char*>, 7> kOthers{
      {{std::regex("(^|[^-\\w])(model|data|schedule|compression|join|optimizer) '"), "$1--$2 '"},
       {std::regex("^([0-9]+) pipeline ranks of ([0-9]+) chunks"), "--pipeline $1 --chunks $2"},
       {std::regex("^([0-9]+) stages; "), "--pipeline x --chunks: $1 stages; "},
       {std::regex("^global batch "), "--batch "},
       {std::regex("(^|with )clip norm "), "$1--clip-norm "},
       {std::regex("^a static graph "), "--static-graph "},
       {std::regex("^device "), "--device "}}};
  for (const auto& [pattern, option] : kOthers) words = std::regex_replace(words, pattern, option);
  return words;
}

}  // namespace plumbline::cli
