#include "reference/bucketing/reducer.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "reference/comm/call.hpp"
#include "reference/comm/errors.hpp"

namespace plumbline::bucketing {
namespace {

using comm::Buffer;
using comm::Communicator;
using comm::DType;

// A bucket's part of the memory, which may be taken and given back.
class Held {
 public:
  explicit Held(std::int64_t bytes) : bytes_(static_cast<std::size_t>(bytes)) {}
  /// Whether it had none.
  bool ensure(BucketMemory& memory) {
    if (data_) return false;
    data_ = memory.allocate(bytes_);
    return true;
  }
  void give_back() { data_.reset(); }
  /// Nothing where it has none.
  [[nodiscard]] std::byte* data() const { return data_.get(); }
  [[nodiscard]] std::int64_t bytes() const { return data_ ? static_cast<std::int64_t>(bytes_) : 0; }

 private:
  std::size_t bytes_;
  std::shared_ptr<std::byte> data_;
};

std::int64_t reals_of(const Gradient& gradient) { return gradient.elements * gradient.components_per_element; }

std::string names_of(std::span<const std::string> list) {
  constexpr std::size_t most = 8;
  const std::size_t shown = std::min(most, list.size());
  std::string text =
      fmt::format("'{}'", fmt::join(list.begin(), list.begin() + static_cast<std::ptrdiff_t>(shown), "', '"));
  if (list.size() > shown) text += fmt::format(" and {} more", list.size() - shown);
  return text;
}

}  // namespace

class Reducer::Impl {
 public:
  Impl(std::vector<Communicator*> groups, std::vector<Gradient> gradients, Plan plan, ReducerOptions options,
       const ReducerSteps& steps)
      : groups_(std::move(groups)),
        gradients_(std::move(gradients)),
        options_(std::move(options)),
        steps_(steps),
        place_(options_.place ? options_.place : host_memory()),
        states_(gradients_.size()) {
    check_options();
    for (std::size_t i = 0; i < gradients_.size(); ++i) {
      check_gradient(static_cast<int>(i));
      const Gradient& one = gradients_[i];
      if (one.sparse) sparse_.emplace(static_cast<int>(i), SparseSum(reals_of(one), one.dtype, steps_.sparse));
    }
    adopt(std::move(plan));
    for (int i = 0; options_.wire && i < options_.wire_buffers; ++i) wires_.push_back({});
    share_initial(false);
  }

  void begin(const Pass& pass) {
    if (in_pass_) throw StateError(at("begin") + ": a pass is under way");
    if (reduced_)
      throw StateError(
          at("begin") +
          ": the gradients of this step have been reduced; clear() ends a step, and only its last pass may "
          "synchronise");
    for (const int gradient : pass.unused) check_unused(gradient, "begin");
    const bool synchronises = steps_.reduces(pass.synchronise, passes_);
    outcome_ = {};
    begin_first();
    if (synchronises && options_.join) present_ = count_present(1);
    open(synchronises, steps_.broadcasts_buffers(pass.synchronise));
    for (const int gradient : pass.unused) mark_lacking(gradient);
    if (options_.unused == Unused::static_graph && learned_)
      for (std::size_t i = 0; i < states_.size(); ++i)
        if (states_[i].bucket >= 0 && states_[i].times_learned == 0) mark_lacking(static_cast<int>(i));
  }

  void ready(int gradient, std::optional<Buffer> values, const SparseRows* rows = nullptr) {
    State& state = checked(gradient);
    check_kind(gradient, rows != nullptr);
    if (values) check_values(gradient, *values);
    if (state.times > 0 && !may_come_again(state))
      throw StateError(at("ready") + fmt::format(": gradient '{}' was ready before in this pass", name(gradient)));
    if (rows != nullptr)
      take_rows(gradient, *rows);
    else
      take(gradient, values);  // or refuse it: nothing has happened then
    ++state.times;
    state.held = true;
    note_order(gradient);
    if (options_.unused == Unused::static_graph && (!learned_ || steps_.comes_again(state.times, state.times_learned)))
      return;
    if (!state.ready) settle(gradient);
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
      settle_the_rest();
      launch_what_may_start(true);
      start_used_map();
      while (!flights_.empty()) complete_first();
      take_used_map();
      reduced_ = true;
      ++synchronised_steps_;
    }
    if (!learned_) {
      for (State& state : states_) state.times_learned = state.times;
      learned_ = true;
    }
    outcome_.synchronised = synchronises_;
    if (synchronises_ && options_.join) outcome_.present = present_;
    in_pass_ = false;
    ++passes_;
    return outcome_;
  }

  void clear() {
    if (in_pass_) throw StateError(at("clear") + ": a pass is under way");
    for (State& state : states_) {
      state.held = false;
      state.source = {};
    }
    held_memory_.clear();
    for (auto& [gradient, sum] : sparse_) sum.clear();
    for (Held& memory : memory_)
      if (options_.lazy) memory.give_back();
    reduced_ = false;
    passes_ = 0;
  }

  bool join_step() {
    if (!options_.join) throw StateError(at("join") + ": the reducer was made without the option to join");
    clear();
    outcome_ = {};
    begin_first();
    present_ = count_present(0);
    if (present_ == 0) return false;
    open(true, steps_.broadcasts_buffers(true));
    for (std::size_t i = 0; i < states_.size(); ++i)
      if (states_[i].bucket >= 0) mark_lacking(static_cast<int>(i));
    finish();
    return true;
  }
  int join(const std::function<void(const Outcome&)>& after_each) {
    int steps = 0;
    for (; join_step(); ++steps)
      if (after_each) after_each(outcome_);
    return steps;
  }

  [[nodiscard]] Buffer view(int gradient) const {
    const State& state = known(gradient, "view");
    if (is_sparse(gradient))
      throw InvalidArgument(at("view") + fmt::format(": gradient '{}' is sparse; it has rows", name(gradient)));
    require_memory(state.bucket, "view");
    return part_of(bucket_buffer(state.bucket), state.begin, reals_of(gradients_[static_cast<std::size_t>(gradient)]));
  }

