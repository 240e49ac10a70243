#include "reference/bucketing/detail/pass_opening.hpp"

#include <utility>

#include "reference/comm/dtype.hpp"

namespace plumbline::bucketing {

using comm::Buffer;
using comm::DType;

void PassOpening::share_initial() {
  if (std::exchange(has_begun_, true)) return;
  for (const Buffer& values : setup_->options.initial) share(Launch::What::initial, values);
}

int PassOpening::count_present(bool has_rows) {
  std::int64_t ranks = has_rows ? 1 : 0;
  note(Launch::What::presence, DType::i64, 1);
  const Buffer buffer{&ranks, 1, DType::i64};
  setup_->groups.front()->all_reduce(buffer, buffer, comm::ReduceOp::sum, setup_->options.timeout);
  return static_cast<int>(ranks);
}

void PassOpening::agree() {
  agree_once();
  if (setup_->options.rebuild && !rebuilt_) {
    rebuild();
    agree_once();
  }
  for (const Buffer& buffer : setup_->options.buffers) share(Launch::What::buffer, buffer);
}

void PassOpening::agree_once() {
  if (!agreed_) agree_on_plan(*setup_, buckets_->plan());
  agreed_ = true;
}

// Rank 0 says whether it knows an order in which gradients are ready, and which.
void PassOpening::rebuild() {
  std::vector<std::int64_t> message{presence_->order().empty() ? 0 : 1};
  for (const int gradient : presence_->order()) message.push_back(gradient);
  for (int i = 0; i < presence_->size(); ++i)
    if (buckets_->bucket_of(i) >= 0 && !presence_->is_in_order(i)) message.push_back(i);
  note(Launch::What::order, DType::i64, std::ssize(message));
  setup_->groups.front()->broadcast({message.data(), std::ssize(message), DType::i64}, 0, setup_->options.timeout);
  if (message.front() == 0) return;
  use(setup_->options.rebuild(std::vector<int>(message.begin() + 1, message.end())));
  rebuilt_ = true;
}

void PassOpening::use(Plan plan) {
  const BucketStore old = std::exchange(*buckets_, BucketStore(*setup_, std::move(plan)));
  agreed_ = false;
  for (int i = 0; i < presence_->size() && !setup_->options.lazy; ++i) {
    if (!presence_->is_held(i) || setup_->gradient(i).sparse) continue;
    if (old.bucket_of(i) >= 0 && buckets_->bucket_of(i) >= 0)
      setup_->memory->copy_divided(old.slot_of(i), buckets_->slot_of(i), 1);
  }
}

void PassOpening::share(Launch::What what, const Buffer& values) {
  note(what, values.dtype, values.count);
  broadcast_from_rank_0(*setup_, values);
}

void PassOpening::note(Launch::What what, DType dtype, std::int64_t elements) {
  outcome_->launches.push_back({.what = what, .dtype = dtype, .elements = elements});
}

}  // namespace plumbline::bucketing
