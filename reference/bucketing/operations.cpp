// bucketing.assign, capacity_config, ddp_runs, layout, buffers, flatten, check, read, exposed, equal_buckets, agree.
#include "reference/adapter/operations.hpp"

#include <map>
#include <mutex>

#include <fmt/format.h>

#include "reference/bucketing/check_plan.hpp"
#include "reference/bucketing/detail/agreement.hpp"
#include "reference/bucketing/detail/megatron_buffers.hpp"
#include "reference/bucketing/exposed.hpp"
#include "reference/bucketing/plan.hpp"
#include "reference/bucketing/plan_json.hpp"
#include "reference/comm/local.hpp"

namespace plumbline::adapter {

using bucketing::Gradient;
using bucketing::Plan;
using nlohmann::json;

namespace {

// ---- gradients as columns: numel, dtype, device, group, expect_sparse_gradient ----

// One word for all gradients, or a list with one a gradient.
std::vector<std::string> words_of_each(const Arguments& arguments, const char* name, std::size_t count,
                                       const std::optional<std::string>& otherwise) {
  if (otherwise && !arguments.has(name)) return {count, *otherwise};
  if (!arguments.get<json>(name).is_array()) return {count, arguments.get<std::string>(name)};
  auto words = arguments.get<std::vector<std::string>>(name);
  if (words.size() != count)
    arguments.refuse(fmt::format("{} has {} entries for {} gradients", name, words.size(), count));
  return words;
}

bucketing::ElementType type_named(const Arguments& arguments, const std::string& name) {
  if (const auto type = bucketing::parse_element_type(name)) return *type;
  arguments.refuse(fmt::format("dtype must be f16, bf16, f32, f64, i32, i64, u8, c32, c64 or c128, got '{}'", name));
}

// Devices that we have not, such as `meta`, count as such too: what matters is which are the same. Those that PyTorch
// numbers go by that number, for the order of its table.
class DeviceNames {
 public:
  comm::Device named(const std::string& name) {
    if (const auto device = bucketing::parse_device(name)) return *device;
    const auto number = static_cast<std::int16_t>(-100 - static_cast<int>(others_.size()));
    return {comm::Device::Kind::cuda, others_.emplace(name, number).first->second};
  }

