#include "reference/bucketing/detail/reducer_setup.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "reference/bucketing/detail/agreement.hpp"
#include "reference/bucketing/detail/laying_out.hpp"
#include "reference/comm/dtype.hpp"
#include "reference/comm/errors.hpp"

namespace plumbline::bucketing {

// ---- names ----

std::string ReducerSetup::at(const char* operation) const {
  const comm::Communicator& group = *groups.front();
  return fmt::format("reducer, {}, rank {} of group {}", operation, group.rank(), group.group().name);
}

std::string ReducerSetup::name(int gradient) const {
  const auto i = static_cast<std::size_t>(gradient);
  return i < options.names.size() ? options.names[i] : fmt::format("gradient {}", gradient);
}

std::string ReducerSetup::listed(std::span<const std::string> names) {
  constexpr std::size_t most = 8;
  const std::size_t shown = std::min(most, names.size());
  std::string text =
      fmt::format("'{}'", fmt::join(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(shown), "', '"));
  if (names.size() > shown) text += fmt::format(" and {} more", names.size() - shown);
  return text;
}

// ---- options that exclude each other ----

void ReducerSetup::check() const {
  if (groups.empty() || std::ranges::find(groups, nullptr) != groups.end())
    throw InvalidArgument("reducer: there must be a group for every number of a group");
  check_names();
  check_sharding();
  check_division();
  check_wire_and_hook();
  check_device();
  check_unused();
  for (int i = 0; i < std::ssize(gradients); ++i) check_gradient(i);
}

void ReducerSetup::refuse(const std::string& why) const { throw InvalidArgument(at("options") + ": " + why); }

void ReducerSetup::check_names() const {
  if (!options.names.empty() && options.names.size() != gradients.size())
    refuse(fmt::format("{} names for {} gradients", options.names.size(), gradients.size()));
  if (options.lazy && !copies()) refuse("buckets in which gradients live have their memory from the start");
  if (groups.size() > 1 && (options.rebuild || options.join))
    refuse("plans are rebuilt, and ranks join, in one group alone");
}

void ReducerSetup::check_division() const {
  for (std::size_t i = 0; options.split && i < groups.size(); ++i)
    if (options.split->after < 1 ||  // or both are negative
        std::int64_t{options.split->before} * options.split->after != ranks_of(i))
      refuse(fmt::format("division by {} before and by {} after: the product must be the {} ranks of group {}",
                         options.split->before, options.split->after, ranks_of(i), groups[i]->group().name));
  if (!options.divisors.empty()) {
    if (options.divisors.size() != groups.size())
      refuse(fmt::format("{} divisors for {} groups", options.divisors.size(), groups.size()));
    for (std::size_t i = 0; i < groups.size(); ++i)
      if (options.divisors[i] < 1)
        refuse(fmt::format("sums over group {} divided by {}; 1 or more are possible", groups[i]->group().name,
                           options.divisors[i]));
    if (!options.average || options.split || options.join)
      refuse("divisors of groups are of averages that are divided once, of ranks that all have rows");
  }
  if (options.split && options.join_divisor == JoinDivisor::present_ranks)
    refuse("a division that is split is not one by the ranks that are present");
}

void ReducerSetup::check_wire_and_hook() const {
  if (options.wire && !comm::is_floating(*options.wire))
    refuse(fmt::format("gradients do not travel as {}", comm::name_of(*options.wire)));
  if (options.wire && options.wire_buffers < 1)
    refuse(fmt::format("{} buffers for compressed buckets; 1 or more are needed", options.wire_buffers));
  if (options.wire && options.hook.start) refuse("a hook decides itself how buckets travel; give no dtype beside it");
}

void ReducerSetup::check_device() const {
  for (const comm::Communicator* group : groups)
    if (const auto& kinds = group->capabilities().devices;
        std::ranges::find(kinds, memory->device().kind) == kinds.end())
      throw Unsupported(at("options") +
                        fmt::format(": buckets lie on {}, whose memory group {} of backend {} does not take",
                                    name_of(memory->device()), group->group().name, group->capabilities().backend));
  if (!is_on_host() && (options.hook.start || options.largest))
    throw Unsupported(at("options") +
                      fmt::format(": gradients lie on {}; hooks, and a largest number, are of host memory",
                                  name_of(memory->device())));
}

void ReducerSetup::check_sharding() const {
  if (is_sharded() && (copies() || options.hook.start || options.rebuild))
    refuse("sharded results need gradients in their buckets, a plan that is not rebuilt, and no hook");
  if (is_sharded() && (options.unused == Unused::find_unused || options.unused == Unused::static_graph))
    refuse("sharded results need gradients that are known in advance, without find_unused or static_graph");
  if (options.inter_instance.empty()) return;
  if (options.inter_instance.size() != groups.size() ||
      std::ranges::find(options.inter_instance, nullptr) != options.inter_instance.end())
    refuse(fmt::format("{} inter-instance groups for {} groups", options.inter_instance.size(), groups.size()));
  if (!is_sharded() || options.join) refuse("inter-instance groups need sharded results, and ranks that all have rows");
}

void ReducerSetup::check_unused() const {
  if (options.reduced && (options.unused == Unused::find_unused || options.unused == Unused::static_graph))
    refuse(
        "a callback per reduced bucket needs gradients that are known before the pass ends, without find_unused or "
        "static_graph");
  if (options.join && options.unused == Unused::static_graph)
    refuse("a rank without rows has no gradients: which a step has is not learned from one where ranks join");
}

// ---- gradients, and plans that do not fit them ----

void ReducerSetup::check_gradient(int index) const {
  const Gradient& one = gradient(index);
  const auto where = [&] { return at("gradients") + fmt::format(": '{}'", name(index)); };
  if (one.elements < 0) throw InvalidArgument(where() + fmt::format(" has {} elements", one.elements));
  if (one.components_per_element < 1 || one.components_per_element > 2)
    throw InvalidArgument(where() +
                          fmt::format(" has {} components per element; it must be 1 or 2", one.components_per_element));
  if (static_cast<std::size_t>(one.group) >= groups.size())
    throw InvalidArgument(where() + fmt::format(" is of group {}; there are {}", one.group, groups.size()));
  if (one.sparse && (options.hook.start || is_sharded()))
    throw Unsupported(where() + " is sparse; no hook exchanges it, and its sum is everywhere");
  if (one.sparse && one.dtype != comm::DType::f32 && one.dtype != comm::DType::f64)
    throw Unsupported(where() + fmt::format(" is sparse and of {}; f32 and f64 are added", comm::name_of(one.dtype)));
  if (one.device != memory->device())
    throw Unsupported(where() + fmt::format(" lies on {}; gradients in memory of {} are reduced", name_of(one.device),
                                            name_of(memory->device())));
  if (one.sparse && !is_on_host())
    throw Unsupported(where() +
                      fmt::format(" is sparse and lies on {}; rows are added in host memory", name_of(one.device)));
  if (options.average && !options.hook.start && !comm::is_floating(one.dtype))
    throw Unsupported(where() + fmt::format(" is of {}, of which there is no average", comm::name_of(one.dtype)));
}

void ReducerSetup::check_plan(const Plan& plan) const {
  std::vector<bool> seen(gradients.size(), false);
  for (const Bucket& bucket : plan.buckets) {
    if (bucket.first_member < 0 || bucket.members < 0 ||
        std::int64_t{bucket.first_member} + bucket.members > std::ssize(plan.members))
      throw InvalidArgument(at("plan") + ": a bucket has members that the plan has not");
    check_bucket(bucket);
    std::vector<Member> members(plan.members_of(bucket).begin(), plan.members_of(bucket).end());
    std::ranges::sort(members, {}, &Member::begin);
    std::int64_t taken = 0;
    for (const Member& member : members) {
      if (static_cast<std::size_t>(member.gradient) >= gradients.size())
        throw InvalidArgument(at("plan") + fmt::format(": gradient {} of {}", member.gradient, gradients.size()));
      if (seen[static_cast<std::size_t>(member.gradient)])
        throw InvalidArgument(at("plan") + fmt::format(": '{}' is reduced twice", name(member.gradient)));
      seen[static_cast<std::size_t>(member.gradient)] = true;
      check_member(member, bucket, taken);
      taken = member.begin + gradient(member.gradient).elements;
    }
  }
}

void ReducerSetup::check_bucket(const Bucket& bucket) const {
  const auto most = std::numeric_limits<std::int64_t>::max() / static_cast<std::int64_t>(comm::size_of(bucket.dtype));
  if (bucket.components_per_element < 1 || bucket.components_per_element > 2 || bucket.elements < 0 ||
      bucket.elements > most / bucket.components_per_element)
    throw InvalidArgument(at("plan") +
                          fmt::format(": a bucket of {} elements of {} numbers; their bytes are 0 or more, "
                                      "in 64 bits",
                                      bucket.elements, bucket.components_per_element));
  if (static_cast<std::size_t>(bucket.group) >= groups.size())
    throw InvalidArgument(at("plan") +
                          fmt::format(": a bucket of group {}; there are {}", bucket.group, groups.size()));
  const int ranks = groups[static_cast<std::size_t>(bucket.group)]->size();
  if (is_sharded() && bucket.elements % ranks != 0)
    throw InvalidArgument(at("plan") + fmt::format(": a bucket of {} elements, which cannot be sharded among {} ranks "
                                                   "in equal parts; it must be padded",
                                                   bucket.elements, ranks));
}

// `taken` elements at the bucket's begin are other members'.
void ReducerSetup::check_member(const Member& member, const Bucket& bucket, std::int64_t taken) const {
  const auto refuse_member = [&](const std::string& why) {
    throw InvalidArgument(at("plan") + fmt::format(": '{}' {}", name(member.gradient), why));
  };
  const Gradient& one = gradient(member.gradient);
  if (one.dtype != bucket.dtype || one.components_per_element != bucket.components_per_element)
    refuse_member(fmt::format("is of {}, its bucket of {}", type_words(one.dtype, one.components_per_element),
                              type_words(bucket.dtype, bucket.components_per_element)));
  if (one.device != bucket.device)
    refuse_member(fmt::format("lies on {}, its bucket on {}", name_of(one.device), name_of(bucket.device)));
  if (one.sparse && bucket.members != 1)
    refuse_member(fmt::format("is sparse, and has a bucket with {} others", bucket.members - 1));
  if (one.group != bucket.group)
    refuse_member(fmt::format("is of group {}, its bucket of {}", one.group, bucket.group));
  if (member.begin < taken || member.begin > bucket.elements - one.elements)  // their sum may not fit 64 bits
    refuse_member(fmt::format("has {} elements from {} on in a bucket of {}, where {} are taken or there are no more",
                              one.elements, member.begin, bucket.elements, taken));
}

// ---- what must be equal on all ranks ----

namespace {

// What concerns one group, in numbers that its members share.
struct PlanOfGroup {
  Plan plan;
  std::vector<Gradient> gradients;
  std::vector<std::string> names;
};

PlanOfGroup plan_of_group(const ReducerSetup& setup, const Plan& plan, int group) {
  PlanOfGroup own;
  std::vector<int> numbers;  // of all gradients
  for (Gradient gradient : setup.gradients) {
    numbers.push_back(static_cast<int>(own.gradients.size()));
    if (std::exchange(gradient.group, 0) != group) continue;
    gradient.device.index = 0;  // which device of its kind a rank has is its own affair
    own.gradients.push_back(gradient);
    if (!setup.options.names.empty()) own.names.push_back(setup.options.names[numbers.size() - 1]);
  }
  for (Bucket bucket : plan.buckets) {
    if (bucket.group != group) continue;
    const auto members = plan.members_of(bucket);
    bucket.first_member = static_cast<int>(own.plan.members.size());
    bucket.group = 0;
    bucket.device.index = 0;
    for (Member member : members) {
      member.gradient = numbers[static_cast<std::size_t>(member.gradient)];
      own.plan.members.push_back(member);
    }
    own.plan.buckets.push_back(bucket);
  }
  return own;
}

}  // namespace

void agree_on_plan(const ReducerSetup& setup, const Plan& plan) {
  for (std::size_t group = 0; group < setup.groups.size(); ++group) {
    const PlanOfGroup own = plan_of_group(setup, plan, static_cast<int>(group));
    std::vector<comm::Communicator*> among{setup.groups[group]};
    if (!setup.options.inter_instance.empty()) among.push_back(setup.options.inter_instance[group]);
    for (comm::Communicator* ranks : among)
      verify_agreement(*ranks, own.plan, own.gradients, own.names, {}, setup.options.timeout);
  }
}

void broadcast_from_rank_0(const ReducerSetup& setup, const comm::Buffer& values) {
  // The first instance's rank 0 gives the other instances' first ranks theirs.
  if (!setup.options.inter_instance.empty())
    setup.options.inter_instance.front()->broadcast(values, 0, setup.options.timeout);
  setup.groups.front()->broadcast(values, 0, setup.options.timeout);
}

}  // namespace plumbline::bucketing
