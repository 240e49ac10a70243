// The life of a bucket is in one place below: "the life of a bucket". Around it are the passes of a step, and what is
// rejected; what one reduction does is in bucket_exchange.cpp.
#include "reference/bucketing/reducer.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "reference/bucketing/detail/bucket_exchange.hpp"
#include "reference/bucketing/detail/bucket_store.hpp"
#include "reference/bucketing/detail/caller_memory.hpp"
#include "reference/bucketing/detail/range.hpp"
#include "reference/bucketing/detail/reducer_setup.hpp"
#include "reference/bucketing/detail/used_gradients.hpp"
#include "reference/comm/dtype.hpp"
#include "reference/comm/errors.hpp"

namespace plumbline::bucketing {

using comm::Buffer;
using comm::Communicator;
using comm::DType;

class Reducer::Impl {
 public:
  Impl(std::vector<Communicator*> groups, std::vector<Gradient> gradients, Plan plan, ReducerOptions options)
      : setup_{.groups = std::move(groups),
               .gradients = std::move(gradients),
               .options = std::move(options),
               .memory = nullptr} {
    setup_.memory = setup_.options.place ? setup_.options.place : host_memory();
    setup_.check();
    for (int i = 0; i < std::ssize(setup_.gradients); ++i)
      if (is_sparse(i)) sparse_.emplace(i, SparseSum(setup_.numbers_of(i), setup_.gradient(i).dtype));
    buckets_ = BucketStore(setup_, std::move(plan));
  }

 private:
  // ---- the life of a bucket: Li et al., Algorithm 1, its autograd hook ----

  // The hook is called for a parameter: its gradient will not change any more in this pass, or this rank lacks it.
  void mark_ready(int gradient) {
    states_[static_cast<std::size_t>(gradient)].ready = true;
    ++ready_;
    --missing_[static_cast<std::size_t>(buckets_.bucket_of(gradient))];
    if (!synchronises_) return;  // it stays where it is, for the next pass to add to
    put_in(gradient);
    if (options().overlap && !is_learning()) start_ready(false);
    if (flights_.empty()) return;
    const bool is_over = flights_.front().work.test();  // also where nobody asks: it makes progress
    if (is_over && may_finish_early(flights_.front())) finish_first();
  }

  // The gradient is copied into its view of the bucket: zeros in place of what this rank lacks; nothing where it lies
  // there already, or is reduced where the caller has it.
  void put_in(int gradient) {
    const State& state = states_[static_cast<std::size_t>(gradient)];
    const int bucket = buckets_.bucket_of(gradient);
    if (state.held) check_range(gradient);
    if (is_sparse(gradient)) {
      if (!state.held) sparse_.at(gradient).clear();
      return;
    }
    if (is_in_place(bucket)) return;
    ensure_memory(bucket);
    const Buffer slot = buckets_.slot_of(gradient);
    if (!state.held) {
      setup_.memory->fill_zeros(slot);
    } else if (copies()) {
      const Buffer& source = caller_.of(gradient);
      setup_.memory->copy_divided(source, slot, options().hook.start ? 1 : divisors(bucket).before);
      outcome_.copied_in += static_cast<std::int64_t>(source.bytes());
    }
  }

  // A bucket is ready with its last gradient, and ready buckets are all-reduced in order: one that is ready waits for
  // those before it in the plan, so that every rank starts them in one order. `all`: ready or not.
  void start_ready(bool all) {
    for (; next_ < buckets_.size(); ++next_) {
      if (!all && missing_[static_cast<std::size_t>(next_)] > 0) return;
      start(next_);
      while (!options().overlap && !flights_.empty()) finish_first();
    }
  }
  void start(int bucket) {
    Flight flight{.bucket = bucket, .divisors = divisors(bucket)};
    std::int64_t elements = 0;
    if (buckets_.is_sparse(bucket)) {
      elements = sum_of(bucket).rows().values.count;
      flight.work = sum_of(bucket).start(buckets_.group_of(bucket));
      flight.sent.dtype = buckets_[bucket].dtype;
    } else {
      while (exchange_.must_wait(buckets_[bucket])) finish_first();
      const bool in_place = is_in_place(bucket);
      flight.values = in_place ? caller_.of(buckets_.members_of(bucket).front().gradient) : buckets_.buffer_of(bucket);
      flight.is_copied = copies() && !in_place;
      exchange_.start(buckets_, flight);
      elements = flight.sent.count;
    }
    note(Launch::What::bucket, buckets_[bucket].group, flight.sent.dtype, elements, bucket);
    flights_.push_back(std::move(flight));
  }