 private:
  std::map<std::string, std::int16_t> others_{{"hip", -6}, {"xla", -9}, {"xpu", -12}, {"mps", -13}, {"meta", -14}};
};

std::vector<Gradient> gradients_in(const Arguments& arguments) {
  const auto elements = arguments.get<std::vector<std::int64_t>>("numel");
  const auto dtypes = words_of_each(arguments, "dtype", elements.size(), std::nullopt);
  const auto devices = words_of_each(arguments, "device", elements.size(), "cpu");
  DeviceNames names;
  std::vector<Gradient> gradients;
  for (std::size_t i = 0; i < elements.size(); ++i) {
    const bucketing::ElementType type = type_named(arguments, dtypes[i]);
    gradients.push_back({.elements = elements[i],
                         .dtype = type.dtype,
                         .components_per_element = type.components_per_element,
                         .sparse = false,
                         .device = names.named(devices[i]),
                         .group = 0});
  }
  return gradients;
}

// One group where none are given.
void read_groups(const Arguments& arguments, std::vector<Gradient>& gradients) {
  const auto groups = arguments.get<std::vector<int>>("group", {});
  if (!groups.empty() && groups.size() != gradients.size())
    arguments.refuse(fmt::format("group has {} entries for {} gradients", groups.size(), gradients.size()));
  for (std::size_t i = 0; i < groups.size(); ++i) gradients[i].group = groups[i];
}

// Flags by index; none at all where the list is empty.
std::vector<bool> sparse_flags(const Arguments& arguments, std::size_t count) {
  auto flags = arguments.get<std::vector<bool>>("expect_sparse_gradient", {});
  if (flags.empty()) flags.resize(count);
  if (flags.size() != count)
    arguments.refuse(fmt::format("expect_sparse_gradient has {} entries for {} gradients", flags.size(), count));
  return flags;
}

json indices_of(const Plan& plan) {
  json buckets = json::array();
  for (const bucketing::Bucket& bucket : plan.buckets) {
    json& mine = buckets.emplace_back(json::array());
    for (const bucketing::Member& member : plan.members_of(bucket)) mine.push_back(member.gradient);
  }
  return buckets;
}

json limits_of(const Plan& plan) {
  json limits = json::array();
  for (const bucketing::Bucket& bucket : plan.buckets) limits.push_back(bucket.limit_bytes);
  return limits;
}

// ---- PyTorch ----

// Torch looks at the tensors in turn, and at the indices only for what it answers and for the flags.
json assign_as_torch(const Arguments& arguments, std::vector<Gradient> gradients, const std::vector<bool>& sparse,
                     const std::vector<std::int64_t>& limits, const std::vector<int>& indices) {
  if (gradients.empty()) arguments.refuse("numel has no tensors");
  if (!indices.empty() && indices.size() < gradients.size())
    arguments.refuse(fmt::format("tensor_indices has {} entries for {} tensors", indices.size(), gradients.size()));
  const bool has_flags = std::ranges::find(sparse, true) != sparse.end();
  std::vector<int> positions;
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    const auto index = indices.empty() ? static_cast<std::int64_t>(i) : indices[i];
    if (index < 0) arguments.refuse(fmt::format("tensor_indices[{}] is {}; it cannot be below 0", i, index));
    if (has_flags && static_cast<std::size_t>(index) >= sparse.size())
      arguments.refuse(
          fmt::format("tensor_indices[{}] is {}, and expect_sparse_gradient has {}", i, index, sparse.size()));
    gradients[i].sparse = has_flags && sparse[static_cast<std::size_t>(index)];
    if (!indices.empty()) positions.push_back(static_cast<int>(i));
  }
  const Plan plan = bucketing::plan_by_size(gradients, limits, positions, bucketing::LastBuckets::torch);
  json buckets = indices_of(plan);
  if (!indices.empty())
    for (json& bucket : buckets)
      for (json& index : bucket) index = indices[index.get<std::size_t>()];
  return {{"buckets", std::move(buckets)}, {"bucket_limits", limits_of(plan)}};
}

json assign(const Arguments& arguments) {
  const Convention by = arguments.convention();
  std::vector<Gradient> given = gradients_in(arguments);
  const std::vector<bool> sparse = sparse_flags(arguments, given.size());
  const auto limits = arguments.get<std::vector<std::int64_t>>("limits");
  const auto indices = arguments.get<std::vector<int>>("tensor_indices", {});
  if (by == Convention::torch) return assign_as_torch(arguments, std::move(given), sparse, limits, indices);
  std::vector<Gradient> gradients = given;
  for (std::size_t i = 0; i < indices.size() && indices.size() == given.size(); ++i)
    if (indices[i] >= 0 && static_cast<std::size_t>(indices[i]) < given.size())
      gradients[static_cast<std::size_t>(indices[i])] = given[i];
  for (std::size_t i = 0; i < gradients.size(); ++i) gradients[i].sparse = sparse[i];
  const Plan plan = bucketing::plan_by_size(gradients, limits, indices);
  return {{"buckets", indices_of(plan)}, {"bucket_limits", limits_of(plan)}};
}

bucketing::DdpOptions caps_in(const Arguments& arguments) {
  return {.bucket_cap_mb = arguments.find<double>("bucket_cap_mb"),
          .bucket_cap_mb_list = arguments.get<std::vector<double>>("bucket_cap_mb_list", {})};
}

json capacity_config(const Arguments& arguments) {
  const bucketing::BucketCapacity capacity = bucketing::bucket_capacity(caps_in(arguments));
  json limits = json::array();
  for (const bool is_static : {false, true})
    for (const bool finds_unused : {false, true})
      limits.push_back({{"static_graph", is_static},
                        {"find_unused_parameters", finds_unused},
                        {"initial", bucketing::first_limits(capacity, finds_unused, is_static)},
                        {"rebuild", capacity.per_bucket_bytes_caps}});
  return {{"bucket_bytes_cap", capacity.bucket_bytes_cap},
          {"per_bucket_bytes_caps", capacity.per_bucket_bytes_caps},
          {"first_bucket_bytes_cap", capacity.first_bucket_bytes_cap},
          {"limits", std::move(limits)}};
}

json launches_of(const Plan& plan) {
  json launches = json::array();
  const json indices = indices_of(plan);
  for (std::size_t i = 0; i < plan.buckets.size(); ++i)
    launches.push_back({{"index", i},
                        {"numel", plan.buckets[i].elements},
                        {"is_last", i + 1 == plan.buckets.size()},
                        {"params", indices[i]}});
  return launches;
}

json ddp_runs(const Arguments& arguments) {
  constexpr int kMostIterations = 1000;
  std::vector<Gradient> gradients = gradients_in(arguments);
  const std::vector<bool> sparse = sparse_flags(arguments, gradients.size());
  for (std::size_t i = 0; i < gradients.size(); ++i) gradients[i].sparse = sparse[i];
  bucketing::DdpOptions options = caps_in(arguments);
  options.find_unused_parameters = arguments.get<bool>("find_unused_parameters", false);
  options.static_graph = arguments.get<bool>("static_graph", false);
  const auto iterations = static_cast<int>(arguments.integer_in("iterations", 0, kMostIterations));
  const auto ready = arguments.get<std::vector<int>>("ready", {});
  arguments.expect_no_others();
  json launches = json::array();
  for (int i = 0; i < iterations; ++i)
    launches.push_back(launches_of(bucketing::ddp_plan(options, gradients, i, ready)));
  return {{"launches", std::move(launches)}};
}

// ---- Megatron-LM ----

json intervals_of(const std::vector<bucketing::Interval>& intervals) {
  json list = json::array();
  for (const bucketing::Interval& interval : intervals) list.push_back({interval.begin, interval.end});
  return list;
}

bucketing::MegatronOptions megatron_options(const Arguments& arguments) {
  bucketing::MegatronOptions options{.bucket_elements = arguments.find<std::int64_t>("bucket_size_elements")};
  const bool pads = arguments.get<bool>("pad_buckets_for_high_nccl_busbw", false);
  const auto embedding = arguments.get<std::vector<int>>("shared_embedding", {});
  if (const auto ranks = arguments.find<int>("data_parallel_world_size"))
    options.distributed_optimizer = {.ranks = *ranks, .pads_for_bandwidth = pads, .shared_embedding = embedding};
  else if (pads || !embedding.empty())
    arguments.refuse(
        "data_parallel_world_size is missing: padding and shared embeddings are the distributed optimizer's");
  return options;
}

json layout_answer(const bucketing::MegatronLayout& layout) {
  json parameters = intervals_of(layout.parameters);
  for (std::size_t i = 0; i < parameters.size(); ++i) parameters[i].push_back(layout.bucket[i]);
  return {{"param_index", std::move(parameters)},
          {"bucket_indices", intervals_of(layout.buckets)},
          {"per_bucket_numel_unpadded", layout.unpadded}};
}

json layout(const Arguments& arguments) {
  const auto elements = arguments.get<std::vector<std::int64_t>>("numel");
  return layout_answer(bucketing::megatron_layout(elements, megatron_options(arguments)));
}

json buffers(const Arguments& arguments) {
  const auto elements = arguments.get<std::vector<std::int64_t>>("numel");
  const auto dtypes = words_of_each(arguments, "dtype", elements.size(), std::nullopt);
  const auto experts = arguments.get<std::vector<int>>("expert", {});
  std::vector<Gradient> parameters(elements.size());
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const bucketing::ElementType type = type_named(arguments, dtypes[i]);
    parameters[i] = {
        .elements = elements[i], .dtype = type.dtype, .components_per_element = type.components_per_element};
  }
  for (const int expert : experts) {
    if (expert < 0 || static_cast<std::size_t>(expert) >= parameters.size())
      arguments.refuse(fmt::format("expert has parameter {} of {}", expert, parameters.size()));
    parameters[static_cast<std::size_t>(expert)].group = bucketing::kExperts;
  }
  const bool reduces_in_f32 = arguments.get<bool>("grad_reduce_in_fp32", false);
  const auto expert_ranks = arguments.find<int>("expert_data_parallel_world_size");
  const bucketing::MegatronOptions options = megatron_options(arguments);
  if (expert_ranks && !options.distributed_optimizer)
    arguments.refuse("expert_data_parallel_world_size is given without data_parallel_world_size");
  json list = json::array();
  for (const bucketing::MegatronBuffer& buffer : bucketing::megatron_buffers(parameters, options, expert_ranks)) {
    const auto first = static_cast<std::size_t>(buffer.parameters.front());
    json& one = list.emplace_back(layout_answer(buffer.layout));
    one["dtype"] = dtypes[first];
    one["grad_dtype"] = reduces_in_f32 ? "f32" : dtypes[first];
    one["expert"] = parameters[first].group == bucketing::kExperts;
    one["params"] = buffer.parameters;
  }
  return {{"buffers", std::move(list)}};
}

