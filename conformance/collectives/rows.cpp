#include "conformance/collectives/rows.hpp"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "conformance/collectives/compare.hpp"

namespace plumbline::conformance {

using comm::Rows;

std::int64_t Placed::at(std::int64_t index) const {
  if (rows.columns == 0) return first + index;
  return first + index / rows.columns * rows.stride + index % rows.columns;
}

Views apart(Rows in, std::int64_t in_count, Rows out, std::int64_t out_count) {
  constexpr std::int64_t kBetween = 3;
  const Placed input{.rows = in, .count = in_count};
  return {input, {.first = input.end() + kBetween, .rows = out, .count = out_count}};
}

Views interleaved(std::int64_t columns, std::int64_t in_count, std::int64_t out_count) {
  const Rows rows{columns, 2 * columns + 1};
  return {{.rows = rows, .count = in_count}, {.first = columns, .rows = rows, .count = out_count}};
}

Views views_in_place(Rows rows, std::int64_t in_count, std::int64_t out_count, int rank) {
  Views views{{.rows = rows, .count = in_count}, {.rows = rows, .count = out_count}};
  if (in_count < out_count) views.in.first = views.out.at(rank * in_count);
  if (out_count < in_count) views.out.first = views.in.at(rank * out_count);
  return views;
}

RowsExercise::RowsExercise(const Exercise& exercise, const Views& views, int rank, std::size_t index)
    : packed_(exercise.calls()[index]),
      views_(views),
      uses_in_(packed_.uses_in(rank)),
      uses_out_(packed_.uses_out(rank)),
      width_(size_of(packed_.dtype())),
      memory_(static_cast<std::size_t>(std::max(views.in.end(), views.out.end())) * width_),
      before_(memory_.bytes().size()),
      call_{.call = packed_} {
  for (std::size_t i = 0; i < before_.size(); ++i) before_[i] = static_cast<std::byte>((i * 41 + 0x17) & 0xff);
  std::ranges::copy(before_, memory_.data());
  const auto data = [&](const Placed& view) { return memory_.data() + static_cast<std::size_t>(view.first) * width_; };
  if (uses_out_) {
    put(views.out, packed_.out.data);  // of a broadcast's root, what it gives; of others, what no right result has
    call_.call.out.data = data(views.out);
    call_.out = views.out.rows;
  }
  if (uses_in_) {
    put(views.in, packed_.in.data);
    call_.call.in.data = data(views.in);
    call_.in = views.in.rows;
  }
}

void RowsExercise::run(comm::Communicator& group) {
  name_ = fmt::format("rank {} of {}: {}", group.rank(), group.size(), describe(call_, group.size()));
  group.run_strided(call_);
  if (uses_out_) get(views_.out, packed_.out.data);
}

std::string RowsExercise::problem() const {
  std::vector<std::byte> expected = before_;
  for (std::int64_t i = 0; uses_out_ && i < views_.out.count; ++i) {
    const std::size_t at = static_cast<std::size_t>(views_.out.at(i)) * width_;
    std::memcpy(expected.data() + at, memory_.bytes().data() + at, width_);
  }
  const std::string changed = first_difference(packed_.dtype(), expected, memory_.bytes());
  if (!changed.empty()) return fmt::format("{}: what is not in the output was changed: {}", name_, changed);
  const std::string outside = memory_.damage();
  return outside.empty() ? outside : fmt::format("{}: outside the memory: {}", name_, outside);
}

void RowsExercise::put(const Placed& view, const void* packed) {
  for (std::int64_t i = 0; i < view.count; ++i) {
    const std::byte* from = static_cast<const std::byte*>(packed) + static_cast<std::size_t>(i) * width_;
    const std::size_t to = static_cast<std::size_t>(view.at(i)) * width_;
    std::memcpy(memory_.data() + to, from, width_);
    std::memcpy(before_.data() + to, from, width_);
  }
}

void RowsExercise::get(const Placed& view, void* packed) const {
  for (std::int64_t i = 0; i < view.count; ++i)
    std::memcpy(static_cast<std::byte*>(packed) + static_cast<std::size_t>(i) * width_,
                memory_.bytes().data() + static_cast<std::size_t>(view.at(i)) * width_, width_);
}

}  // namespace plumbline::conformance