  [[nodiscard]] SparseRows rows(int gradient) const {
    (void)known(gradient, "rows");
    if (!is_sparse(gradient))
      throw InvalidArgument(at("rows") + fmt::format(": gradient '{}' is dense; it has a view", name(gradient)));
    return sparse_.at(gradient).rows();
  }

  void use(Plan plan) {
    if (in_pass_) throw StateError(at("use") + ": a pass is under way");
    const Plan old_plan = std::move(plan_);
    const std::vector<Held> old_memory = std::move(memory_);
    const std::vector<State> old = states_;
    adopt(std::move(plan));
    if (options_.lazy || !steps_.carries(passes_)) return;
    for (std::size_t i = 0; i < states_.size(); ++i) {
      if (!old[i].held || old[i].bucket < 0 || states_[i].bucket < 0 || gradients_[i].sparse) continue;
      const Bucket& bucket = old_plan.buckets[static_cast<std::size_t>(old[i].bucket)];
      const Buffer whole{old_memory[static_cast<std::size_t>(old[i].bucket)].data(),
                         bucket.elements * bucket.components_per_element, bucket.dtype, bucket.device};
      const Buffer to = view(static_cast<int>(i));
      place_->copy_divided(part_of(whole, old[i].begin, to.count), to, 1);
    }
  }
  [[nodiscard]] Buffer results(int bucket) const {
    if (bucket < 0 || static_cast<std::size_t>(bucket) >= plan_.buckets.size())
      throw OutOfRange(at("results") + fmt::format(": bucket {}; there are {}", bucket, plan_.buckets.size()));
    const Bucket& one = plan_.buckets[static_cast<std::size_t>(bucket)];
    if (is_sparse_bucket(one))
      throw InvalidArgument(at("results") + fmt::format(": bucket {} is that of '{}', which is sparse; it has rows",
                                                        bucket, name(plan_.members_of(one).front().gradient)));
    require_memory(bucket, "results");
    return own_part(bucket, bucket_buffer(bucket));
  }
  [[nodiscard]] std::int64_t bucket_memory() const {
    std::int64_t bytes = 0;
    for (const Held& memory : memory_) bytes += memory.bytes();
    return bytes;
  }
  [[nodiscard]] const Plan& plan() const { return plan_; }
  [[nodiscard]] bool has_rebuilt() const { return rebuilt_; }
  [[nodiscard]] const Outcome& outcome() const { return outcome_; }

 private:
  struct State {
    int bucket = -1;         // none: not reduced
    int member = 0;          // in the bucket
    std::int64_t begin = 0;  // in the bucket's numbers, where it is read and written by the caller
    bool held = false;       // this rank has it in this step
    bool ready = false;      // in this pass, or known to be lacking
    bool lacking = false;    // in this pass
    bool in_order = false;   // is in first_order_
    int times = 0;           // it was ready in this pass
    int times_learned = 0;   // in the first pass
    Buffer source{};         // the caller's memory
  };
  struct Flight {
    int bucket;
    comm::Work work;
    Divisors divisors;
    int wire = -1;
    bool in_place = false;  // of the caller's
  };
  struct Wire {
    std::shared_ptr<std::byte> memory;
    std::size_t bytes = 0;
    int bucket = -1;  // in use for
  };

  [[nodiscard]] bool is_sparse(int gradient) const { return gradients_[static_cast<std::size_t>(gradient)].sparse; }

  // ---- what is refused ----

