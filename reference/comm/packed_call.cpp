// A call on rows with gaps between them as one on packed copies.
#include <algorithm>
#include <cstring>

#include "reference/comm/call.hpp"

namespace plumbline::comm {
namespace {

// Calls each(address, bytes) for the rows of a view, in order.
template <class Each>
void for_each_row(const ConstBuffer& view, Rows rows, const Each& each) {
  const std::int64_t in_row = is_contiguous(rows, view.count) ? view.count : rows.columns;
  for (std::int64_t first = 0; first < view.count; first += in_row)
    each(address_of(view, rows, first), static_cast<std::size_t>(in_row) * size_of(view.dtype));
}

void pack(const ConstBuffer& view, Rows rows, std::byte* to) {
  for_each_row(view, rows, [&](const std::byte* row, std::size_t bytes) {
    std::memcpy(to, row, bytes);
    to += bytes;
  });
}

}  // namespace

PackedCall::PackedCall(const StridedCall& call, int rank) : call_(call), plain_(call.call) {
  if (plain_.uses_in(rank) && !is_contiguous(call.in, plain_.in.count)) {
    in_.resize(plain_.in.bytes());
    pack(plain_.in, call.in, in_.data());
    plain_.in.data = in_.data();
  }
  if (plain_.uses_out(rank) && !is_contiguous(call.out, plain_.out.count)) {
    out_.resize(plain_.out.bytes());
    plain_.out.data = out_.data();
    is_unpacked_ = plain_.operation != Operation::broadcast || rank != plain_.root;
    if (!is_unpacked_) pack(call_.call.out, call.out, out_.data());
  }
}

void PackedCall::finish() const {
  if (!is_unpacked_) return;
  const std::byte* from = out_.data();
  for_each_row(call_.call.out, call_.out, [&](const std::byte* row, std::size_t bytes) {
    std::memcpy(const_cast<std::byte*>(row), from, bytes);
    from += bytes;
  });
}

}  // namespace plumbline::comm
