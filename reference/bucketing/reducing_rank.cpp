// One rank that reduces gradients as bucketing.reduce asks, and what it notes of it.
#include <algorithm>
#include <set>
#include <utility>

#include "reference/bucketing/detail/reduction.hpp"

namespace plumbline::adapter {

using bucketing::Reducer;
using comm::DType;
using nlohmann::json;

namespace {

// ---- collectives ----

class LoggedGroup final : public comm::CommunicatorDecorator {
 public:
  LoggedGroup(std::unique_ptr<comm::Communicator> inner, std::shared_ptr<CollectiveLog> log)
      : CommunicatorDecorator(std::move(inner)), log_(std::move(log)) {}

 private:
  class LoggedWork final : public comm::Work::State {
   public:
    LoggedWork(comm::Work work, std::shared_ptr<CollectiveLog> log, int calls)
        : work_(std::move(work)), log_(std::move(log)), calls_(calls) {}
    bool test() override {
      if (!work_.test()) return false;
      complete();
      return true;
    }
    void wait(comm::Timeout timeout) override {
      work_.wait(timeout);
      complete();
    }

   private:
    void complete() { log_->completed += std::exchange(calls_, 0); }
    comm::Work work_;
    std::shared_ptr<CollectiveLog> log_;
    int calls_;
  };

  void note(const comm::Call& call) {
    const std::size_t bytes = call.operation == comm::Operation::broadcast ? call.out.bytes() : call.in.bytes();
    log_->calls.push_back({.operation = std::string(name_of(call.operation)),
                           .ranks = size(),
                           .bytes = static_cast<std::int64_t>(bytes),
                           .completed = log_->completed});
  }
  void do_run(const comm::Call& call, comm::Timeout timeout) override {
    note(call);
    CommunicatorDecorator::do_run(call, timeout);
    ++log_->completed;
  }
  comm::Work do_start(std::span<const comm::Call> calls) override {
    for (const comm::Call& call : calls) note(call);
    return comm::Work(
        std::make_unique<LoggedWork>(CommunicatorDecorator::do_start(calls), log_, static_cast<int>(calls.size())));
  }
  std::unique_ptr<comm::Communicator> decorate(std::unique_ptr<comm::Communicator> group) override {
    return logged(std::move(group), log_);
  }

  std::shared_ptr<CollectiveLog> log_;
};

// ---- exchanges as a caller writes them ----

comm::Call sum_of(const bucketing::HookedBucket& bucket) {
  return {.operation = comm::Operation::all_reduce, .in = bucket.values, .out = bucket.values};
}

bucketing::CommunicationHook exchange_of(Exchange exchange) {
  bucketing::CommunicationHook hook;
  hook.start = [exchange](comm::Communicator& group, const bucketing::HookedBucket& bucket) {
    if (exchange != Exchange::first_rank) return group.start(sum_of(bucket));
    return group.start({.operation = comm::Operation::broadcast, .root = 0, .out = bucket.values});
  };
  hook.finish = [exchange](comm::Communicator& group, const bucketing::HookedBucket& bucket) {
    if (exchange == Exchange::sum_twice) group.run(sum_of(bucket));
  };
  return hook;
}

std::vector<double> values_in(const comm::ConstBuffer& buffer) {
  TypedValues copy(buffer.dtype, std::vector<double>(static_cast<std::size_t>(buffer.count)));
  std::copy_n(static_cast<const std::byte*>(buffer.data), buffer.bytes(), static_cast<std::byte*>(copy.buffer().data));
  return copy.values();
}

json gradients_of(const bucketing::Plan& plan, int bucket) {
  json gradients = json::array();
  for (const auto& member : plan.members_of(plan.buckets[static_cast<std::size_t>(bucket)]))
    gradients.push_back(member.gradient);
  return gradients;
}

}  // namespace

std::unique_ptr<comm::Communicator> logged(std::unique_ptr<comm::Communicator> group,
                                           std::shared_ptr<CollectiveLog> log) {
  return std::make_unique<LoggedGroup>(std::move(group), std::move(log));
}

// ---- one rank ----

class ReducingRank::Impl {
 public:
  Impl(const Reduction& all, comm::Communicator& world)
      : all_(all),
        plan_(all.of(world.rank())),
        me_(static_cast<std::size_t>(world.rank())),
        world_(all.records ? logged(world.duplicate(), log_) : nullptr) {
    bucketing::ReducerOptions options = all.options;
    if (!all.initial.empty()) {
      initial_ = all.initial[me_];
      options.initial = {{initial_.data(), static_cast<std::int64_t>(initial_.size()), DType::f64}};
    }
    if (all.buffer > 0) {
      buffer_.resize(all.buffer);
      options.buffers = {{buffer_.data(), static_cast<std::int64_t>(buffer_.size()), DType::f64}};
    }
    if (all.rebuild_bytes)
      options.rebuild = [this](std::span<const int> order) {
        return bucketing::buckets_in_order(plan_.gradients, order, std::vector<std::int64_t>{*all_.rebuild_bytes});
      };
    if (all.compression) options.hook = hook_of(*all.compression, sgd_);
    if (all.exchange != Exchange::none) options.hook = noting(exchange_of(all.exchange));
    if (all.calls_back) options.reduced = [this](int bucket) { note_reduced(bucket); };
    make_memory();
    reducer_ =
        std::make_unique<Reducer>(groups_in(world_ ? *world_ : world, options), plan_.gradients, plan_.plan, options);
  }