// ---- buffers without limits ----

json flatten(const Arguments& arguments) {
  const Convention by = arguments.convention();
  std::vector<Gradient> gradients = gradients_in(arguments);
  read_groups(arguments, gradients);
  const std::vector<bool> sparse = sparse_flags(arguments, gradients.size());
  for (std::size_t i = 0; i < gradients.size(); ++i) gradients[i].sparse = sparse[i];
  const auto order = arguments.get<std::vector<int>>("order", {});
  const bool fused = arguments.get<bool>("fused", true);
  if (by == Convention::colossalai && !fused)
    arguments.refuse("fused is false, and the handlers of ColossalAI always fuse");
  const Plan plan = !fused                        ? bucketing::plan_unfused(gradients, order)
                    : by == Convention::plumbline ? bucketing::plan_flat(gradients, order)
                                                  : bucketing::plan_as_colossalai(gradients, order);
  json groups = json::array(), elements = json::array();
  for (const bucketing::Bucket& bucket : plan.buckets)
    groups.push_back(bucket.group), elements.push_back(bucket.elements);
  return {{"buckets", indices_of(plan)}, {"groups", std::move(groups)}, {"numel", std::move(elements)}};
}

// ---- plans of anybody ----

// Padding is for what the plan says, unless it is held to something else.
bucketing::PlanRules rules_in(const Arguments& arguments, const bucketing::Alignment& of_plan) {
  using bucketing::Closing;
  return {.limits = arguments.get<std::vector<std::int64_t>>("limits", {}),
          .closing = arguments.choice<Closing>(
              "closing", {{"after_reaching", Closing::after_reaching}, {"before_exceeding", Closing::before_exceeding}},
              Closing::after_reaching),
          .planned_in_reverse = arguments.get<bool>("planned_in_reverse", false),
          .member_alignment = arguments.get<std::int64_t>("member_alignment", of_plan.member),
          .bucket_alignment = arguments.get<std::int64_t>("bucket_alignment", of_plan.bucket),
          .order = arguments.find<std::vector<int>>("order"),
          .ready = arguments.find<std::vector<int>>("ready"),
          .frozen = arguments.get<std::vector<int>>("frozen", {}),
          .alone = arguments.get<std::vector<int>>("alone", {})};
}

