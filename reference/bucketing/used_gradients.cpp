#include "reference/bucketing/detail/used_gradients.hpp"

namespace plumbline::bucketing {

bool UsedGradients::exchanges() const {
  const Unused unused = setup_->options.unused;
  return unused == Unused::find_unused || (unused == Unused::static_graph && produced_.empty());
}

void UsedGradients::start(const std::vector<bool>& held) {
  ranks_.assign(setup_->groups.size(), {});
  for (std::size_t i = 0; i < held.size(); ++i)
    ranks_[static_cast<std::size_t>(setup_->gradients[i].group)].push_back(held[i] ? 1 : 0);
  for (std::size_t group = 0; group < ranks_.size(); ++group) {
    const comm::Buffer buffer{ranks_[group].data(), count_in(group), comm::DType::i32};
    works_.push_back(setup_->groups[group]->start(
        comm::Call{.operation = comm::Operation::all_reduce, .op = comm::ReduceOp::sum, .in = buffer, .out = buffer}));
  }
}

const std::vector<bool>& UsedGradients::finish(const BucketStore& buckets) {
  const bool exchanged = exchanges();
  if (setup_->options.unused == Unused::static_graph && !exchanged) return produced_;  // as in the first step
  for (comm::Work& work : works_) work.wait(setup_->options.timeout);
  works_.clear();
  std::vector<std::size_t> next(setup_->groups.size(), 0);
  produced_.assign(setup_->gradients.size(), false);
  for (std::size_t i = 0; i < produced_.size(); ++i) {
    const auto group = static_cast<std::size_t>(setup_->gradients[i].group);
    const bool any = !exchanged || ranks_[group][next[group]++] > 0;
    produced_[i] = buckets.bucket_of(static_cast<int>(i)) >= 0 && any;
  }
  return produced_;
}

}  // namespace plumbline::bucketing