  void check_kind(int gradient, bool as_rows) const {
    if (as_rows == is_sparse(gradient)) return;
    throw InvalidArgument(at("ready") + fmt::format(": gradient '{}' is planned as {}, and comes as {}", name(gradient),
                                                    as_rows ? "dense" : "sparse", as_rows ? "rows" : "a whole"));
  }
  [[nodiscard]] std::string at(const char* operation) const {
    const Communicator& group = *groups_.front();
    return fmt::format("reducer, {}, rank {} of group {}", operation, group.rank(), group.group().name);
  }
  [[nodiscard]] std::string name(int gradient) const {
    const auto i = static_cast<std::size_t>(gradient);
    return i < options_.names.size() ? options_.names[i] : fmt::format("gradient {}", gradient);
  }
  void check_options() const {
    if (groups_.empty() || std::ranges::count(groups_, nullptr) > 0)
      throw InvalidArgument("reducer: there must be a group for every number of a group");
    const auto refuse = [&](const std::string& why) { throw InvalidArgument(at("options") + ": " + why); };
    if (!options_.names.empty() && options_.names.size() != gradients_.size())
      refuse(fmt::format("{} names for {} gradients", options_.names.size(), gradients_.size()));
    check_across();
    if (options_.lazy && !copies()) refuse("buckets in which gradients live have their memory from the start");
    for (std::size_t i = 0; i < groups_.size(); ++i)
      if (options_.split && (options_.split->before < 1 || options_.split->after < 1 ||
                             std::int64_t{options_.split->before} * options_.split->after != ranks_of(i)))
        refuse(fmt::format("division by {} before and by {} after: the product must be the {} ranks of group {}",
                           options_.split->before, options_.split->after, ranks_of(i), groups_[i]->group().name));
    check_divisors();
    if (options_.split && options_.join_divisor == JoinDivisor::present_ranks)
      refuse("a division that is split is not one by the ranks that are present");
    if (options_.wire && !comm::is_floating(*options_.wire))
      refuse(fmt::format("gradients do not travel as {}", comm::name_of(*options_.wire)));
    if (options_.wire && options_.wire_buffers < 1)
      refuse(fmt::format("{} buffers for compressed buckets; 1 or more are needed", options_.wire_buffers));
    for (const comm::Communicator* group : groups_)
      if (const auto& kinds = group->capabilities().devices; std::ranges::count(kinds, place_->device().kind) == 0)
        throw Unsupported(at("options") +
                          fmt::format(": buckets lie on {}, whose memory group {} of backend {} does not take",
                                      name_of(place_->device()), group->group().name, group->capabilities().backend));
    if (!is_on_host() && (options_.hook.start || options_.largest))
      throw Unsupported(at("options") +
                        fmt::format(": gradients lie on {}; hooks, and a largest number, are of host memory",
                                    name_of(place_->device())));
    if (options_.wire && options_.hook.start) refuse("a hook says itself how buckets travel: no type beside it");
    if (groups_.size() > 1 && (options_.rebuild || options_.join))
      refuse("plans are rebuilt, and ranks join, in one group alone");
    if (options_.reduced && (options_.unused == Unused::find_unused || options_.unused == Unused::static_graph))
      refuse("buckets are told of as they are reduced, where it is known only at the end which gradients are there");
    if (is_sharded() && (copies() || options_.hook.start || options_.rebuild))
      refuse(
          "results are shared out of buckets that gradients live in, as they were planned, and that no hook exchanges");
    if (is_sharded() && (options_.unused == Unused::find_unused || options_.unused == Unused::static_graph))
      refuse("results are shared out where it is known beforehand which gradients there are");
    if (options_.join && options_.unused == Unused::static_graph)
      refuse("a rank without rows has no gradients: which a step has is not learned from one where ranks join");
  }
  [[nodiscard]] bool is_on_host() const { return place_->device().kind == comm::Device::Kind::cpu; }
  // Those whose gradients are added: of all instances.
  [[nodiscard]] int ranks_of(std::size_t group) const {
    return groups_[group]->size() * (options_.inter_instance.empty() ? 1 : options_.inter_instance[group]->size());
  }
  void check_across() const {
    if (options_.inter_instance.empty()) return;
    const auto refuse = [&](const std::string& why) { throw InvalidArgument(at("options") + ": " + why); };
    if (options_.inter_instance.size() != groups_.size() || std::ranges::count(options_.inter_instance, nullptr) > 0)
      refuse(fmt::format("{} groups across instances for {} groups", options_.inter_instance.size(), groups_.size()));
    if (!is_sharded() || options_.join)
      refuse("groups across instances are of results that are shared out, of ranks that all have rows");
  }
  void check_divisors() const {
    if (options_.divisors.empty()) return;
    const auto refuse = [&](const std::string& why) { throw InvalidArgument(at("options") + ": " + why); };
    if (options_.divisors.size() != groups_.size())
      refuse(fmt::format("{} divisors for {} groups", options_.divisors.size(), groups_.size()));
    for (std::size_t i = 0; i < groups_.size(); ++i)
      if (options_.divisors[i] < 1)
        refuse(fmt::format("sums over group {} divided by {}; 1 or more are possible", groups_[i]->group().name,
                           options_.divisors[i]));
    if (!options_.average || options_.split || options_.join)
      refuse("divisors of groups are of averages that are divided once, of ranks that all have rows");
  }
  void check_gradient(int gradient) const {
    const Gradient& one = gradients_[static_cast<std::size_t>(gradient)];
    const auto where = [&] { return at("gradients") + fmt::format(": '{}'", name(gradient)); };
    if (one.elements < 0) throw InvalidArgument(where() + fmt::format(" has {} elements", one.elements));
    if (one.components_per_element < 1 || one.components_per_element > 2)
      throw InvalidArgument(where() +
                            fmt::format(" has {} numbers in an element; 1 or 2 are there", one.components_per_element));
    if (one.group < 0 || static_cast<std::size_t>(one.group) >= groups_.size())
      throw InvalidArgument(where() + fmt::format(" is of group {}; there are {}", one.group, groups_.size()));
    if (one.sparse && (options_.hook.start || is_sharded()))
      throw Unsupported(where() + " is sparse; no hook exchanges it, and its sum is everywhere");
    if (one.sparse && one.dtype != DType::f32 && one.dtype != DType::f64)
      throw Unsupported(where() + fmt::format(" is sparse and of {}; f32 and f64 are added", comm::name_of(one.dtype)));
    if (one.device != place_->device())
      throw Unsupported(where() + fmt::format(" lies on {}; gradients in memory of {} are reduced", name_of(one.device),
                                              name_of(place_->device())));
    if (one.sparse && !is_on_host())
      throw Unsupported(where() +
                        fmt::format(" is sparse and lies on {}; rows are added in host memory", name_of(one.device)));
    if (options_.average && !options_.hook.start && !comm::is_floating(one.dtype))
      throw Unsupported(where() + fmt::format(" is of {}, of which there is no average", comm::name_of(one.dtype)));
  }
  void check_bucket(const Plan& plan, const Bucket& bucket, std::vector<bool>& seen) const {
    std::vector<Member> members(plan.members_of(bucket).begin(), plan.members_of(bucket).end());
    std::ranges::sort(members, {}, &Member::begin);
    std::int64_t end = 0;
    const auto most = std::numeric_limits<std::int64_t>::max() / static_cast<std::int64_t>(comm::size_of(bucket.dtype));
    if (bucket.components_per_element < 1 || bucket.components_per_element > 2 || bucket.elements < 0 ||
        bucket.elements > most / bucket.components_per_element)
      throw InvalidArgument(at("plan") +
                            fmt::format(": a bucket of {} elements of {} numbers; their bytes are 0 or more, "
                                        "in 64 bits",
                                        bucket.elements, bucket.components_per_element));
    if (bucket.group < 0 || static_cast<std::size_t>(bucket.group) >= groups_.size())
      throw InvalidArgument(at("plan") +
                            fmt::format(": a bucket of group {}; there are {}", bucket.group, groups_.size()));
    if (const int ranks = groups_[static_cast<std::size_t>(bucket.group)]->size();
        is_sharded() && bucket.elements % ranks != 0)
      throw InvalidArgument(at("plan") +
                            fmt::format(": a bucket of {} elements, which are not shared out among {} ranks "
                                        "in equal parts; it must be padded",
                                        bucket.elements, ranks));
    for (const Member& member : members) {
      const auto refuse = [&](const std::string& why) {
        throw InvalidArgument(at("plan") + fmt::format(": '{}' {}", name(member.gradient), why));
      };
      if (member.gradient < 0 || static_cast<std::size_t>(member.gradient) >= gradients_.size())
        throw InvalidArgument(at("plan") + fmt::format(": gradient {} of {}", member.gradient, gradients_.size()));
      const Gradient& gradient = gradients_[static_cast<std::size_t>(member.gradient)];
      if (seen[static_cast<std::size_t>(member.gradient)]) refuse("is reduced twice");
      seen[static_cast<std::size_t>(member.gradient)] = true;
      if (gradient.dtype != bucket.dtype || gradient.components_per_element != bucket.components_per_element)
        refuse(fmt::format("is of {}, its bucket of {}", comm::name_of(gradient.dtype), comm::name_of(bucket.dtype)));
      if (gradient.device != bucket.device)
        refuse(fmt::format("lies on {}, its bucket on {}", name_of(gradient.device), name_of(bucket.device)));
      if (gradient.sparse && bucket.members != 1)
        refuse(fmt::format("is sparse, and has a bucket with {} others", bucket.members - 1));
      if (gradient.group != bucket.group)
        refuse(fmt::format("is of group {}, its bucket of {}", gradient.group, bucket.group));
      if (member.begin < end || member.begin > bucket.elements - gradient.elements)  // their sum may not fit 64 bits
        refuse(fmt::format("has {} elements from {} on in a bucket of {}, where {} are taken or there are no more",
                           gradient.elements, member.begin, bucket.elements, end));
      end = member.begin + gradient.elements;
    }
  }
  const State& known(int gradient, const char* operation) const {
    if (gradient < 0 || static_cast<std::size_t>(gradient) >= states_.size())
      throw OutOfRange(at(operation) + fmt::format(": gradient {}; there are 0 to {}", gradient,
                                                   static_cast<std::int64_t>(states_.size()) - 1));
    const State& state = states_[static_cast<std::size_t>(gradient)];
    if (state.bucket < 0)
      throw InvalidArgument(at(operation) + fmt::format(": gradient '{}' is in no bucket of the plan", name(gradient)));
    return state;
  }
  State& checked(int gradient) {
    (void)known(gradient, "ready");
    State& state = states_[static_cast<std::size_t>(gradient)];
    if (!in_pass_)
      throw StateError(at("ready") + fmt::format(": gradient '{}' is ready, and no pass is under way", name(gradient)));
    if (state.lacking)
      throw StateError(at("ready") + fmt::format(": gradient '{}' is ready, which {} unused", name(gradient),
                                                 options_.unused == Unused::static_graph ? "in the first pass was"
                                                                                         : "was said to be"));
    return state;
  }
  void check_values(int gradient, const Buffer& values) const {
    const Gradient& one = gradients_[static_cast<std::size_t>(gradient)];
    if (steps_.fits(values.count == reals_of(one), values.dtype == one.dtype && values.device == one.device)) return;
    throw InvalidArgument(at("ready") +
                          fmt::format(": the gradient of '{}' has {} numbers of {} on {}, the parameter {} "
                                      "of {} on {}",
                                      name(gradient), values.count, comm::name_of(values.dtype), name_of(values.device),
                                      reals_of(one), comm::name_of(one.dtype), name_of(one.device)));
  }
  void check_unused(int gradient, const char* operation) const {
    (void)known(gradient, operation);
    if (options_.unused != Unused::find_unused && options_.unused != Unused::zeros)
      throw InvalidArgument(at(operation) +
                            fmt::format(": '{}' is said to be unused, which is not looked at here", name(gradient)));
  }