json check(const Arguments& arguments) {
  const auto value = arguments.get<json>("plan");
  const Plan plan = bucketing::plan_of_json(value);
  const bucketing::NamedGradients named = bucketing::gradients_of_json(arguments.get<json>("gradients"));
  const bucketing::PlanRules rules = rules_in(arguments, bucketing::alignment_of_json(value));
  arguments.expect_no_others();
  const auto found = bucketing::check_plan(plan, named.gradients, rules);
  const auto or_null = [](int number) { return number < 0 ? json() : json(number); };
  json problems = json::array();
  for (const bucketing::PlanProblem& problem : found)
    problems.push_back({{"kind", bucketing::name_of(problem.fault)},
                        {"severity", problem.severity == bucketing::Severity::error ? "error" : "warning"},
                        {"bucket", or_null(problem.bucket)},
                        {"gradient", or_null(problem.gradient)},
                        {"message", problem.message}});
  return {{"valid", bucketing::is_right(found)}, {"problems", std::move(problems)}};
}

json read(const Arguments& arguments) {
  const Convention by = arguments.convention();
  const bucketing::NamedGradients named = bucketing::gradients_of_json(arguments.get<json>("gradients"));
  const auto value = arguments.get<json>("plan");
  const Plan plan = by == Convention::torch      ? bucketing::plan_of_ddp_logging(value, named.gradients)
                    : by == Convention::megatron ? bucketing::plan_of_megatron_layout(value, named.gradients)
                    : by == Convention::paddle   ? bucketing::plan_of_paddle_groups(value, named.names, named.gradients)
                                                 : bucketing::plan_of_json(value);
  return {{"plan", bucketing::json_of(plan)}};
}

// ---- time ----

bucketing::Link link_in(const Arguments& arguments) {
  return {.ranks = arguments.get<int>("world_size"),
          .latency = arguments.get<double>("latency", 0),
          .bandwidth = arguments.get<double>("bandwidth", 0)};
}

// As given, or predicted from the gradients and the time of all of them.
std::vector<double> ready_times_in(const Arguments& arguments, double backward) {
  if (!arguments.has("gradients")) {
    if (arguments.has("order")) arguments.refuse("order is given, and gradients, which it is of, are not");
    return arguments.get<std::vector<double>>("ready");
  }
  if (arguments.has("ready")) arguments.refuse("ready and gradients are both given; one says when gradients are ready");
  const bucketing::NamedGradients named = bucketing::gradients_of_json(arguments.get<json>("gradients"));
  return bucketing::ready_evenly(named.gradients, backward, arguments.get<std::vector<int>>("order", {}));
}

json exposed(const Arguments& arguments) {
  const Plan plan = bucketing::plan_of_json(arguments.get<json>("plan"));
  const auto backward = arguments.get<double>("backward");
  const bucketing::Exposure exposure =
      bucketing::exposed_communication(plan, ready_times_in(arguments, backward), backward, link_in(arguments));
  json launches = json::array();
  for (const bucketing::PredictedReduction& launch : exposure.launches)
    launches.push_back({{"ready", launch.ready}, {"start", launch.start}, {"end", launch.end}});
  return {{"launches", std::move(launches)},
          {"communication", exposure.communication},
          {"exposed", exposure.exposed},
          {"overlap_ratio", exposure.overlap_ratio()}};
}