  // All reductions are waited for when all are started, in finish(); or one of them is taken as soon as it is over.
  void finish_first() {
    Flight flight = std::move(flights_.front());
    flights_.erase(flights_.begin());
    if (buckets_.is_sparse(flight.bucket)) {
      finish_sparse(flight);
    } else {
      exchange_.finish(buckets_, flight);
      if (flight.is_copied) copy_out(flight.bucket, flight.divisors.after);
    }
    give_back(flight.bucket);
    if (options().reduced) options().reduced(flight.bucket);
  }
  // Averages go back to where the gradients came from.
  void copy_out(int bucket, double after) {
    for (const Member& member : buckets_.members_of(bucket)) {
      const bool held = states_[static_cast<std::size_t>(member.gradient)].held;
      const Buffer from = buckets_.slot_of(member.gradient);
      const Buffer to = held ? caller_.of(member.gradient) : from;
      setup_.memory->copy_divided(from, to, after);
      if (held) outcome_.copied_out += static_cast<std::int64_t>(to.bytes());
    }
  }

 public:
  // ---- the passes of a step ----

  void begin(const Pass& pass) {
    if (in_pass_) throw StateError(at("begin") + ": a pass is under way");
    if (reduced_)
      throw StateError(
          at("begin") +
          ": the gradients of this step have been reduced; clear() ends a step, and only its last pass may "
          "synchronise");
    for (const int gradient : pass.unused) check_unused(gradient, "begin");
    outcome_ = {};
    begin_first();
    if (pass.synchronise && options().join) present_ = count_present(1);
    open(pass.synchronise);
    for (const int gradient : pass.unused) mark_lacking(gradient);
    if (options().unused == Unused::static_graph && learned_)
      for (int i = 0; i < std::ssize(states_); ++i)
        if (buckets_.bucket_of(i) >= 0 && states_[static_cast<std::size_t>(i)].times_learned == 0) mark_lacking(i);
  }

  void ready(int gradient, std::optional<Buffer> values, const SparseRows* rows = nullptr) {
    State& state = checked(gradient);
    check_kind(gradient, rows != nullptr);
    if (values) check_values(gradient, *values);
    if (state.times > 0 && !comes_again(state))
      throw StateError(at("ready") + fmt::format(": gradient '{}' was ready before in this pass", name(gradient)));
    if (rows != nullptr)
      take_rows(gradient, *rows);
    else
      take(gradient, values);  // or refuse it: nothing has happened then
    ++state.times;
    state.held = true;
    if (!std::exchange(state.in_order, true)) first_order_.push_back(gradient);
    if (!comes_again(state) && !state.ready) mark_ready(gradient);
  }

  void mark_unused(int gradient) {
    check_unused(gradient, "lack");
    if (!in_pass_)
      throw StateError(at("lack") +
                       fmt::format(": gradient '{}' is said to be unused, and no pass is under way", name(gradient)));
    if (states_[static_cast<std::size_t>(gradient)].times > 0)
      throw StateError(at("lack") + fmt::format(": gradient '{}' was ready before in this pass", name(gradient)));
    mark_lacking(gradient);
  }

  const Outcome& finish() {
    if (!in_pass_) throw StateError(at("finish") + ": no pass is under way");
    if (synchronises_) {
      finish_gradients();
      start_ready(true);
      start_used();
      while (!flights_.empty()) finish_first();
      outcome_.produced = used_.finish(buckets_);
      reduced_ = true;
    }
    if (!learned_) {
      for (State& state : states_) state.times_learned = state.times;
      learned_ = true;
    }
    outcome_.synchronised = synchronises_;
    if (synchronises_ && options().join) outcome_.present = present_;
    in_pass_ = false;
    ++passes_;
    return outcome_;
  }

  void clear() {
    if (in_pass_) throw StateError(at("clear") + ": a pass is under way");
    for (State& state : states_) state.held = false;
    caller_.clear();
    for (auto& [gradient, sum] : sparse_) sum.clear();
    for (int bucket = 0; options().lazy && bucket < buckets_.size(); ++bucket) buckets_.give_back(bucket);
    reduced_ = false;
    passes_ = 0;
  }

