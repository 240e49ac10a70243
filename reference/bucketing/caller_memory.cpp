#include "reference/bucketing/detail/caller_memory.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace plumbline::bucketing {
namespace {

const std::byte* begin_of(const comm::Buffer& buffer) { return static_cast<const std::byte*>(buffer.data); }
const std::byte* end_of(const comm::Buffer& buffer) { return begin_of(buffer) + buffer.bytes(); }

}  // namespace

std::optional<int> CallerMemory::hold(int gradient, const comm::Buffer& values) {
  comm::Buffer& source = sources_[static_cast<std::size_t>(gradient)];
  decltype(begin_)::node_type before;  // it may come again where it was
  if (source.count > 0) before = begin_.extract(begin_of(source));
  if (const std::optional<int> other = gradient_in(values)) {
    begin_.insert(std::move(before));
    return other;
  }
  source = values;
  if (values.count > 0) begin_.emplace(begin_of(values), gradient);
  return std::nullopt;
}

// One that lies in a part of that memory.
std::optional<int> CallerMemory::gradient_in(const comm::Buffer& values) const {
  const auto after = begin_.lower_bound(end_of(values));  // none from here on begins in it
  if (values.count == 0 || after == begin_.begin()) return std::nullopt;
  const int last = std::prev(after)->second;
  return end_of(of(last)) > begin_of(values) ? std::optional(last) : std::nullopt;
}

void CallerMemory::clear() {
  std::ranges::fill(sources_, comm::Buffer{});
  begin_.clear();
}

}  // namespace plumbline::bucketing