json equal_buckets(const Arguments& arguments) {
  const auto backward = arguments.get<double>("backward"), bytes = arguments.get<double>("bytes");
  const bucketing::Link link = link_in(arguments);
  json times = json::array();
  for (const int buckets : arguments.get<std::vector<int>>("buckets"))
    times.push_back(bucketing::exposed_of_equal_buckets(backward, bytes, buckets, link));
  const double best = bucketing::best_bucket_count(backward, link);
  return {{"exposed", std::move(times)}, {"best_count", std::isinf(best) ? json("inf") : json(best)}};
}

// ---- agreement ----

constexpr std::size_t kMostRanks = 64;

// What one rank has.
struct Ours {
  bucketing::NamedGradients named;
  Plan plan;
  std::vector<bucketing::Shape> shapes;
};

Ours ours_in(const Arguments& rank) {
  Ours ours{.named = {}, .plan = bucketing::plan_of_json(rank.get<json>("plan")), .shapes = {}};
  ours.named = bucketing::gradients_of_json(rank.get<json>("gradients"));
  ours.shapes = rank.get<std::vector<bucketing::Shape>>("shapes", {});
  return ours;
}

json agree(const Arguments& arguments) {
  std::vector<Ours> ranks;
  for (const Arguments& rank : arguments.get<std::vector<Arguments>>("ranks")) ranks.push_back(ours_in(rank));
  if (ranks.empty() || ranks.size() > kMostRanks)
    arguments.refuse(fmt::format("ranks has {} entries; there are 1 to {} ranks", ranks.size(), kMostRanks));
  arguments.expect_no_others();
  std::vector<json> found(ranks.size());
  comm::run_ranks(static_cast<int>(ranks.size()), [&](comm::Communicator& world) {
    const auto me = static_cast<std::size_t>(world.rank());
    const Ours& ours = ranks[me];
    try {
      bucketing::verify_agreement(world, ours.plan, ours.named.gradients, ours.named.names, ours.shapes);
    } catch (const bucketing::PlanDisagreement& error) {
      json opinions = json::array();
      for (const bucketing::Opinion& one : error.opinions())
        opinions.push_back({{"ranks", one.ranks}, {"value", one.value}});
      found[me] = {{"subject", error.subject()}, {"opinions", std::move(opinions)}, {"message", error.what()}};
    }
  });
  const bool agrees = std::ranges::all_of(found, [](const json& one) { return one.is_null(); });
  return {{"agrees", agrees}, {"differences", std::move(found)}};
}

}  // namespace

