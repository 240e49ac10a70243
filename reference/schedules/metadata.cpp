#include <algorithm>
#include <limits>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "reference/schedules/lowering.hpp"

namespace plumbline::schedules {
namespace {

constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();

// Takes words from the front. A word that is not there, or out of range, is no description.
class Words {
 public:
  explicit Words(std::span<const std::int64_t> words) : left_(words) {}

  std::int64_t next(const char* what, std::int64_t most) {
    if (left_.empty()) throw InvalidArgument(fmt::format("tensor descriptions: they end before {}", what));
    const std::int64_t word = left_.front();
    if (word < 0 || word > most)
      throw InvalidArgument(fmt::format("tensor descriptions: {} is {}, it must be in [0, {}]", what, word, most));
    left_ = left_.subspan(1);
    return word;
  }
  std::vector<std::int64_t> list(std::int64_t count, const char* what) {
    std::vector<std::int64_t> list;
    for (; count > 0; --count) list.push_back(next(what, kMost));
    return list;
  }
  [[nodiscard]] std::int64_t size() const { return static_cast<std::int64_t>(left_.size()); }
  [[nodiscard]] std::span<const std::int64_t> first(std::int64_t count) const {
    return left_.first(static_cast<std::size_t>(count));
  }

 private:
  std::span<const std::int64_t> left_;
};

}  // namespace

std::string to_string(const TensorDescriptions& tensors) {
  if (tensors.empty()) return "nothing";
  std::string words;
  for (const TensorDescription& tensor : tensors)
    words += fmt::format(
        "{}{}[{}]", words.empty() ? "" : " ",
        tensor.program_type == 0 ? std::string(name_of(tensor.dtype)) : fmt::format("type{}", tensor.program_type),
        fmt::join(tensor.shape, ","));
  return words;
}

std::int64_t elements_of(const TensorDescription& tensor) {
  const auto refuse = [&](const char* why) {
    throw InvalidArgument(fmt::format("tensor of shape [{}]: {}", fmt::join(tensor.shape, ","), why));
  };
  if (std::ranges::any_of(tensor.shape, [](std::int64_t size) { return size < 0; })) refuse("a dimension is below 0");
  if (std::ranges::count(tensor.shape, 0) > 0) return 0;
  std::int64_t elements = 1;
  for (const std::int64_t size : tensor.shape) {
    if (elements > kMost / size) refuse("more elements than an int64 counts");
    elements *= size;
  }
  return elements;
}

TensorDescriptions gradients_of(const TensorDescriptions& tensors) {
  TensorDescriptions gradients;
  for (TensorDescription tensor : tensors) {
    const bool has_gradients = comm::is_floating(tensor.dtype) || tensor.program_type != 0;
    if (!std::exchange(tensor.requires_gradient, false) || !has_gradients) continue;
    gradients.push_back(std::move(tensor));
  }
  return gradients;
}

std::vector<std::int64_t> encode(const TensorDescriptions& tensors) {
  std::vector<std::int64_t> words{0, static_cast<std::int64_t>(tensors.size())};
  for (const TensorDescription& tensor : tensors) {
    (void)elements_of(tensor);  // refuses what no tensor is
    words.push_back(static_cast<std::int64_t>(tensor.shape.size()));
    words.insert(words.end(), tensor.shape.begin(), tensor.shape.end());
    words.insert(words.end(), {static_cast<std::int64_t>(tensor.dtype), tensor.program_type, tensor.requires_gradient,
                               !tensor.strides.empty()});
    words.insert(words.end(), tensor.strides.begin(), tensor.strides.end());
  }
  words.front() = static_cast<std::int64_t>(words.size()) - 1;
  return words;
}

TensorDescriptions decode(std::span<const std::int64_t> message) {
  Words all(message);
  const std::int64_t length = all.next("the number of words", static_cast<std::int64_t>(message.size()) - 1);
  Words words(all.first(length));
  TensorDescriptions tensors;
  for (std::int64_t left = words.next("the number of tensors", kMost); left > 0; --left) {
    TensorDescription tensor;
    const std::int64_t dimensions = words.next("the number of dimensions", words.size());
    tensor.shape = words.list(dimensions, "a dimension");
    tensor.dtype = comm::kAllDTypes.at(
        static_cast<std::size_t>(words.next("the dtype", static_cast<std::int64_t>(comm::kAllDTypes.size()) - 1)));
    tensor.program_type = static_cast<int>(words.next("the program's type", std::numeric_limits<int>::max()));
    tensor.requires_gradient = words.next("whether it requires a gradient", 1) == 1;
    if (words.next("whether it has strides", 1) == 1) tensor.strides = words.list(dimensions, "a stride");
    (void)elements_of(tensor);
    tensors.push_back(std::move(tensor));
  }
  if (words.size() > 0)
    throw InvalidArgument(fmt::format("tensor descriptions: {} words are left after the last tensor", words.size()));
  return tensors;
}

DescriptionExchange::DescriptionExchange(Metadata told, TensorDescriptions promised)
    : metadata_(told), promised_(std::move(promised)) {}

DescriptionExchange::Told& DescriptionExchange::begin(int micro_batch) {
  if (metadata_ == Metadata::none)
    throw StateError(
        fmt::format("micro-batch {}: its output is promised, so no description of it is sent", micro_batch));
  const auto [told, is_new] =
      told_.try_emplace(key_of(micro_batch), Told{std::vector<std::int64_t>(kDescriptionWords), {}});
  if (!is_new) throw StateError(fmt::format("micro-batch {}: its output was told of before", micro_batch));
  return told->second;
}

comm::Buffer DescriptionExchange::message_of(Told& told) const {
  return {told.words.data(), static_cast<std::int64_t>(told.words.size()), comm::DType::i64};
}

comm::Buffer DescriptionExchange::tell(int micro_batch, const TensorDescriptions& tensors) {
  const std::vector<std::int64_t> words = encode(tensors);
  if (words.size() > kDescriptionWords)
    throw InvalidArgument(fmt::format("micro-batch {}: {} take {} words, and a message of descriptions has {}",
                                      micro_batch, to_string(tensors), words.size(), kDescriptionWords));
  Told& told = begin(micro_batch);
  std::ranges::copy(words, told.words.begin());
  told.tensors = tensors;
  return message_of(told);
}

comm::Buffer DescriptionExchange::room(int micro_batch) { return message_of(begin(micro_batch)); }

const TensorDescriptions& DescriptionExchange::expected(int micro_batch) {
  if (metadata_ == Metadata::none) return promised_;
  const auto told = told_.find(key_of(micro_batch));
  if (told == told_.end()) throw StateError(fmt::format("micro-batch {}: nothing was told of its output", micro_batch));
  if (!told->second.tensors) told->second.tensors = decode(told->second.words);
  return *told->second.tensors;
}

void DescriptionExchange::keep_to(int micro_batch, const TensorDescriptions& tensors) {
  const TensorDescriptions& known = expected(micro_batch);
  if (known != tensors)
    throw DescriptionMismatch(fmt::format("micro-batch {}: the output is {}, and {} was {}", micro_batch,
                                          to_string(tensors), to_string(known),
                                          metadata_ == Metadata::none ? "promised" : "told"));
}

void DescriptionExchange::forget(int micro_batch) {
  if (metadata_ == Metadata::each) told_.erase(micro_batch);
}

}  // namespace plumbline::schedules