  void require_memory(int bucket, const char* operation) const {
    if (memory_[static_cast<std::size_t>(bucket)].data() != nullptr) return;
    throw StateError(at(operation) + fmt::format(": the bucket of {} has no memory now", members_named(bucket)));
  }
  [[nodiscard]] std::string members_named(int bucket) const {
    std::vector<std::string> names;
    for (const Member& member : plan_.members_of(plan_.buckets[static_cast<std::size_t>(bucket)]))
      names.push_back(name(member.gradient));
    return names_of(names);
  }

  // ---- plans ----

  void adopt(Plan plan) {
    std::vector<bool> seen(gradients_.size(), false);
    for (const Bucket& bucket : plan.buckets) {
      if (bucket.first_member < 0 || bucket.members < 0 ||
          std::int64_t{bucket.first_member} + bucket.members > std::ssize(plan.members))
        throw InvalidArgument(at("plan") + ": a bucket has members that the plan has not");
      check_bucket(plan, bucket, seen);
    }
    plan_ = std::move(plan);
    memory_.clear();
    for (State& state : states_) state.bucket = -1;
    for (std::size_t k = 0; k < plan_.buckets.size(); ++k) {
      const Bucket& bucket = plan_.buckets[k];
      memory_.emplace_back(is_sparse_bucket(bucket) ? 0 : bucket.bytes());
      if (!options_.lazy) memory_.back().ensure(*place_);
      for (int member = 0; member < bucket.members; ++member) {
        const Member& one = plan_.members_of(bucket)[static_cast<std::size_t>(member)];
        State& state = states_[static_cast<std::size_t>(one.gradient)];
        state.bucket = static_cast<int>(k);
        state.member = member;
        state.begin = steps_.place_out(plan_, bucket, member) * bucket.components_per_element;
      }
    }
    order_ = steps_.order(plan_, *groups_.front());
    agreed_ = false;
  }
  [[nodiscard]] bool is_sparse_bucket(const Bucket& bucket) const {
    return bucket.members == 1 && is_sparse(plan_.members_of(bucket).front().gradient);
  }
  [[nodiscard]] Buffer bucket_buffer(int bucket) const {
    const Bucket& one = plan_.buckets[static_cast<std::size_t>(bucket)];
    return {memory_[static_cast<std::size_t>(bucket)].data(), one.elements * one.components_per_element, one.dtype,
            one.device};
  }
  [[nodiscard]] Communicator& group_of(int bucket) const {
    return *groups_[static_cast<std::size_t>(plan_.buckets[static_cast<std::size_t>(bucket)].group)];
  }
  // What concerns one group, in numbers that its members share.
  void agree() {
    for (int group = 0; group < static_cast<int>(groups_.size()); ++group) {
      Plan plan;
      std::vector<Gradient> gradients;
      std::vector<std::string> names;
      std::vector<int> numbers(gradients_.size(), -1);
      for (std::size_t i = 0; i < gradients_.size(); ++i) {
        if (gradients_[i].group != group) continue;
        numbers[i] = static_cast<int>(gradients.size());
        gradients.push_back(gradients_[i]);
        gradients.back().group = 0;
        gradients.back().device.index = 0;  // which device of its kind a rank has is its own affair
        if (!options_.names.empty()) names.push_back(options_.names[i]);
      }
      for (Bucket bucket : plan_.buckets) {
        if (bucket.group != group) continue;
        const auto members = plan_.members_of(bucket);
        bucket.first_member = static_cast<int>(plan.members.size());
        bucket.group = 0;
        bucket.device.index = 0;
        for (Member member : members) {
          member.gradient = numbers[static_cast<std::size_t>(member.gradient)];
          plan.members.push_back(member);
        }
        plan.buckets.push_back(bucket);
      }
      steps_.agree(*groups_[static_cast<std::size_t>(group)], plan, gradients, names, options_.timeout);
      if (!options_.inter_instance.empty())
        steps_.agree(*options_.inter_instance[static_cast<std::size_t>(group)], plan, gradients, names,
                     options_.timeout);
    }
    agreed_ = true;
  }
  void note_order(int gradient) {
    State& state = states_[static_cast<std::size_t>(gradient)];
    if (!std::exchange(state.in_order, true)) first_order_.push_back(gradient);
  }
  // Rank 0 says whether it knows an order, and which.
  void rebuild() {
    std::vector<std::int64_t> message{first_order_.empty() ? 0 : 1};
    std::vector<bool> listed(states_.size(), false);
    for (const int gradient : first_order_) {
      message.push_back(gradient);
      listed[static_cast<std::size_t>(gradient)] = true;
    }
    for (std::size_t i = 0; i < states_.size(); ++i)
      if (states_[i].bucket >= 0 && !listed[i]) message.push_back(static_cast<std::int64_t>(i));
    note(Launch::What::order, 0, DType::i64, static_cast<std::int64_t>(message.size()));
    steps_.agree_on_order(*groups_.front(), message, options_.timeout);
    if (message.front() == 0) return;
    use(options_.rebuild(std::vector<int>(message.begin() + 1, message.end())));
    rebuilt_ = true;
  }