void add_bucketing_operations(AdapterService& service) {
  const Words torch{"plumbline", "torch"}, ours{"plumbline"};
  const std::vector<ResultRow> plan_fields{
      {"schema", "integer", "1"},
      {"member_alignment", "integer", "members start at multiples of this element count"},
      {"bucket_alignment", "integer", "buckets are multiples of this element count"},
      {"buckets",
       "list of object",
       "buckets in launch order",
       {{"dtype", "text", "element type"},
        {"device", "text", "device of its gradients"},
        {"group", "integer", "process group"},
        {"sparse", "boolean", "its gradient is sparse"},
        {"elements", "integer", "size with padding"},
        {"limit_bytes", "long integer [bytes]", "limit it was closed by; 0: none"},
        {"members", "list of list of integer", "gradient and first element of each"}}}};
  const ArgumentRow numel{"numel", "list of integer [gradients]", "elements of each gradient, in registration order"},
      dtype{"dtype",
            "text or list of text",
            "element type of all gradients, or of each",
            kRequired,
            {"f16", "bf16", "f32", "f64", "i32", "i64", "u8", "c32", "c64", "c128"}},
      device{"device",
             "text or list of text",
             "device of all gradients, or of each: a kind, or kind:index",
             R"("cpu")",
             {"cpu", "cuda", "hip", "xla", "xpu", "mps", "meta"}},
      sparse{"expect_sparse_gradient", "list of boolean [gradients]", "which gradients are sparse; null: none",
             kOptional},
      cap{"bucket_cap_mb", "number [MiB]", "DDP's argument; null: its default", kOptional},
      caps{"bucket_cap_mb_list", "list of number [MiB]", "DDP's argument: cap of each bucket", kOptional},
      plan =
          with_fields({"plan", "object", "buckets and their members (reference/bucketing/plan_json.hpp)"},
                      {{"schema", "integer", "1", "1"},
                       {"member_alignment", "integer", "members start at multiples of this element count", "1"},
                       {"bucket_alignment", "integer", "buckets are multiples of this element count", "1"},
                       with_fields({"buckets", "list of object", "buckets in launch order"},
                                   {{"dtype", "text", "element type"},
                                    {"elements", "integer", "size with padding"},
                                    {"members", "list of list of integer", "gradient and first element of each"},
                                    {"device", "text", "device of its gradients", R"("cpu")"},
                                    {"group", "integer", "process group", "0"},
                                    {"sparse", "boolean", "its gradient is sparse", "false"},
                                    {"limit_bytes", "long integer [bytes]", "limit it was closed by; 0: none", "0"}})}),
      gradients = with_fields({"gradients", "list of object", "the gradients, in registration order"},
                              {{"name", "text", "name of its parameter", kOptional},
                               {"elements", "integer", "number of elements"},
                               {"dtype", "text", "element type", R"("f32")"},
                               {"device", "text", "its device", R"("cpu")"},
                               {"group", "integer", "process group", "0"},
                               {"sparse", "boolean", "it is sparse", "false"}}),
      backward{"backward", "number [s]", "time of the whole backward pass"},
      world{"world_size", "integer", "number of ranks"}, latency{"latency", "number [s]", "of a reduction", "0.0"},
      bandwidth{"bandwidth", "number [bytes/s]", "of a link; 0: bytes take no time", "0.0"};
  ArgumentRow ready_gradients = gradients;
  ready_gradients.what = "in place of ready: the gradients, which become ready at one rate of bytes until backward";
  ready_gradients.otherwise = kOptional;
  const ResultRow buckets{"buckets", "list of list of integer", "gradients of each bucket"};
  const RefusalRow bad_gradients{"invalid_argument",
                                 "a list has another length than the gradients, a size is negative, or a dtype or "
                                 "device does not exist"},
      too_large{"out_of_range", "sizes exceed 63 bits, or an index is no gradient's"},
      bad_limits{"invalid_argument", "a limit or a cap is negative, NaN or missing, or an order is no permutation"},
      bad_plan{"invalid_argument", "the plan or the gradients do not have the form"},
      bad_time{"invalid_argument", "a time, a size or a number of ranks is negative, not finite or below 1"};
  service.add({"bucketing.assign",
               "assigns gradients to buckets by size limits",
               torch,
               {numel,
                dtype,
                device,
                {"limits", "list of integer [bytes]", "limit of each bucket, the last one of all further buckets"},
                sparse,
                {"tensor_indices", "list of integer",
                 "index of each gradient, in the order of assignment; null: registration order", kOptional}},
               {buckets, {"bucket_limits", "list of long integer [bytes]", "limit of each bucket; 0: none"}},
               R"({"numel": [4, 4, 4], "dtype": "f32", "limits": [32]})",
               {bad_gradients, bad_limits, too_large}},
              assign);
  service.add({"bucketing.capacity_config",
               "derives DDP's bucket limits from its caps",
               torch,
               {cap, caps},
               {{"bucket_bytes_cap", "long integer [bytes]", "the cap"},
                {"per_bucket_bytes_caps", "list of long integer [bytes]", "cap of each bucket"},
                {"first_bucket_bytes_cap", "long integer [bytes]", "cap of the first bucket"},
                {"limits",
                 "list of object",
                 "limits under each setting",
                 {{"static_graph", "boolean", "the setting"},
                  {"find_unused_parameters", "boolean", "the setting"},
                  {"initial", "list of long integer [bytes]", "limits of the first iteration"},
                  {"rebuild", "list of long integer [bytes]", "limits when buckets are rebuilt"}}}},
               R"({"bucket_cap_mb": 25})",
               {bad_limits, {"out_of_range", "a cap exceeds 63 bits"}}},
              capacity_config);
  service.add({"bucketing.ddp_runs",
               "which buckets DDP reduces in each iteration",
               torch,
               {numel,
                dtype,
                device,
                sparse,
                cap,
                caps,
                {"find_unused_parameters", "boolean", "DDP's argument", "false"},
                {"static_graph", "boolean", "DDP's argument", "false"},
                {"ready", "list of integer [gradients]",
                 "order in which gradients become ready; required where buckets are rebuilt", kOptional},
                {"iterations", "integer", "iterations, at most 1000"}},
               {{"launches",
                 "list of list of object [iterations][buckets]",
                 "reductions of each iteration",
                 {{"index", "integer", "index of the bucket"},
                  {"numel", "integer", "its elements"},
                  {"is_last", "boolean", "it is the last"},
                  {"params", "list of integer", "its gradients"}}}},
               R"({"numel": [4, 4], "dtype": "f32", "iterations": 2, "ready": [1, 0]})",
               {bad_gradients, bad_limits, too_large}},
              ddp_runs);
  const std::vector<ArgumentRow> of_buffer{
      {"bucket_size_elements", "integer", "size at which a bucket closes; null: one bucket", kOptional},
      {"data_parallel_world_size", "integer",
       "replicas over which the distributed optimizer shards; null: no distributed optimizer", kOptional},
      {"pad_buckets_for_high_nccl_busbw", "boolean",
       "pad buckets to a multiple of 2^16 elements; of the distributed optimizer", "false"},
      {"shared_embedding", "list of integer", "parameters with buckets of their own; of the distributed optimizer",
       kOptional}};
  const auto with_buffer = [&](std::vector<ArgumentRow> rows) {
    rows.insert(rows.end(), of_buffer.begin(), of_buffer.end());
    return rows;
  };
  const std::vector<ResultRow> places{
      {"param_index", "list of list of long integer [gradients][3]", "start, end and bucket of each parameter"},
      {"bucket_indices", "list of list of long integer [buckets][2]", "start and end of each bucket"},
      {"per_bucket_numel_unpadded", "list of long integer [buckets]", "elements of each without padding"}};
  const RefusalRow bad_buffer{"invalid_argument",
                              "a size is below its least value, or padding or shared_embedding comes without "
                              "data_parallel_world_size"},
      too_long_buffer{"out_of_range", "the buffer exceeds 2^53 elements"};
  service.add({"bucketing.layout",
               "lays parameters out in one buffer, in reverse registration order",
               {"plumbline", "megatron"},
               with_buffer({numel}),
               places,
               R"({"numel": [10, 3], "data_parallel_world_size": 3})",
               {bad_buffer, too_long_buffer}},
              layout);
  std::vector<ResultRow> buffer_fields{
      {"dtype", "text", "element type of its parameters"},
      {"grad_dtype", "text", "element type that their gradients are reduced in"},
      {"expert", "boolean", "they belong to experts"},
      {"params", "list of integer", "its parameters, in registration order; by these the other lists go"}};
  buffer_fields.insert(buffer_fields.end(), places.begin(), places.end());
  service.add(
      {"bucketing.buffers",
       "groups parameters into buffers by element type and data-parallel group, and lays each buffer out",
       {"plumbline", "megatron"},
       with_buffer({numel,
                    dtype,
                    {"expert", "list of integer", "parameters of experts, which have buffers of their own", kOptional},
                    {"grad_reduce_in_fp32", "boolean", "gradients are reduced in f32, whatever their type", "false"},
                    {"expert_data_parallel_world_size", "integer",
                     "replicas of an expert; null: data_parallel_world_size", kOptional}}),
       {{"buffers", "list of object", "the buffers, in the order of their first parameters", buffer_fields}},
       R"({"numel": [10, 3, 7], "dtype": ["bf16", "f32", "bf16"], "expert": [2], "data_parallel_world_size": 4, "expert_data_parallel_world_size": 2})",
       {bad_buffer,
        {"invalid_argument", "expert has an index of no parameter, or dtype another length than numel"},
        too_long_buffer}},
      buffers);
  service.add({"bucketing.flatten",
               "assigns gradients to one bucket for each type and group",
               {"plumbline", "colossalai"},
               {numel,
                dtype,
                device,
                {"group", "list of integer [gradients]", "process group of each gradient; null: one group", kOptional},
                sparse,
                {"order", "list of integer [gradients]",
                 "order in which gradients become ready; null: registration order", kOptional},
                {"fused", "boolean", "false: one bucket for each gradient", "true"}},
               {buckets,
                {"groups", "list of integer [buckets]", "process group of each"},
                {"numel", "list of integer [buckets]", "elements of each"}},
               R"({"numel": [1, 2, 3], "dtype": "f32", "group": [1, 0, 1]})",
               {bad_gradients,
                bad_limits,
                too_large,
                {"unsupported", "a gradient is sparse, or they are on several devices (convention colossalai)"}}},
              flatten);
  service.add(
      {"bucketing.check",
       "checks a plan of buckets against rules",
       ours,
       {plan,
        gradients,
        {"limits", "list of integer [bytes]", "limit of each bucket, the last one of all further buckets", kOptional},
        {"closing", "text", "when a bucket closes: after_reaching or before_exceeding", R"("after_reaching")"},
        {"planned_in_reverse", "boolean", "the plan must list the last gradient first", "false"},
        {"member_alignment", "integer", "members must start at multiples of this element count; null: the plan's",
         kOptional},
        {"bucket_alignment", "integer", "buckets must be multiples of this element count; null: the plan's", kOptional},
        {"order", "list of integer", "order in which gradients must be planned", kOptional},
        {"ready", "list of integer", "order in which gradients become ready", kOptional},
        {"frozen", "list of integer", "gradients that do not exist", kOptional},
        {"alone", "list of integer", "gradients that must have buckets of their own", kOptional}},
       {{"valid", "boolean", "no problem is an error"},
        {"problems",
         "list of object",
         "what is wrong",
         {{"kind", "text", "the rule that is broken"},
          {"severity", "text", "error or warning"},
          {"bucket", "any", "bucket concerned, or null"},
          {"gradient", "any", "gradient concerned, or null"},
          {"message", "text", "the problem in words"}}}},
       R"({"gradients": [{"elements": 4}], "plan": {"buckets": [{"dtype": "f32", "elements": 4, "members": [[0, 0]]}]}})",
       {bad_plan, bad_limits, too_large}},
      check);
  service.add({"bucketing.read",
               "reads a plan that a framework wrote",
               {"plumbline", "torch", "megatron", "paddle"},
               {{"plan", "object or list of any",
                 "ours (reference/bucketing/plan_json.hpp); of torch DDP's logging data; of megatron param_index and "
                 "bucket_indices; of paddle groups"},
                gradients},
               {{"plan", "object", "the plan in our form", plan_fields}},
               R"({"convention": "megatron", "gradients": [{"elements": 10}, {"elements": 3}],
                   "plan": {"param_index": [[3, 13, 0], [0, 3, 0]], "bucket_indices": [[0, 13]]}})",
               {bad_plan, {"invalid_argument", "the plan is not one of these gradients"}, too_large}},
              read);
  service.add(
      {"bucketing.exposed",
       "predicts how long the reductions of a plan outlast a backward pass",
       ours,
       {plan,
        {"ready", "list of number [s]", "time at which each gradient is ready; required without gradients", kOptional},
        where_named(ready_gradients),
        where_named({"order", "list of integer [gradients]",
                     "of gradients: order in which they become ready; null: reverse registration order", kOptional}),
        backward,
        world,
        latency,
        bandwidth},
       {{"launches",
         "list of object [buckets]",
         "each reduction",
         {{"ready", "number [s]", "its last gradient is ready"},
          {"start", "number [s]", "it starts"},
          {"end", "number [s]", "it ends"}}},
        {"communication", "number [s]", "time of all reductions"},
        {"exposed", "number [s]", "time after the backward pass"},
        {"overlap_ratio", "number", "share of communication that is hidden"}},
       R"({"plan": {"buckets": [{"dtype": "f32", "elements": 4, "members": [[0, 0]]}]}, "ready": [0.5], "backward": 1.0, "world_size": 4, "latency": 0.25})",
       {bad_plan, bad_time, too_large}},
      exposed);
  service.add(
      {"bucketing.equal_buckets",
       "predicts the exposed time of equal buckets, and their best number",
       ours,
       {backward,
        {"bytes", "number [bytes]", "of all gradients"},
        {"buckets", "list of integer", "numbers of buckets to predict"},
        world,
        latency,
        bandwidth},
       {{"exposed", "list of number [s]", "exposed time with each number of buckets"},
        {"best_count", "number", "number of buckets with the least"}},
       R"({"backward": 1.0, "bytes": 4000, "buckets": [1, 2, 4], "world_size": 2, "latency": 0.01, "bandwidth": 10000})",
       {bad_time}},
      equal_buckets);
  const std::vector<ArgumentRow> of_rank{
      gradients, plan, {"shapes", "list of list of integer", "shape of each gradient", kOptional}};
  service.add(
      {"bucketing.agree",
       "checks that ranks have the same plan",
       ours,
       {with_fields({"ranks", "list of object", "what each rank has, 1 to 64 ranks"}, of_rank)},
       {{"agrees", "boolean", "no rank sees a difference"},
        {"differences", "list of any [ranks]",
         "of each rank null, or an object: subject, opinions (each ranks and value), message"}},
       R"({"ranks": [{"gradients": [{"elements": 4}], "plan": {"buckets": [{"dtype": "f32", "elements": 4, "members": [[0, 0]]}]}},
                             {"gradients": [{"elements": 4}], "plan": {"buckets": []}}]})",
       {bad_plan, {"invalid_argument", "there is no rank, or more than 64"}, too_large}},
      agree);
}

}  // namespace plumbline::adapter