  bool join_step() {
    if (!options().join) throw StateError(at("join") + ": the reducer was made without the option to join");
    clear();
    outcome_ = {};
    begin_first();
    present_ = count_present(0);
    if (present_ == 0) return false;
    open(true);
    for (int i = 0; i < std::ssize(states_); ++i)
      if (buckets_.bucket_of(i) >= 0) mark_lacking(i);
    finish();
    return true;
  }
  int join(const std::function<void(const Outcome&)>& after_each) {
    int steps = 0;
    for (; join_step(); ++steps)
      if (after_each) after_each(outcome_);
    return steps;
  }

  // ---- what the caller sees ----

  [[nodiscard]] Buffer view(int gradient) const {
    check_known(gradient, "view");
    if (is_sparse(gradient))
      throw InvalidArgument(at("view") + fmt::format(": gradient '{}' is sparse; it has rows", name(gradient)));
    require_memory(buckets_.bucket_of(gradient), "view");
    return buckets_.slot_of(gradient);
  }

  [[nodiscard]] SparseRows rows(int gradient) const {
    check_known(gradient, "rows");
    if (!is_sparse(gradient))
      throw InvalidArgument(at("rows") + fmt::format(": gradient '{}' is dense; it has a view", name(gradient)));
    return sparse_.at(gradient).rows();
  }

  [[nodiscard]] Buffer results(int bucket) const {
    if (bucket < 0 || bucket >= buckets_.size())
      throw OutOfRange(at("results") + fmt::format(": bucket {}; there are {}", bucket, buckets_.size()));
    if (buckets_.is_sparse(bucket))
      throw InvalidArgument(at("results") + fmt::format(": bucket {} is that of '{}', which is sparse; it has rows",
                                                        bucket, name(buckets_.members_of(bucket).front().gradient)));
    require_memory(bucket, "results");
    return buckets_.own_part(bucket, buckets_.buffer_of(bucket));
  }

  void use(Plan plan) {
    if (in_pass_) throw StateError(at("use") + ": a pass is under way");
    const BucketStore old = std::exchange(buckets_, BucketStore(setup_, std::move(plan)));
    agreed_ = false;
    for (int i = 0; i < std::ssize(states_) && !options().lazy; ++i) {
      if (!states_[static_cast<std::size_t>(i)].held || is_sparse(i)) continue;
      if (old.bucket_of(i) >= 0 && buckets_.bucket_of(i) >= 0)
        setup_.memory->copy_divided(old.slot_of(i), buckets_.slot_of(i), 1);
    }
  }
  [[nodiscard]] std::int64_t bucket_memory() const { return buckets_.bytes(); }
  [[nodiscard]] const Plan& plan() const { return buckets_.plan(); }
  [[nodiscard]] bool has_rebuilt() const { return rebuilt_; }

 private:
  struct State {
    bool held = false;      // this rank has it in this step
    bool ready = false;     // in this pass, or known to be lacking
    bool lacking = false;   // in this pass
    bool in_order = false;  // is in first_order_
    int times = 0;          // it was ready in this pass
    int times_learned = 0;  // in the first pass
  };

  // ---- the begin of a pass, and its end ----