  // ---- a pass ----

  // Ahead of everything that some ranks alone take part in.
  void begin_first() {
    if (!std::exchange(has_begun_, true)) share_initial(true);
  }
  void share_initial(bool first_pass) {
    if (options_.initial.empty() || !steps_.broadcasts_initial(first_pass)) return;
    for (const Buffer& values : options_.initial) {
      note(Launch::What::initial, 0, values.dtype, values.count);
      take_rank_0s(values);
    }
  }
  // The first instance's rank 0 tells the other instances' first.
  void take_rank_0s(const Buffer& values) {
    if (!options_.inter_instance.empty()) options_.inter_instance.front()->broadcast(values, 0, options_.timeout);
    groups_.front()->broadcast(values, 0, options_.timeout);
  }
  void open(bool synchronises, bool broadcasts) {
    if (synchronises) {
      if (!agreed_) agree();
      if (options_.rebuild && !rebuilt_) {
        rebuild();
        if (!agreed_) agree();
      }
    }
    for (const Buffer& buffer : options_.buffers) {
      if (!broadcasts) break;
      note(Launch::What::buffer, 0, buffer.dtype, buffer.count);
      take_rank_0s(buffer);
    }
    for (State& state : states_) {
      state.ready = state.lacking = false;
      state.times = 0;
    }
    missing_.clear();
    for (const Bucket& bucket : plan_.buckets) missing_.push_back(bucket.members);
    next_ = 0;
    ready_ = 0;
    of_step_ = 0;
    outcome_.most_memory = bucket_memory();
    synchronises_ = synchronises;
    in_pass_ = true;
  }
  int count_present(std::int64_t own) {
    note(Launch::What::presence, 0, DType::i64, 1);
    const Buffer buffer{&own, 1, DType::i64};
    groups_.front()->all_reduce(buffer, buffer, comm::ReduceOp::sum, options_.timeout);
    return static_cast<int>(own);
  }
  [[nodiscard]] bool may_come_again(const State& state) const {
    return options_.unused == Unused::static_graph && (!learned_ || state.times < state.times_learned);
  }
  [[nodiscard]] bool is_sharded() const { return options_.results == Results::sharded; }
  // What of a bucket's values, wherever they are, is reduced on this rank.
  [[nodiscard]] Buffer own_part(int bucket, Buffer values) const {
    if (!is_sharded()) return values;
    const Communicator& group = group_of(bucket);
    return equal_part(values, steps_.part_of_rank(group.rank(), group.size()), group.size());
  }
  [[nodiscard]] bool copies() const { return options_.memory == GradientMemory::copies; }
  void ensure_memory(int bucket) {
    if (memory_[static_cast<std::size_t>(bucket)].ensure(*place_))
      outcome_.most_memory = std::max(outcome_.most_memory, bucket_memory());
  }
  void give_back(int bucket) {
    const auto members = plan_.members_of(plan_.buckets[static_cast<std::size_t>(bucket)]);
    const bool has_all = std::ranges::all_of(
        members, [&](const Member& member) { return states_[static_cast<std::size_t>(member.gradient)].held; });
    if (options_.lazy && steps_.gives_back(has_all)) memory_[static_cast<std::size_t>(bucket)].give_back();
  }
  // Where values are copied into the bucket.
  [[nodiscard]] Buffer place_in(int gradient) const {
    const State& state = states_[static_cast<std::size_t>(gradient)];
    const Bucket& bucket = plan_.buckets[static_cast<std::size_t>(state.bucket)];
    return part_of(bucket_buffer(state.bucket),
                   steps_.place_in(plan_, bucket, state.member) * bucket.components_per_element,
                   reals_of(gradients_[static_cast<std::size_t>(gradient)]));
  }
  // Whether a bucket is reduced in the caller's memory: where that has all of it.
  [[nodiscard]] bool is_in_place(int bucket) const {
    const Bucket& one = plan_.buckets[static_cast<std::size_t>(bucket)];
    if (!copies() || is_sparse_bucket(one) || !steps_.reduces_in_place(one.members) || options_.wire ||
        options_.hook.start)
      return false;
    const auto gradient = static_cast<std::size_t>(plan_.members_of(one).front().gradient);
    return states_[gradient].held && gradients_[gradient].elements == one.elements;
  }
  void take(int gradient, const std::optional<Buffer>& values) {
    if (copies()) {
      if (!values)
        throw InvalidArgument(
            at("ready") +
            fmt::format(": gradient '{}' lies in memory of the caller's, and none was given", name(gradient)));
      keep(gradient, *values);
      return;
    }
    if (!values || !steps_.copies_in(values->data == view(gradient).data, synchronised_steps_)) return;
    place_->copy_divided(*values, place_in(gradient), 1);
    outcome_.copied_in += static_cast<std::int64_t>(values->bytes());
  }
  void take_rows(int gradient, const SparseRows& rows) {
    try {
      sparse_.at(gradient).take(rows);
    } catch (const InvalidArgument& error) {
      throw InvalidArgument(at("ready") + fmt::format(": '{}', {}", name(gradient), error.what()));
    }
  }
  // Notes where the caller has a gradient.
  void keep(int gradient, const Buffer& values) {
    Buffer& source = states_[static_cast<std::size_t>(gradient)].source;
    decltype(held_memory_)::node_type before;  // it may come back to where it was
    if (source.count > 0) before = held_memory_.extract(static_cast<const std::byte*>(source.data));
    const std::optional<int> other = gradient_in(values);
    if (!steps_.takes_memory(other.has_value())) {
      held_memory_.insert(std::move(before));
      throw InvalidArgument(at("ready") +
                            fmt::format(": the gradients '{}' and '{}' share memory, in which they are reduced",
                                        name(*other), name(gradient)));
    }
    source = values;
    if (values.count > 0) held_memory_.emplace(static_cast<const std::byte*>(values.data), gradient);
  }
  // One that lies in a part of that memory.
  [[nodiscard]] std::optional<int> gradient_in(const Buffer& values) const {
    const auto* const begin = static_cast<const std::byte*>(values.data);
    const auto end_of = [](const Buffer& buffer) {
      return static_cast<const std::byte*>(buffer.data) + buffer.bytes();
    };
    const auto behind = held_memory_.lower_bound(end_of(values));  // none from here on begins in it
    if (values.count == 0 || behind == held_memory_.begin()) return std::nullopt;
    const int last = std::prev(behind)->second;
    return end_of(states_[static_cast<std::size_t>(last)].source) > begin ? std::optional(last) : std::nullopt;
  }
  // Nothing that is not to be reduced.
  void check_range(int gradient) const {
    const State& state = states_[static_cast<std::size_t>(gradient)];
    const bool sparse = is_sparse(gradient);
    const comm::ConstBuffer values = sparse     ? sparse_.at(gradient).rows().values
                                     : copies() ? state.source
                                                : view(gradient);
    if (!options_.largest || !comm::is_floating(values.dtype)) return;
    const std::optional<std::int64_t> outside = steps_.outside(values, *options_.largest);
    if (!outside) return;
    const auto* const one =
        static_cast<const std::byte*>(values.data) + static_cast<std::size_t>(*outside) * comm::size_of(values.dtype);
    double value = 0;
    place_->copy_divided({one, 1, values.dtype}, {&value, 1, DType::f64}, 1);
    throw InvalidArgument(
        at("ready") + fmt::format(": the gradient of '{}' has {} at element {}{}; magnitudes up to {} "
                                  "are reduced",
                                  name(gradient), value, *outside, sparse ? " of its rows" : "", *options_.largest));
  }
  // The gradient will not change any more in this pass.
  void settle(int gradient) {
    State& state = states_[static_cast<std::size_t>(gradient)];
    state.ready = true;
    ++ready_;
    --missing_[static_cast<std::size_t>(state.bucket)];
    if (!synchronises_) return;
    if (state.held) check_range(gradient);
    if (!is_sparse(gradient) && !is_in_place(state.bucket)) ensure_memory(state.bucket);
    if (is_sparse(gradient)) {
      if (!state.held) sparse_.at(gradient).clear();
    } else if (copies() && state.held && !is_in_place(state.bucket)) {
      place_->copy_divided(state.source, place_in(gradient), fused_divisor(state.bucket));
      outcome_.copied_in += static_cast<std::int64_t>(state.source.bytes());
    } else if (!state.held) {
      steps_.mark_unused(*place_, place_in(gradient));
    }
    if (options_.overlap && !is_learning()) launch_what_may_start(false);
    if (flights_.empty()) return;
    if (flights_.front().work.test() && (options_.reduced || options_.lazy) &&
        steps_.may_complete_early(exchanges_twice(flights_.front())))
      complete_first();
  }
  void mark_lacking(int gradient) {
    State& state = states_[static_cast<std::size_t>(gradient)];
    if (state.ready) return;  // said twice
    state.lacking = true;
    settle(gradient);
  }
  [[nodiscard]] bool is_learning() const { return options_.unused == Unused::static_graph && !learned_; }
  void settle_the_rest() {
    std::vector<std::string> late;
    for (std::size_t i = 0; i < states_.size(); ++i) {
      if (states_[i].bucket < 0 || states_[i].ready) continue;
      if (is_learning())
        settle(static_cast<int>(i));
      else
        late.push_back(name(static_cast<int>(i)));
    }
    if (steps_.may_end(static_cast<int>(late.size()))) return;
    in_pass_ = false;
    reduced_ = true;
    throw StateError(at("finish") + fmt::format(": {} of {} gradients never got ready in this pass: {}; those that it "
                                                "does not produce must be said to be unused",
                                                late.size(), states_.size(), names_of(late)));
  }

