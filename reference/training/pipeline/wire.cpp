#include "reference/training/pipeline/wire.hpp"

#include <algorithm>
#include <utility>

#include <ATen/ops/from_blob.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "reference/comm/errors.hpp"

namespace plumbline::training {
namespace {

constexpr std::int64_t kVersion = 1;
constexpr std::int64_t kAlignment = 64;

std::vector<std::int64_t> row_major(const std::vector<std::int64_t>& sizes) {
  std::vector<std::int64_t> strides(sizes.size());
  std::int64_t next = 1;
  for (std::size_t i = sizes.size(); i-- > 0;) {
    strides[i] = next;
    next *= std::max<std::int64_t>(sizes[i], 1);
  }
  return strides;
}

std::int64_t elements_in(const TensorDescription& one) {
  std::int64_t product = 1;
  for (const std::int64_t size : one.sizes) product *= size;
  return product;
}

at::ScalarType type_on_the_wire(const TensorDescription& one, WireType wire) {
  return wire && at::isFloatingType(one.type) ? *wire : one.type;
}

// Where a tensor lies in the message.
struct Part {
  std::int64_t begin = 0;
  std::int64_t bytes = 0;
};

std::vector<Part> parts_of(const Description& description, WireType wire) {
  std::vector<Part> parts;
  std::int64_t next = 0;
  for (const TensorDescription& one : description) {
    const auto size = static_cast<std::int64_t>(c10::elementSize(type_on_the_wire(one, wire)));
    parts.push_back({next, elements_in(one) * size});
    next += (parts.back().bytes + kAlignment - 1) / kAlignment * kAlignment;
  }
  return parts;
}

// A tensor over its part of the message, which must outlive it.
at::Tensor view_of(const at::Tensor& message, const Part& part, const TensorDescription& one, WireType wire) {
  auto* begin = static_cast<std::uint8_t*>(message.data_ptr()) + part.begin;
  return at::from_blob(
      begin, one.sizes, one.strides, [message](void*) {}, message.options().dtype(type_on_the_wire(one, wire)));
}

// Writes the words one after the other, or refuses.
class WordWriter {
 public:
  void put(std::int64_t word) {
    if (next_ == kDescriptionWords)
      throw InvalidArgument(
          fmt::format("the tensors between two stages need a description of more than {} words", kDescriptionWords));
    words_[next_++] = word;
  }
  [[nodiscard]] const DescriptionWords& words() const { return words_; }

 private:
  DescriptionWords words_{};
  std::size_t next_ = 0;
};

class WordReader {
 public:
  explicit WordReader(const DescriptionWords& words) : words_(words) {}
  std::int64_t get(std::int64_t below, const char* what) {
    const std::int64_t word = next_ < kDescriptionWords ? words_[next_++] : -1;
    if (word < 0 || word >= below)
      throw RuntimeFailure(fmt::format("a description of tensors has {} as its {}", word, what));
    return word;
  }
  std::vector<std::int64_t> list(std::int64_t count, const char* what) {
    std::vector<std::int64_t> list;
    for (std::int64_t i = 0; i < count; ++i) list.push_back(get(INT64_MAX, what));
    return list;
  }

 private:
  const DescriptionWords& words_;
  std::size_t next_ = 0;
};

}  // namespace

std::string text_of(const Description& description) {
  std::vector<std::string> words;
  for (const TensorDescription& one : description)
    words.push_back(fmt::format("{} [{}]", c10::toString(one.type), fmt::join(one.sizes, ", ")));
  return description.empty() ? "nothing" : fmt::format("{}", fmt::join(words, ", "));
}

Description describe(const Tensors& tensors) {
  Description description;
  for (const at::Tensor& tensor : tensors) {
    TensorDescription one{tensor.scalar_type(), tensor.requires_grad(), tensor.sizes().vec(), tensor.strides().vec()};
    if (!tensor.is_non_overlapping_and_dense()) one.strides = row_major(one.sizes);
    description.push_back(std::move(one));
  }
  return description;
}

Description gradients_of(const Description& description) {
  Description gradients;
  for (TensorDescription one : description) {
    if (!one.requires_gradient) continue;
    one.requires_gradient = false;
    gradients.push_back(std::move(one));
  }
  return gradients;
}

DescriptionWords to_words(const Description& description) {
  WordWriter writer;
  writer.put(kVersion);
  writer.put(static_cast<std::int64_t>(description.size()));
  for (const TensorDescription& one : description) {
    writer.put(static_cast<std::int64_t>(one.type));
    writer.put(one.requires_gradient ? 1 : 0);
    writer.put(static_cast<std::int64_t>(one.sizes.size()));
    for (const std::int64_t size : one.sizes) writer.put(size);
    for (const std::int64_t stride : one.strides) writer.put(stride);
  }
  return writer.words();
}

Description from_words(const DescriptionWords& words) {
  WordReader reader(words);
  if (reader.get(INT64_MAX, "version") != kVersion)
    throw RuntimeFailure(fmt::format("a description of tensors has version {}, not {}", words[0], kVersion));
  Description description(static_cast<std::size_t>(reader.get(kDescriptionWords, "number of tensors")));
  for (TensorDescription& one : description) {
    one.type = static_cast<at::ScalarType>(reader.get(static_cast<std::int64_t>(at::ScalarType::Undefined), "type"));
    one.requires_gradient = reader.get(2, "need of a gradient") == 1;
    const std::int64_t dimensions = reader.get(kDescriptionWords, "number of dimensions");
    one.sizes = reader.list(dimensions, "size");
    one.strides = reader.list(dimensions, "stride");
  }
  return description;
}

at::Tensor message_for(const Description& description, WireType wire, const RankDevice& where) {
  const std::vector<Part> parts = parts_of(description, wire);
  return where.empty({parts.empty() ? 0 : parts.back().begin + parts.back().bytes}, at::kByte);
}

at::Tensor pack(const Tensors& tensors, const Description& description, WireType wire, const RankDevice& where) {
  at::Tensor message = message_for(description, wire, where);
  const std::vector<Part> parts = parts_of(description, wire);
  for (std::size_t i = 0; i < description.size(); ++i) {
    at::Tensor place = view_of(message, parts[i], description[i], wire);
    place.copy_(tensors[i]);
  }
  return message;
}

Tensors unpack(const at::Tensor& message, const Description& description, WireType wire, const RankDevice& where) {
  where.settle();
  const std::vector<Part> parts = parts_of(description, wire);
  Tensors tensors;
  for (std::size_t i = 0; i < description.size(); ++i)
    tensors.push_back(view_of(message, parts[i], description[i], wire).to(where.computes_on(), description[i].type));
  return tensors;
}

}  // namespace plumbline::training