  // Before everything that some ranks alone take part in.
  void begin_first() {
    if (std::exchange(has_begun_, true)) return;
    for (const Buffer& values : options().initial) share(Launch::What::initial, values);
  }
  void share(Launch::What what, const Buffer& values) {
    note(what, 0, values.dtype, values.count);
    broadcast_from_rank_0(setup_, values);
  }
  void open(bool synchronises) {
    if (synchronises) agree();
    for (const Buffer& buffer : options().buffers)
      if (synchronises) share(Launch::What::buffer, buffer);
    for (State& state : states_) {
      state.ready = state.lacking = false;
      state.times = 0;
    }
    missing_.clear();
    for (const Bucket& bucket : plan().buckets) missing_.push_back(bucket.members);
    next_ = 0;
    ready_ = 0;
    outcome_.most_memory = bucket_memory();
    synchronises_ = synchronises;
    in_pass_ = true;
  }
  // All ranks have one plan, which may be rebuilt after the first step.
  void agree() {
    if (!agreed_) agree_on_plan(setup_, plan());
    agreed_ = true;
    if (!options().rebuild || rebuilt_) return;
    rebuild();
    if (!agreed_) agree_on_plan(setup_, plan());
    agreed_ = true;
  }
  // Rank 0 says whether it knows an order in which gradients are ready, and which.
  void rebuild() {
    std::vector<std::int64_t> message{first_order_.empty() ? 0 : 1};
    for (const int gradient : first_order_) message.push_back(gradient);
    for (std::size_t i = 0; i < states_.size(); ++i)
      if (buckets_.bucket_of(static_cast<int>(i)) >= 0 && !states_[i].in_order)
        message.push_back(static_cast<std::int64_t>(i));
    note(Launch::What::order, 0, DType::i64, std::ssize(message));
    setup_.groups.front()->broadcast({message.data(), std::ssize(message), DType::i64}, 0, options().timeout);
    if (message.front() == 0) return;
    use(options().rebuild(std::vector<int>(message.begin() + 1, message.end())));
    rebuilt_ = true;
  }
  int count_present(std::int64_t own) {
    note(Launch::What::presence, 0, DType::i64, 1);
    const Buffer buffer{&own, 1, DType::i64};
    setup_.groups.front()->all_reduce(buffer, buffer, comm::ReduceOp::sum, options().timeout);
    return static_cast<int>(own);
  }
  void mark_lacking(int gradient) {
    State& state = states_[static_cast<std::size_t>(gradient)];
    if (state.ready) return;  // said twice
    state.lacking = true;
    mark_ready(gradient);
  }
  [[nodiscard]] bool is_learning() const { return options().unused == Unused::static_graph && !learned_; }
  // Whether more is added to a gradient in this pass.
  [[nodiscard]] bool comes_again(const State& state) const {
    return options().unused == Unused::static_graph && (!learned_ || state.times < state.times_learned);
  }
  void finish_gradients() {
    std::vector<std::string> late;
    for (int i = 0; i < std::ssize(states_); ++i) {
      if (buckets_.bucket_of(i) < 0 || states_[static_cast<std::size_t>(i)].ready) continue;
      if (is_learning())
        mark_ready(i);
      else
        late.push_back(name(i));
    }
    if (late.empty()) return;
    in_pass_ = false;
    reduced_ = true;
    throw StateError(at("finish") + fmt::format(": {} of {} gradients never got ready in this pass: {}; those that it "
                                                "does not produce must be said to be unused",
                                                late.size(), states_.size(), ReducerSetup::listed(late)));
  }
  void start_used() {
    if (!used_.exchanges()) return;
    std::vector<bool> held;
    for (const State& state : states_) held.push_back(state.held);
    used_.start(held);
    for (std::size_t group = 0; group < setup_.groups.size(); ++group)
      note(Launch::What::used, static_cast<int>(group), DType::i32, used_.count_in(group));
  }
  void note(Launch::What what, int group, DType dtype, std::int64_t elements, int bucket = -1) {
    outcome_.launches.push_back({.what = what,
                                 .bucket = bucket,
                                 .group = group,
                                 .dtype = dtype,
                                 .elements = elements,
                                 .ready_before = what == Launch::What::bucket ? ready_ : 0});
  }

  // ---- of one bucket ----