  // ---- buckets ----

  [[nodiscard]] Divisors divisors(int bucket) const {
    const bool counts = options_.join && options_.join_divisor == JoinDivisor::present_ranks;
    const auto group = static_cast<std::size_t>(plan_.buckets[static_cast<std::size_t>(bucket)].group);
    return steps_.divisors({.average = options_.average,
                            .split = options_.divisors.empty() ? options_.split : Split{1, options_.divisors[group]},
                            .ranks = ranks_of(group),
                            .present = counts ? present_ : 0,
                            .passes = passes_ + 1,
                            .is_integer = !comm::is_floating(plan_.buckets[static_cast<std::size_t>(bucket)].dtype)});
  }
  // What values are divided by while they are copied in.
  [[nodiscard]] double fused_divisor(int bucket) const { return options_.hook.start ? 1 : divisors(bucket).before; }
  void launch_what_may_start(bool all) {
    for (; next_ < order_.size(); ++next_) {
      const int bucket = order_[next_];
      const Waiting waiting{.members = plan_.buckets[static_cast<std::size_t>(bucket)].members,
                            .missing = missing_[static_cast<std::size_t>(bucket)]};
      if (!all && !steps_.may_start(waiting)) return;
      launch(bucket);
      if (!options_.overlap)
        while (!flights_.empty()) complete_first();
    }
  }
  // Whether what completes a bucket takes part in exchanges of its own.
  [[nodiscard]] bool exchanges_twice(const Flight& flight) const {
    return options_.hook.finish || !options_.inter_instance.empty() ||
           is_sparse_bucket(plan_.buckets[static_cast<std::size_t>(flight.bucket)]);
  }
  [[nodiscard]] SparseSum& sum_of(int bucket) {
    return sparse_.at(plan_.members_of(plan_.buckets[static_cast<std::size_t>(bucket)]).front().gradient);
  }
  Buffer start_sparse(Flight& flight) {
    SparseSum& sum = sum_of(flight.bucket);
    const auto rows = sum.rows().values;
    flight.work = sum.start(group_of(flight.bucket));
    return {nullptr, rows.count, rows.dtype};
  }
  void launch(int bucket) {
    Flight flight{.bucket = bucket, .work = {}, .divisors = divisors(bucket), .in_place = is_in_place(bucket)};
    const bool sparse = is_sparse_bucket(plan_.buckets[static_cast<std::size_t>(bucket)]);
    const Buffer sent = sparse ? start_sparse(flight) : start_dense(flight);
    note(Launch::What::bucket, plan_.buckets[static_cast<std::size_t>(bucket)].group, sent.dtype, sent.count, bucket);
    tell(bucket, false);
    ++of_step_;
    ++of_all_;
    flights_.push_back(std::move(flight));
  }
  Buffer start_dense(Flight& flight) {
    const int bucket = flight.bucket;
    const Buffer values = reduced_buffer(flight);
    Communicator& group = group_of(bucket);
    const double before = copies() && !flight.in_place ? 1 : flight.divisors.before;
    Buffer sent = steps_.exchanged(values, plan_.buckets[static_cast<std::size_t>(bucket)].members);
    if (options_.hook.start) {
      flight.work = options_.hook.start(group, hooked(bucket, sent));
    } else {
      if (options_.wire && comm::is_floating(values.dtype) && values.dtype != *options_.wire) {
        flight.wire = next_wire();
        sent = wire_buffer(flight.wire, values.count);
        place_->copy_divided(values, sent, before);
        wires_[static_cast<std::size_t>(flight.wire)].bucket = bucket;
      } else if (before != 1) {
        place_->copy_divided(values, values, before);
      }
      flight.work = (is_sharded() ? steps_.start_sharded : steps_.start)(group, sent, flight.divisors.op);
    }
    return sent;
  }
  int next_wire() {
    const int wire = steps_.wire_buffer(of_step_, of_all_, options_.wire_buffers);
    const auto in_use =
        static_cast<int>(std::ranges::count_if(wires_, [](const Wire& one) { return one.bucket >= 0; }));
    while (wires_[static_cast<std::size_t>(wire)].bucket >= 0 && steps_.waits_for_wire(in_use, options_.wire_buffers))
      complete_first();
    return wire;
  }
  [[nodiscard]] Buffer wire_buffer(int wire, std::int64_t count) {
    Wire& one = wires_[static_cast<std::size_t>(wire)];
    const std::size_t bytes = static_cast<std::size_t>(count) * comm::size_of(*options_.wire);
    if (one.bytes < bytes) one = {place_->allocate(bytes), bytes, one.bucket};
    return {one.memory.get(), count, *options_.wire, place_->device()};
  }
  void complete_first() {
    Flight flight = std::move(flights_.front());
    flights_.erase(flights_.begin());
    await(flight);
    if (is_sparse_bucket(plan_.buckets[static_cast<std::size_t>(flight.bucket)])) {
      const bool averages = flight.divisors.op == comm::ReduceOp::avg;
      sum_of(flight.bucket)
          .finish(group_of(flight.bucket), averages ? 1 : flight.divisors.before,
                  averages ? group_of(flight.bucket).size() : flight.divisors.after, options_.timeout);
      tell(flight.bucket, true);
      return;
    }
    if (!options_.inter_instance.empty()) reduce_across(flight);
    const Buffer values = own_part(flight.bucket, reduced_buffer(flight));
    if (options_.hook.start) {
      if (options_.hook.finish) options_.hook.finish(group_of(flight.bucket), hooked(flight.bucket, values));
      flight.divisors = {};
    }
    const double after = flight.divisors.after;
    if (flight.wire >= 0) {
      const Buffer received = wire_buffer(flight.wire, bucket_buffer(flight.bucket).count);
      place_->copy_divided(own_part(flight.bucket, received), values, copies() ? 1 : after);
      wires_[static_cast<std::size_t>(flight.wire)].bucket = -1;
    } else if ((!copies() || flight.in_place) && after != 1) {
      place_->copy_divided(values, values, after);
    }
    if (copies() && !flight.in_place) copy_out(flight.bucket, after);
    give_back(flight.bucket);
    tell(flight.bucket, true);
  }
  // What this rank's instance has reduced, with the other instances'.
  void reduce_across(const Flight& flight) {
    const Buffer whole =
        flight.wire < 0 ? reduced_buffer(flight) : wire_buffer(flight.wire, bucket_buffer(flight.bucket).count);
    const Buffer part = steps_.inter_instance(own_part(flight.bucket, whole), whole);
    const auto group = static_cast<std::size_t>(plan_.buckets[static_cast<std::size_t>(flight.bucket)].group);
    Communicator& across = *options_.inter_instance[group];
    if (part.count > 0 && across.size() > 1) across.all_reduce(part, part, flight.divisors.op, options_.timeout);
  }
  [[nodiscard]] HookedBucket hooked(int bucket, const Buffer& values) const {
    const Bucket& one = plan_.buckets[static_cast<std::size_t>(bucket)];
    return {.index = bucket,
            .values = values,
            .members = plan_.members_of(one),
            .components_per_element = one.components_per_element,
            .gradients = gradients_};
  }
  void tell(int bucket, bool is_reduced) const {
    if (options_.reduced && steps_.tells(is_reduced)) options_.reduced(bucket);
  }
  [[nodiscard]] Buffer reduced_buffer(const Flight& flight) const {
    if (!flight.in_place) return bucket_buffer(flight.bucket);
    const Bucket& bucket = plan_.buckets[static_cast<std::size_t>(flight.bucket)];
    return states_[static_cast<std::size_t>(plan_.members_of(bucket).front().gradient)].source;
  }
  void copy_out(int bucket, double after) {
    for (const Member& member : plan_.members_of(plan_.buckets[static_cast<std::size_t>(bucket)])) {
      const State& state = states_[static_cast<std::size_t>(member.gradient)];
      const Buffer place = view(member.gradient);
      const Buffer to = state.held ? state.source : place;
      place_->copy_divided(place, to, after);
      if (state.held) outcome_.copied_out += static_cast<std::int64_t>(to.bytes());
    }
  }
  void await(Flight& flight) {
    const auto what = [&](const char* why) {
      const Communicator& group = group_of(flight.bucket);
      return fmt::format("reducer, finish, rank {} of group {}: bucket {} of {} ({}): {}", group.rank(),
                         group.group().name, flight.bucket, plan_.buckets.size(), members_named(flight.bucket), why);
    };
    try {
      steps_.wait(flight.bucket, static_cast<int>(plan_.buckets.size()), flight.work, options_.timeout);
    } catch (const comm::TimeoutError& error) {
      throw comm::TimeoutError(what(error.what()));
    } catch (const comm::PeerFailed& error) {
      throw comm::PeerFailed(what(error.what()));
    }
  }
  void note(Launch::What what, int group, DType dtype, std::int64_t elements, int bucket = -1) {
    outcome_.launches.push_back({.what = what,
                                 .bucket = bucket,
                                 .group = group,
                                 .dtype = dtype,
                                 .elements = elements,
                                 .ready_before = what == Launch::What::bucket ? ready_ : 0});
  }