  [[nodiscard]] json step(std::size_t at) {
    row_ = json::object();
    try {
      run(all_.steps[at][me_]);
    } catch (const Error& error) {
      row_ = {{"error", error_of(error)}};
    }
    return std::move(row_);
  }

 private:
  static json error_of(const Error& error) { return {{"kind", error.kind()}, {"message", error.what()}}; }

  // Instances are of consecutive ranks; the ranks of other instances at this one's position have the same part.
  std::vector<comm::Communicator*> groups_in(comm::Communicator& world, bucketing::ReducerOptions& options) {
    if (all_.instance == 0) return {&world};
    std::vector<int> inside, across;
    for (int rank = 0; rank < world.size(); ++rank) {
      if (rank / all_.instance == world.rank() / all_.instance) inside.push_back(rank);
      if (rank % all_.instance == world.rank() % all_.instance) across.push_back(rank);
    }
    inside_ = world.create_group(inside);
    across_ = world.create_group(across);
    options.inter_instance = {across_.get()};
    return {inside_.get()};
  }
  void make_memory() {
    std::int64_t elements = 0;
    for (std::size_t i = 0; i < all_.positions.size(); ++i)
      elements = std::max(elements, all_.positions[i] + plan_.gradients[i].elements);
    if (!all_.positions.empty())
      memory_ = TypedValues(all_.dtype, std::vector<double>(static_cast<std::size_t>(elements)));
  }
  bucketing::CommunicationHook noting(bucketing::CommunicationHook hook) {
    bucketing::CommunicationHook noted;
    noted.start = [this, start = hook.start](comm::Communicator& group, const bucketing::HookedBucket& bucket) {
      json values = json::array();
      for (const bucketing::Member& member : bucket.members)
        values.push_back(values_in(comm::part_of(bucket.values, member.begin, elements_of(member.gradient))));
      row_["exchanges"].push_back(
          {{"gradients", gradients_of(reducer_->plan(), bucket.index)}, {"values", std::move(values)}});
      return start(group, bucket);
    };
    noted.finish = [this, finish = hook.finish](comm::Communicator& group, const bucketing::HookedBucket& bucket) {
      row_["finished"].push_back(gradients_of(reducer_->plan(), bucket.index));
      finish(group, bucket);
    };
    return noted;
  }
  void note_reduced(int bucket) {
    json gradients = gradients_of(reducer_->plan(), bucket), values = json::array();
    for (const json& gradient : gradients) values.push_back(result_of(gradient.get<std::size_t>()));
    row_["callbacks"].push_back({{"gradients", std::move(gradients)}, {"values", std::move(values)}});
  }

  void run(const RankStep& step) {
    own_.assign(plan_.gradients.size(), std::nullopt);
    row_["launches"] = json::array();
    std::vector<bool> produced(plan_.gradients.size());
    if (step.passes.empty()) {
      if (reducer_->join_step())
        for (const bucketing::Member& member : reducer_->plan().members)
          produced[static_cast<std::size_t>(member.gradient)] = true;
    }
    for (std::size_t pass = 0; pass < step.passes.size(); ++pass) {
      if (!step.buffers.empty()) std::ranges::copy(step.buffers[pass], buffer_.begin());
      const bucketing::Outcome& outcome = made(step.passes[pass], pass + 1 == step.passes.size());
      row_["launches"].push_back(launches_of(outcome));
      row_["copied"].push_back(outcome.copied_in + outcome.copied_out);
      if (outcome.synchronised) produced = outcome.produced;
    }
    row_["grads"] = json::array();
    for (std::size_t i = 0; i < produced.size(); ++i)
      row_["grads"].push_back(produced[i] && !is_sharded() ? result_of(i) : json());
    if (is_sharded()) row_["shards"] = shards();
    if (!initial_.empty()) row_["initial"] = initial_;
    reducer_->clear();
  }
  [[nodiscard]] bool is_sharded() const { return all_.options.results == bucketing::Results::sharded; }
  [[nodiscard]] std::int64_t elements_of(int gradient) const {
    return plan_.gradients[static_cast<std::size_t>(gradient)].elements;
  }