  [[nodiscard]] Divisors divisors(int bucket) const {
    const bool counts = options().join && options().join_divisor == JoinDivisor::present_ranks;
    return divisors_of(setup_, buckets_[bucket], counts ? present_ : 0);
  }
  // Whether a bucket is reduced in the caller's memory: where that has all of it.
  [[nodiscard]] bool is_in_place(int bucket) const {
    if (!copies() || buckets_.is_sparse(bucket) || options().wire || options().hook.start) return false;
    if (buckets_[bucket].members != 1) return false;
    const int gradient = buckets_.members_of(bucket).front().gradient;
    return states_[static_cast<std::size_t>(gradient)].held &&
           setup_.gradient(gradient).elements == buckets_[bucket].elements;
  }
  // No two ranks see at once that an exchange is over, so not where finishing it exchanges more.
  [[nodiscard]] bool may_finish_early(const Flight& flight) const {
    return (options().reduced || options().lazy) && !exchange_.finish_exchanges() && !buckets_.is_sparse(flight.bucket);
  }
  [[nodiscard]] SparseSum& sum_of(int bucket) { return sparse_.at(buckets_.members_of(bucket).front().gradient); }
  void finish_sparse(Flight& flight) {
    Communicator& group = buckets_.group_of(flight.bucket);
    const bool averages = flight.divisors.op == comm::ReduceOp::avg;
    exchange_.wait(buckets_, flight);
    sum_of(flight.bucket)
        .finish(group, averages ? 1 : flight.divisors.before, averages ? group.size() : flight.divisors.after,
                options().timeout);
  }
  void ensure_memory(int bucket) {
    if (buckets_.ensure_memory(bucket)) outcome_.most_memory = std::max(outcome_.most_memory, bucket_memory());
  }
  // Where this rank lacks a gradient, the bucket has its only result.
  void give_back(int bucket) {
    if (!options().lazy) return;
    const auto is_held = [&](const Member& member) { return states_[static_cast<std::size_t>(member.gradient)].held; };
    if (std::ranges::all_of(buckets_.members_of(bucket), is_held)) buckets_.give_back(bucket);
  }

  // ---- of one gradient: taking it, or rejecting it ----

  void take(int gradient, const std::optional<Buffer>& values) {
    if (!copies()) {
      if (!values || values->data == view(gradient).data) return;
      setup_.memory->copy_divided(*values, view(gradient), 1);
      outcome_.copied_in += static_cast<std::int64_t>(values->bytes());
      return;
    }
    if (!values)
      throw InvalidArgument(
          at("ready") +
          fmt::format(": gradient '{}' lies in memory of the caller's, and none was given", name(gradient)));
    if (const std::optional<int> other = caller_.hold(gradient, *values))
      throw InvalidArgument(at("ready") +
                            fmt::format(": the gradients '{}' and '{}' share memory, in which they are reduced",
                                        name(*other), name(gradient)));
  }
  void take_rows(int gradient, const SparseRows& rows) {
    try {
      sparse_.at(gradient).take(rows);
    } catch (const InvalidArgument& error) {
      throw InvalidArgument(at("ready") + fmt::format(": '{}', {}", name(gradient), error.what()));
    }
  }
  void check_range(int gradient) const {
    const bool sparse = is_sparse(gradient);
    if (!options().largest || !comm::is_floating(setup_.gradient(gradient).dtype)) return;
    const comm::ConstBuffer values = sparse     ? sparse_.at(gradient).rows().values
                                     : copies() ? caller_.of(gradient)
                                                : view(gradient);
    const std::optional<std::int64_t> outside = first_outside(values, *options().largest);
    if (!outside) return;
    const auto* const one =
        static_cast<const std::byte*>(values.data) + static_cast<std::size_t>(*outside) * comm::size_of(values.dtype);
    double value = 0;
    setup_.memory->copy_divided({one, 1, values.dtype}, {&value, 1, DType::f64}, 1);
    throw InvalidArgument(
        at("ready") + fmt::format(": the gradient of '{}' has {} at element {}{}; magnitudes up to {} "
                                  "are reduced",
                                  name(gradient), value, *outside, sparse ? " of its rows" : "", *options().largest));
  }
  void check_known(int gradient, const char* operation) const {
    if (gradient < 0 || gradient >= std::ssize(states_))
      throw OutOfRange(at(operation) +
                       fmt::format(": gradient {}; there are 0 to {}", gradient, std::ssize(states_) - 1));
    if (buckets_.bucket_of(gradient) < 0)
      throw InvalidArgument(at(operation) + fmt::format(": gradient '{}' is in no bucket of the plan", name(gradient)));
  }
  State& checked(int gradient) {
    check_known(gradient, "ready");
    State& state = states_[static_cast<std::size_t>(gradient)];
    if (!in_pass_)
      throw StateError(at("ready") + fmt::format(": gradient '{}' is ready, and no pass is under way", name(gradient)));
    if (state.lacking)
      throw StateError(at("ready") + fmt::format(": gradient '{}' is ready, which {} unused", name(gradient),
                                                 options().unused == Unused::static_graph ? "in the first pass was"
                                                                                          : "was said to be"));
    return state;
  }
  void check_kind(int gradient, bool as_rows) const {
    if (as_rows == is_sparse(gradient)) return;
    throw InvalidArgument(at("ready") + fmt::format(": gradient '{}' is planned as {}, and comes as {}", name(gradient),
                                                    as_rows ? "dense" : "sparse", as_rows ? "rows" : "a whole"));
  }
  void check_values(int gradient, const Buffer& values) const {
    const Gradient& one = setup_.gradient(gradient);
    const bool same_count = values.count == setup_.numbers_of(gradient);
    if (same_count && values.dtype == one.dtype && values.device == one.device) return;
    throw InvalidArgument(at("ready") +
                          fmt::format(": the gradient of '{}' has {} numbers of {} on {}, the parameter {} "
                                      "of {} on {}",
                                      name(gradient), values.count, comm::name_of(values.dtype), name_of(values.device),
                                      setup_.numbers_of(gradient), comm::name_of(one.dtype), name_of(one.device)));
  }
  void check_unused(int gradient, const char* operation) const {
    check_known(gradient, operation);
    if (options().unused != Unused::find_unused && options().unused != Unused::zeros)
      throw InvalidArgument(at(operation) +
                            fmt::format(": '{}' is said to be unused, which is not looked at here", name(gradient)));
  }
  void require_memory(int bucket, const char* operation) const {
    if (buckets_.has_memory(bucket)) return;
    throw StateError(at(operation) + fmt::format(": the bucket of {} has no memory now", buckets_.named(bucket)));
  }