  // ---- which gradients there are ----

  [[nodiscard]] bool exchanges_used() const {
    return options_.unused == Unused::find_unused || (options_.unused == Unused::static_graph && produced_.empty());
  }
  void start_used_map() {
    if (!exchanges_used()) return;
    used_.assign(groups_.size(), {});
    for (std::size_t i = 0; i < states_.size(); ++i)
      used_[static_cast<std::size_t>(gradients_[i].group)].push_back(states_[i].held ? 1 : 0);
    for (std::size_t group = 0; group < groups_.size(); ++group) {
      std::vector<std::int32_t>& map = used_[group];
      note(Launch::What::used, static_cast<int>(group), DType::i32, static_cast<std::int64_t>(map.size()));
      const Buffer buffer{map.data(), static_cast<std::int64_t>(map.size()), DType::i32};
      used_works_.push_back(groups_[group]->start(comm::Call{
          .operation = comm::Operation::all_reduce, .op = comm::ReduceOp::sum, .in = buffer, .out = buffer}));
    }
  }
  void take_used_map() {
    if (exchanges_used()) {
      for (comm::Work& work : used_works_) work.wait(options_.timeout);
      used_works_.clear();
      std::vector<std::size_t> next(groups_.size(), 0);
      produced_.assign(states_.size(), false);
      for (std::size_t i = 0; i < states_.size(); ++i) {
        const auto group = static_cast<std::size_t>(gradients_[i].group);
        produced_[i] = states_[i].bucket >= 0 && steps_.is_produced(used_[group][next[group]]);
        ++next[group];
      }
    } else if (options_.unused == Unused::none || options_.unused == Unused::zeros) {
      produced_.assign(states_.size(), false);
      for (std::size_t i = 0; i < states_.size(); ++i) produced_[i] = states_[i].bucket >= 0;
    }
    outcome_.produced = produced_;
  }