  const bucketing::Outcome& made(const std::vector<Produced>& list, bool synchronises) {
    bucketing::Pass pass{.synchronise = synchronises};
    using bucketing::Unused;
    if (all_.options.unused == Unused::zeros || all_.options.unused == Unused::find_unused)
      for (int gradient = 0; gradient < static_cast<int>(plan_.gradients.size()); ++gradient)
        if (std::ranges::find(list, gradient, &Produced::gradient) == list.end()) pass.unused.push_back(gradient);
    log_->calls.clear();
    log_->completed = 0;
    reducer_->begin(pass);
    if (!buffer_.empty()) row_["buffers"].push_back(buffer_);
    json memory = json::array(), rejected = json::array();
    handed_.clear();
    for (const Produced& one : list) {
      try {
        hand_in(one);
        handed_.insert(one.gradient);
        rejected.push_back(nullptr);
      } catch (const Error& error) {
        if (!all_.goes_on) throw;
        rejected.push_back(error_of(error));
      }
      memory.push_back(reducer_->bucket_memory());
    }
    const bucketing::Outcome& outcome = reducer_->finish();
    memory.push_back(reducer_->bucket_memory());
    if (all_.options.lazy) row_["memory"].push_back(std::move(memory));
    if (all_.goes_on) row_["rejected"].push_back(std::move(rejected));
    if (all_.records) row_["collectives"].push_back(collectives());
    return outcome;
  }
  void hand_in(const Produced& one) {
    if (one.is_unused) return reducer_->mark_unused(one.gradient);
    const auto at = static_cast<std::size_t>(one.gradient);
    const DType dtype = one.dtype.value_or(all_.dtype);
    if (one.rows) {
      TypedValues values(dtype, one.values);
      return reducer_->ready(one.gradient, bucketing::SparseRows{*one.rows, values.buffer()});
    }
    if (at >= own_.size() || handed_.contains(one.gradient)) {  // to be rejected, and the first one's values stay
      TypedValues values(dtype, one.values);
      return reducer_->ready(one.gradient, values.buffer());
    }
    std::optional<TypedValues>& mine = own_[at];
    if (!mine || mine->size() != one.values.size() || mine->dtype() != dtype)
      mine.emplace(dtype, one.values);
    else
      for (std::size_t i = 0; i < one.values.size(); ++i) mine->set(i, mine->at(i) + one.values[i]);
    reducer_->ready(one.gradient, placed(at));
  }
  // What is produced of a gradient, where the question puts it.
  comm::Buffer placed(std::size_t gradient) {
    const comm::Buffer own = own_[gradient]->buffer();
    if (all_.positions.empty() || own.count != plan_.gradients[gradient].elements) return own;
    const comm::Buffer there = comm::part_of(memory_.buffer(), all_.positions[gradient], own.count);
    std::copy_n(static_cast<const std::byte*>(own.data), own.bytes(), static_cast<std::byte*>(there.data));
    return there;
  }
  [[nodiscard]] json launches_of(const bucketing::Outcome& outcome) const {
    json list = json::array();
    for (const bucketing::Launch& launch : outcome.launches)
      if (launch.what == bucketing::Launch::What::bucket)
        list.push_back({{"gradients", gradients_of(reducer_->plan(), launch.bucket)},
                        {"elements", launch.elements},
                        {"ready_before", launch.ready_before}});
    return list;
  }
  [[nodiscard]] json collectives() const {
    json list = json::array();
    for (const CollectiveCall& call : log_->calls)
      list.push_back(
          {{"operation", call.operation}, {"ranks", call.ranks}, {"bytes", call.bytes}, {"completed", call.completed}});
    return list;
  }
  // What this rank produced is where it lies, and the rest in the bucket.
  [[nodiscard]] json result_of(std::size_t gradient) {
    if (plan_.gradients[gradient].sparse) {
      const bucketing::SparseRows rows = reducer_->rows(static_cast<int>(gradient));
      return {{"rows", std::vector(rows.indices.begin(), rows.indices.end())}, {"values", values_in(rows.values)}};
    }
    if (all_.in_views || !own_[gradient]) return values_in(reducer_->view(static_cast<int>(gradient)));
    if (all_.positions.empty()) return own_[gradient]->values();
    return values_in(comm::part_of(memory_.buffer(), all_.positions[gradient], plan_.gradients[gradient].elements));
  }
  [[nodiscard]] json shards() const {
    json list = json::array();
    for (int bucket = 0; bucket < static_cast<int>(reducer_->plan().buckets.size()); ++bucket)
      list.push_back(values_in(reducer_->results(bucket)));
    return list;
  }

  const Reduction& all_;
  const RankPlan& plan_;
  std::size_t me_;
  std::shared_ptr<CollectiveLog> log_ = std::make_shared<CollectiveLog>();
  std::unique_ptr<comm::Communicator> world_, inside_, across_;
  std::vector<double> initial_, buffer_;
  TypedValues memory_;                           // of gradients that lie at positions
  std::vector<std::optional<TypedValues>> own_;  // what this step has accumulated
  std::set<int> handed_;                         // of this pass
  std::unique_ptr<bucketing::PowerSgd> sgd_;
  std::unique_ptr<Reducer> reducer_;
  json row_;  // of this step
};

ReducingRank::ReducingRank(const Reduction& all, comm::Communicator& world)
    : impl_(std::make_unique<Impl>(all, world)) {}
ReducingRank::~ReducingRank() = default;

json ReducingRank::step(std::size_t at) { return impl_->step(at); }

}  // namespace plumbline::adapter