  [[nodiscard]] const ReducerOptions& options() const { return setup_.options; }
  [[nodiscard]] std::string at(const char* operation) const { return setup_.at(operation); }
  [[nodiscard]] std::string name(int gradient) const { return setup_.name(gradient); }
  [[nodiscard]] bool copies() const { return setup_.copies(); }
  [[nodiscard]] bool is_sparse(int gradient) const { return setup_.gradient(gradient).sparse; }

  ReducerSetup setup_;
  BucketStore buckets_{setup_};
  BucketExchange exchange_{setup_};
  UsedGradients used_{setup_};
  CallerMemory caller_{setup_.gradients.size()};
  std::map<int, SparseSum> sparse_;                                          // by gradient
  std::vector<State> states_ = std::vector<State>(setup_.gradients.size());  // by gradient
  std::vector<int> first_order_;                                             // of gradients' being ready
  std::vector<int> missing_;                                                 // members, by bucket
  int next_ = 0;                                                             // bucket to be started
  std::vector<Flight> flights_;
  Outcome outcome_;
  int ready_ = 0, passes_ = 0, present_ = 0;
  bool in_pass_ = false, synchronises_ = false, reduced_ = false, agreed_ = false, rebuilt_ = false, learned_ = false,
       has_begun_ = false;
};

Reducer::Reducer(std::vector<Communicator*> groups, std::vector<Gradient> gradients, Plan plan, ReducerOptions options)
    : impl_(std::make_unique<Impl>(std::move(groups), std::move(gradients), std::move(plan), std::move(options))) {}
Reducer::~Reducer() = default;
void Reducer::begin(const Pass& pass) { impl_->begin(pass); }
void Reducer::ready(int gradient) { impl_->ready(gradient, {}); }
void Reducer::ready(int gradient, comm::Buffer values) { impl_->ready(gradient, values); }
void Reducer::ready(int gradient, const SparseRows& rows) { impl_->ready(gradient, {}, &rows); }
SparseRows Reducer::rows(int gradient) const { return impl_->rows(gradient); }
void Reducer::mark_unused(int gradient) { impl_->mark_unused(gradient); }
const Outcome& Reducer::finish() { return impl_->finish(); }
void Reducer::clear() { impl_->clear(); }
bool Reducer::join_step() { return impl_->join_step(); }
int Reducer::join(const std::function<void(const Outcome&)>& after_each) { return impl_->join(after_each); }
comm::Buffer Reducer::view(int gradient) const { return impl_->view(gradient); }
comm::Buffer Reducer::results(int bucket) const { return impl_->results(bucket); }
void Reducer::use(Plan plan) { impl_->use(std::move(plan)); }
std::int64_t Reducer::bucket_memory() const { return impl_->bucket_memory(); }
const Plan& Reducer::plan() const { return impl_->plan(); }
bool Reducer::has_rebuilt() const { return impl_->has_rebuilt(); }

}  // namespace plumbline::bucketing