  std::vector<Communicator*> groups_;
  std::vector<Gradient> gradients_;
  ReducerOptions options_;
  ReducerSteps steps_;
  std::shared_ptr<BucketMemory> place_;
  std::vector<State> states_;
  Plan plan_;
  std::vector<Held> memory_;         // of the buckets
  std::map<int, SparseSum> sparse_;  // by gradient
  std::vector<int> order_;           // of launching
  std::size_t next_ = 0;             // in it
  std::vector<int> missing_;         // members, by bucket
  std::vector<Flight> flights_;
  std::map<const std::byte*, int> held_memory_;  // of the caller's, by where it begins, none of it twice
  std::vector<Wire> wires_;
  std::vector<int> first_order_;
  std::vector<std::vector<std::int32_t>> used_;  // by group
  std::vector<comm::Work> used_works_;
  std::vector<bool> produced_;
  Outcome outcome_;
  int ready_ = 0, passes_ = 0, present_ = 0, of_step_ = 0, synchronised_steps_ = 0;
  std::int64_t of_all_ = 0;
  bool in_pass_ = false, synchronises_ = false, reduced_ = false, agreed_ = false, rebuilt_ = false, learned_ = false,
       has_begun_ = false;
};

Reducer::Reducer(std::vector<Communicator*> groups, std::vector<Gradient> gradients, Plan plan, ReducerOptions options,
                 const ReducerSteps& steps)
    : impl_(std::make_unique<Impl>(std::move(groups), std::move(gradients), std::move(plan), std::move(options),
                                   steps)) {}
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
