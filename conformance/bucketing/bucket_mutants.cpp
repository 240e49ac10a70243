// Adapters whose buckets, buffers, checks of plans, predictions or agreements are wrong, each by a rule of its own.
#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>

#include "conformance/bucketing/bucketing_mutants.hpp"
#include "harness/mutants/rewriting.hpp"
#include "reference/bucketing/plan.hpp"

namespace plumbline::mutants {

using nlohmann::json;

namespace {

const char* const kAssign = "bucketing.assign";
const char* const kCapacity = "bucketing.capacity_config";
const char* const kRuns = "bucketing.ddp_runs";
const char* const kLayout = "bucketing.layout";
const char* const kFlatten = "bucketing.flatten";
const char* const kCheck = "bucketing.check";
const char* const kRead = "bucketing.read";
const char* const kExposed = "bucketing.exposed";
const char* const kEqual = "bucketing.equal_buckets";
const char* const kAgree = "bucketing.agree";

// ---- assign, written once more with a switch a fault ----

struct Faults {
  bool before_exceeding = false;     // closes before what would exceed the limit
  bool above_only = false;           // closes above the limit, not at it
  bool one_walk = false;             // all types walk the limits together
  bool first_for_ever = false;       // stays on the first limit
  bool starts_over = false;          // goes back to the first limit after the last
  bool keyed_by_type = false;        // devices mix
  bool keyed_by_size = false;        // types of one size mix
  bool keyed_by_nothing = false;     // one bucket for all types
  bool type_change_closes = false;   // a gradient of another type closes what is being filled
  bool counts_elements = false;      // limits are elements
  bool all_of_four_bytes = false;    // sizes are those of f32
  bool sparse_counts = false;        // a sparse gradient moves to the next limit
  bool sparse_mixed = false;         // flags are not looked at
  bool sparse_by_position = false;   // flags are looked up by position
  bool sparse_has_limit = false;     // is said to have the limit of the others
  bool drops_large = false;          // a gradient above the limit is left out
  bool large_alone = false;          // a gradient above the limit gets a bucket of its own
  bool keeps_closing_order = false;  // is not sorted by index
  bool always_sorted = false;        // is sorted also in another order
  bool skips_empty = false;          // leaves gradients without elements out
  bool empties_alone = false;        // gives each of those a bucket
  bool in_32_bits = false;           // sums are of 32 bits
  bool ignores_limits = false;
  bool unfused = false;
  bool last_limit_reported = false;  // bucket_limits are the last one throughout
};

struct ReplayedBucket {
  std::vector<int> indices;
  std::int64_t bytes = 0, limit = 0;
  std::size_t last = 0;
  bool is_closed = false;
};

std::int64_t size_of(const std::string& dtype) {
  return dtype == "f16" || dtype == "bf16" ? 2 : dtype == "f32" ? 4 : 8;
}

class Assignment {
 public:
  Assignment(const json& args, Faults faults) : args_(args), faults_(faults) {
    count_ = args.at("numel").size();
    limits_ = args.at("limits").get<std::vector<std::int64_t>>();
    indices_ = args.value("tensor_indices", std::vector<int>());
    sparse_ = args.value("expect_sparse_gradient", std::vector<bool>());
    for (std::size_t i = 0; i < count_; ++i) add(i);
  }

  [[nodiscard]] json result(bool as_torch) {
    std::vector<ReplayedBucket> open, ordered = closed_;
    for (const std::string& key : keys_)
      if (!filling_[key].indices.empty()) open.push_back(filling_[key]);
    if (as_torch)
      std::ranges::reverse(open);
    else
      std::ranges::stable_sort(open, {}, &ReplayedBucket::last);
    ordered.insert(ordered.end(), open.begin(), open.end());
    const bool sorts = (indices_.empty() && !faults_.keeps_closing_order) || faults_.always_sorted;
    if (sorts)
      std::ranges::stable_sort(ordered, {}, [](const ReplayedBucket& one) { return std::ranges::min(one.indices); });
    json buckets = json::array(), limits = json::array();
    for (const ReplayedBucket& bucket : ordered)
      buckets.push_back(bucket.indices), limits.push_back(faults_.last_limit_reported ? limits_.back() : bucket.limit);
    return {{"buckets", buckets}, {"bucket_limits", limits}};
  }

 private:
  [[nodiscard]] std::string of_each(const char* field, std::size_t i, const char* otherwise) const {
    if (!args_.contains(field)) return otherwise;
    const json& value = args_.at(field);
    return value.is_array() ? value.at(i) : value;
  }
  [[nodiscard]] std::string key_of(std::size_t i) const {
    if (faults_.keyed_by_nothing) return "";
    const std::string dtype = of_each("dtype", i, "f32");
    return (faults_.keyed_by_size ? std::to_string(size_of(dtype)) : dtype) +
           (faults_.keyed_by_type ? "" : of_each("device", i, "cpu"));
  }
  [[nodiscard]] bool is_sparse(std::size_t i, int index) const {
    if (sparse_.empty() || faults_.sparse_mixed) return false;
    return sparse_[faults_.sparse_by_position ? i : static_cast<std::size_t>(index)];
  }
  void close(ReplayedBucket& bucket, const std::string& key) {
    bucket.is_closed = true;
    closed_.push_back(bucket);
    bucket = {};
    advance(key);
  }
  void advance(const std::string& key) {
    std::size_t& at = at_[faults_.one_walk ? "" : key];
    if (faults_.first_for_ever) return;
    if (at + 1 < limits_.size())
      ++at;
    else if (faults_.starts_over)
      at = 0;
  }

  void add(std::size_t i) {
    const int index = indices_.empty() ? static_cast<int>(i) : indices_[i];
    const std::string key = key_of(i);
    const std::int64_t elements = args_.at("numel").at(i);
    std::int64_t bytes = faults_.counts_elements
                             ? elements
                             : elements * (faults_.all_of_four_bytes ? 4 : size_of(of_each("dtype", i, "f32")));
    if (faults_.in_32_bits) bytes = static_cast<std::int32_t>(static_cast<std::uint32_t>(bytes));
    std::int64_t limit = limits_[at_[faults_.one_walk ? "" : key]];
    if (faults_.ignores_limits) limit = std::int64_t{1} << 62;
    const bool alone = is_sparse(i, index);
    if (alone || (faults_.empties_alone && elements == 0) ||
        (faults_.large_alone && bytes > limit && !filling_[key].indices.empty())) {
      closed_.push_back({.indices = {index},
                         .bytes = bytes,
                         .limit = alone && !faults_.sparse_has_limit ? 0 : limit,
                         .last = i,
                         .is_closed = true});
      if (alone && faults_.sparse_counts) advance(key);
      return;
    }
    if ((faults_.skips_empty && elements == 0) || (faults_.drops_large && bytes > limit)) return;
    if (std::ranges::find(keys_, key) == keys_.end()) keys_.push_back(key);
    if (faults_.type_change_closes && !last_key_.empty() && last_key_ != key && !filling_[last_key_].indices.empty())
      close(filling_[last_key_], last_key_);
    last_key_ = key;
    ReplayedBucket& bucket = filling_[key];
    if (faults_.before_exceeding && !bucket.indices.empty() && bucket.bytes + bytes > limit) {
      close(bucket, key);
      limit = limits_[at_[faults_.one_walk ? "" : key]];
    }
    bucket.indices.push_back(index);
    bucket.bytes += bytes;
    bucket.limit = limit;
    bucket.last = i;
    const bool is_full = faults_.unfused || (!faults_.before_exceeding &&
                                             (faults_.above_only ? bucket.bytes > limit : bucket.bytes >= limit));
    if (is_full) close(bucket, key);
  }

  const json& args_;
  Faults faults_;
  std::size_t count_ = 0;
  std::vector<std::int64_t> limits_;
  std::vector<int> indices_;
  std::vector<bool> sparse_;
  std::vector<std::string> keys_;
  std::map<std::string, ReplayedBucket> filling_;
  std::map<std::string, std::size_t> at_;
  std::vector<ReplayedBucket> closed_;
  std::string last_key_;
};

// The right rule but for a fault, under either convention.
RewriteAnswer assigned_with(Faults faults) {
  return results_of(kAssign, [faults](const json& args, json& result) {
    result = Assignment(args, faults).result(args.value("convention", "plumbline") == "torch");
  });
}

Mutant assign_mutant(const char* name, const char* violates, const char* what, const char* source, const char* shows,
                     const char* hides, const char* why, Faults faults) {
  const std::string check = "bucketing.assign.";
  return {name, violates, what, source, check + shows, *hides ? check + hides : "", why, assigned_with(faults)};
}

std::vector<Mutant> assign_mutants() {
  return {
      assign_mutant("bkt.overflow_drop", "BUCKET-001", "a gradient larger than the limit is in no bucket", "BKT-08",
                    "each_gradient_once[gradients=around_limit]", "each_gradient_once[gradients=equal]",
                    "all are smaller than the limit", {.drops_large = true}),
      assign_mutant("bkt.skip_empty", "BUCKET-001", "a gradient without elements is in no bucket",
                    "an if that looks like a short cut", "each_gradient_once[gradients=one_type]",
                    "each_gradient_once[gradients=equal]", "all have elements", {.skips_empty = true}),
      assign_mutant("bkt.mix_devices", "BUCKET-002", "gradients of two devices share a bucket",
                    "the key is the type alone", "one_type_and_device[gradients=types]",
                    "one_type_and_device[gradients=one_type]", "there is one device", {.keyed_by_type = true}),
      assign_mutant("bkt.mix_types_of_a_size", "BUCKET-002", "types of equally many bytes share a bucket",
                    "the key is the size of an element", "one_type_and_device[gradients=types]",
                    "one_type_and_device[gradients=limits]", "there is one type", {.keyed_by_size = true}),
      assign_mutant("bkt.mix_all", "BUCKET-002", "one bucket is filled with all types", "there is no key",
                    "one_type_and_device[gradients=ordered]", "one_type_and_device[gradients=sparse]",
                    "there is one type", {.keyed_by_nothing = true}),
      assign_mutant("bkt.close_before_exceeding", "BUCKET-003",
                    "a bucket closes before the gradient that would exceed its limit",
                    "the rule of Paddle and Horovod in the place of PyTorch's",
                    "closes_on_reaching[gradients=around_limit]", "closes_on_reaching[gradients=equal]",
                    "every bucket reaches its limit to the byte", {.before_exceeding = true}),
      assign_mutant("bkt.close_above_only", "BUCKET-003", "a bucket that reaches its limit to the byte goes on",
                    "> for >=", "closes_on_reaching[gradients=equal]", "",
                    "sizes are drawn until some fill a bucket to the byte", {.above_only = true}),
      assign_mutant("bkt.other_type_closes", "BUCKET-003",
                    "a gradient of another type closes the bucket that is being filled", "Paddle closes a group so",
                    "closes_on_reaching[gradients=types]", "closes_on_reaching[gradients=limits]", "there is one type",
                    {.type_change_closes = true}),
      assign_mutant("bkt.limit_in_elements", "BUCKET-003", "limits are taken for elements", "Megatron-LM's are",
                    "closes_on_reaching[gradients=one_type]", "", "every type has more than one byte",
                    {.counts_elements = true}),
      assign_mutant("bkt.all_of_four_bytes", "BUCKET-003", "every type counts as f32",
                    "a constant for the size of an element", "closes_on_reaching[gradients=types]",
                    "closes_on_reaching[gradients=one_type]", "all are f32", {.all_of_four_bytes = true}),
      assign_mutant("bkt.large_alone", "BUCKET-003", "a gradient larger than the limit goes into a bucket of its own",
                    "the bucket that is being filled is kept small", "closes_on_reaching[gradients=around_limit]",
                    "closes_on_reaching[gradients=equal]", "none is larger", {.large_alone = true}),
      assign_mutant("bkt.sum_of_32_bits", "BUCKET-003", "bytes are added in 32 bits", "int for a size",
                    "closes_on_reaching[gradients=large]", "closes_on_reaching[gradients=one_type]",
                    "the sums are small", {.in_32_bits = true}),
      assign_mutant("bkt.empties_alone", "BUCKET-003", "a gradient without elements gets a bucket of its own",
                    "it is taken for a sparse one", "closes_on_reaching[gradients=one_type]",
                    "closes_on_reaching[gradients=equal]", "all have elements", {.empties_alone = true}),
      assign_mutant("bkt.one_walk", "BUCKET-004", "all types walk the limits together", "one iterator for all keys",
                    "limits_in_turn[gradients=types]", "limits_in_turn[gradients=limits]", "there is one type",
                    {.one_walk = true}),
      assign_mutant("bkt.first_limit_for_all", "BUCKET-004", "every bucket has the first limit",
                    "the iterator is never moved", "limits_in_turn[gradients=limits]",
                    "limits_in_turn[gradients=one_type]", "there is one limit", {.first_for_ever = true}),
      assign_mutant("bkt.limits_start_over", "BUCKET-004", "after the last limit comes the first again", "a modulo",
                    "limits_in_turn[gradients=limits]", "limits_in_turn[gradients=one_type]", "there is one limit",
                    {.starts_over = true}),
      assign_mutant("bkt.sparse_takes_a_limit", "BUCKET-004", "a sparse gradient moves its type on to the next limit",
                    "its bucket is counted like the others", "limits_in_turn[gradients=ordered]",
                    "limits_in_turn[gradients=sparse]", "there is one limit", {.sparse_counts = true}),
      assign_mutant("bkt.last_limit_reported", "BUCKET-004", "buckets are said to have the last limit",
                    "the loop's variable is read after the loop", "limits_in_turn[gradients=limits]",
                    "limits_in_turn[gradients=one_type]", "there is one limit", {.last_limit_reported = true}),
      assign_mutant("bkt.sparse_mixed", "BUCKET-005", "sparse gradients lie among dense ones",
                    "the flags are not handed on", "sparse_alone[gradients=sparse]", "sparse_alone[gradients=types]",
                    "there are none", {.sparse_mixed = true}),
      assign_mutant(
          "bkt.sparse_by_position", "BUCKET-005", "the flag of a gradient is looked up by its position in the order",
          "the order changes what a position is", "sparse_alone[gradients=ordered]", "sparse_alone[gradients=sparse]",
          "position and index are the same in the order of registration", {.sparse_by_position = true}),
      assign_mutant("bkt.sparse_has_a_limit", "BUCKET-005", "a sparse gradient's bucket has the limit of the others",
                    "it is closed like one of them", "sparse_alone[gradients=sparse]", "sparse_alone[gradients=types]",
                    "there are none", {.sparse_has_limit = true}),
      assign_mutant("bkt.closing_order", "BUCKET-007", "in the order of registration, buckets stand as they closed",
                    "they are not sorted at the end", "buckets_in_order[gradients=types]",
                    "buckets_in_order[gradients=limits]", "of one type they close as they begin",
                    {.keeps_closing_order = true}),
      assign_mutant("bkt.always_sorted", "BUCKET-007", "buckets of another order are sorted by index, too",
                    "the order of readiness is lost again", "buckets_in_order[gradients=ordered]",
                    "buckets_in_order[gradients=types]", "the order is that of registration", {.always_sorted = true}),
      assign_mutant("bkt.ignore_threshold", "BUCKET-008", "the limit has no effect", "BKT-12",
                    "launches_follow_the_limit[dtype=f32]", "", "every case changes the limit",
                    {.ignores_limits = true}),
      assign_mutant("bkt.fusion_off", "BUCKET-008",
                    "every gradient has a bucket of its own: right results, too many launches", "BKT-09",
                    "launches_follow_the_limit[dtype=f16]", "", "every case fuses", {.unfused = true}),
  };
}

// ---- orders, conventions, caps, runs ----

void members_backwards(const json&, json& result) {
  for (json& bucket : result["buckets"]) std::reverse(bucket.begin(), bucket.end());
}

// What is not full at the end comes as it began.
void last_as_begun(const json& args, json& result) {
  if (args.value("tensor_indices", json::array()).empty()) return;
  Assignment whole(args, {});
  const json other = whole.result(false);
  result = other;
}

void rounds_up(const json& args, json& result) {
  if (args.contains("bucket_cap_mb") && args["bucket_cap_mb"].is_number() &&
      args["bucket_cap_mb"] != std::floor(args["bucket_cap_mb"].get<double>()))
    result["bucket_bytes_cap"] = result["bucket_bytes_cap"].get<std::int64_t>() + 1;
}

void small_first_always(const json&, json& result) {
  if (result["per_bucket_bytes_caps"].empty()) result["first_bucket_bytes_cap"] = bucketing::kDdpFirstBytes;
}

void last_of_list(const json&, json& result) {
  const json& caps = result["per_bucket_bytes_caps"];
  if (!caps.empty()) result["bucket_bytes_cap"] = result["first_bucket_bytes_cap"] = caps.back();
}

void static_is_searched(const json&, json& result) {
  json& limits = result["limits"];
  limits[3]["initial"] = limits[1]["initial"];
}

bool searches(const json& args) { return args.value("find_unused_parameters", false); }
bool is_static(const json& args) { return args.value("static_graph", false); }

// The launches of another iteration.
RewriteAnswer runs_with(std::function<std::size_t(const json& args, std::size_t iteration)> instead) {
  return results_of(kRuns, [instead = std::move(instead)](const json& args, json& result) {
    const json launches = result["launches"];
    for (std::size_t i = 0; i < launches.size(); ++i)
      result["launches"][i] = launches[std::min(instead(args, i), launches.size() - 1)];
  });
}

void launched_as_planned(const json& args, json& result) {
  for (std::size_t i = 0; i < result["launches"].size(); ++i) {
    const bool rebuilt = is_static(args) ? i >= 2 : !searches(args) && i >= 1;
    if (rebuilt) continue;
    json& launches = result["launches"][i];
    std::reverse(launches.begin(), launches.end());
    for (std::size_t j = 0; j < launches.size(); ++j)
      launches[j]["index"] = j, launches[j]["is_last"] = j + 1 == launches.size();
  }
}

void rebuilt_backwards(const json& args, json& result) {
  for (std::size_t i = is_static(args) ? 2 : searches(args) ? 1000 : 1; i < result["launches"].size(); ++i) {
    json& launches = result["launches"][i];
    std::reverse(launches.begin(), launches.end());
  }
}

std::vector<Mutant> torch_mutants() {
  const std::string check = "bucketing.assign.";
  return {
      {"bkt.members_backwards", "BUCKET-006", "the members of a bucket stand from the last to the first",
       "a buffer that is filled from its end", check + "order_kept[gradients=one_type]", "",
       "every case has a bucket of several", results_of(kAssign, members_backwards)},
      {"bkt.torch_last_as_completed", "BUCKET-010",
       "what is not full at the end comes by its last gradient, also as PyTorch",
       "its table is walked the other way round", check + "torch_recorded[gradients=ordered]",
       check + "torch_recorded[gradients=types]", "in the order of registration they are sorted",
       results_of(kAssign, "torch", last_as_begun)},
      {"bkt.cap_rounded_up", "BUCKET-011", "a part of a byte counts as one", "ceil for int()",
       check + "torch_capacity[caps=one]", check + "torch_capacity[caps=default]", "the default is whole",
       results_of(kCapacity, rounds_up)},
      {"bkt.small_first_always", "BUCKET-011", "the first bucket has 1 MiB though a cap was given",
       "the default is not asked for", check + "torch_capacity[caps=one]", check + "torch_capacity[caps=default]",
       "nothing is given", results_of(kCapacity, small_first_always)},
      {"bkt.cap_is_last_of_list", "BUCKET-011", "of a list of caps the last is the cap, not the largest",
       "lists mostly rise", check + "torch_capacity[caps=list]", check + "torch_capacity[caps=one]", "there is no list",
       results_of(kCapacity, last_of_list)},
      {"bkt.static_is_searched", "BUCKET-011", "a static graph that is asked to be searched starts with small buckets",
       "the two options are looked at in the other order", check + "torch_capacity[caps=default]",
       check + "torch_capacity[caps=list]", "a list holds for all", results_of(kCapacity, static_is_searched)},
      {"bkt.launched_as_planned", "BUCKET-012", "the first plan is launched from its first bucket on",
       "a reverse is forgotten", check + "ddp_recorded[options=find_unused]",
       check + "ddp_recorded[options=static_graph]", "there is one bucket until it is rebuilt",
       results_of(kRuns, launched_as_planned)},
      {"bkt.never_rebuilt", "BUCKET-013", "the buckets of the first iteration stay", "the rebuilt order is stale",
       check + "rebuilt_once[options=neither,device=cpu]",
       check + "rebuilt_once[options=find_unused_parameters,device=cpu]", "they do stay",
       runs_with([](const json&, std::size_t) { return std::size_t{0}; })},
      {"bkt.static_rebuilt_early", "BUCKET-013", "a static graph's buckets are rebuilt after the first iteration",
       "as those of others", check + "rebuilt_once[options=static_graph,device=cpu]",
       check + "rebuilt_once[options=neither,device=cpu]", "the graph is not static",
       runs_with([](const json& args, std::size_t i) { return is_static(args) && i == 1 ? std::size_t{2} : i; })},
      {"bkt.rebuilt_backwards", "BUCKET-013", "rebuilt buckets are launched from the last to the first",
       "as those of the constructor", check + "rebuilt_once[options=both,device=cpu]",
       check + "rebuilt_once[options=find_unused_parameters,device=cpu]", "they are not rebuilt",
       results_of(kRuns, rebuilt_backwards)},
      {"bkt.searched_is_rebuilt", "BUCKET-013", "the buckets are rebuilt though the graph is searched",
       "unused parameters have no place in the order",
       check + "rebuilt_once[options=find_unused_parameters,device=cpu]",
       check + "rebuilt_once[options=both,device=cpu]", "a static graph is rebuilt",
       results_of(kRuns,
                  [](const json& args, json& result) {
                    if (searches(args) && !is_static(args))
                      for (std::size_t i = 1; i < result["launches"].size(); ++i)
                        std::reverse(result["launches"][i].begin(), result["launches"][i].end());
                  })},
      {"bkt.default_first_is_large", "BUCKET-041", "the first bucket is as large as the others by default",
       "one cap for all", check + "default_capacity[caps=default]", check + "default_capacity[caps=one]",
       "a cap that is given holds for the first, too",
       results_of(kCapacity, "plumbline",
                  [](const json&, json& result) { result["first_bucket_bytes_cap"] = result["bucket_bytes_cap"]; })},
      {"bkt.default_never_rebuilt", "BUCKET-041",
       "the buckets of the first iteration stay, but under PyTorch's convention", "the order is not asked for",
       check + "default_runs[options=neither]", check + "default_runs[options=find_unused]", "they do stay",
       results_of(kRuns, "plumbline",
                  [](const json&, json& result) {
                    for (json& launches : result["launches"]) launches = json(result["launches"][0]);
                  })},
      {"bkt.takes_bad_sizes", "BUCKET-009", "sizes below 0 are taken", "they are added like others",
       check + "bad_arguments[fault=negative_size]", check + "bad_arguments[fault=no_limit]", "no size is below 0",
       takes(kAssign, [](const json& args) { return args.at("numel").back() == -1; },
             {{"buckets", {{0, 1}}}, {"bucket_limits", {100}}})},
      {"bkt.overflow_wraps", "BUCKET-009", "sums of bytes wrap", "no look at the sum",
       check + "bad_arguments[fault=overflow_of_sum]", check + "bad_arguments[fault=negative_limit]",
       "the sum is small",
       takes(kAssign,
             [](const json& args) { return args.at("numel").front().get<std::int64_t>() >= std::int64_t{1} << 60; },
             {{"buckets", {{0, 1}}}, {"bucket_limits", {100}}})},
      {"bkt.takes_negative_caps", "BUCKET-014", "a cap below 0 is taken", "int() takes it",
       check + "bad_caps[fault=negative_cap]", check + "bad_caps[fault=negative_iterations]", "it is no cap",
       takes(kCapacity, [](const json& args) { return args.contains("bucket_cap_mb"); })},
  };
}

// ---- padded buffers ----

bucketing::MegatronOptions layout_options(const json& args) {
  bucketing::MegatronOptions options;
  if (args.contains("bucket_size_elements") && !args["bucket_size_elements"].is_null())
    options.bucket_elements = args["bucket_size_elements"].get<std::int64_t>();
  if (args.contains("data_parallel_world_size"))
    options.distributed_optimizer = {.ranks = args["data_parallel_world_size"],
                                     .pads_for_bandwidth = args.value("pad_buckets_for_high_nccl_busbw", false),
                                     .shared_embedding = args.value("shared_embedding", std::vector<int>())};
  return options;
}

json json_of(const bucketing::MegatronLayout& layout) {
  json parameters = json::array(), buckets = json::array();
  for (std::size_t i = 0; i < layout.parameters.size(); ++i)
    parameters.push_back({layout.parameters[i].begin, layout.parameters[i].end, layout.bucket[i]});
  for (const bucketing::Interval& bucket : layout.buckets) buckets.push_back({bucket.begin, bucket.end});
  return {{"param_index", parameters}, {"bucket_indices", buckets}, {"per_bucket_numel_unpadded", layout.unpadded}};
}

// The layout that other options have, or other sizes.
RewriteAnswer laid_out_with(
    std::function<void(std::vector<std::int64_t>& numel, bucketing::MegatronOptions& options)> change) {
  return results_of(kLayout, "plumbline", [change = std::move(change)](const json& args, json& result) {
    auto numel = args.at("numel").get<std::vector<std::int64_t>>();
    bucketing::MegatronOptions options = layout_options(args);
    change(numel, options);
    result = json_of(bucketing::megatron_layout(numel, options));
  });
}

RewriteAnswer optimizer_with(std::function<void(bucketing::DistributedOptimizer& optimizer)> change) {
  return laid_out_with([change = std::move(change)](std::vector<std::int64_t>&, bucketing::MegatronOptions& options) {
    if (options.distributed_optimizer) change(*options.distributed_optimizer);
  });
}

void starts_rounded_down(const json& args, json& result) {
  json& places = result["param_index"];
  for (std::size_t i = places.size(); args.contains("data_parallel_world_size") && i-- > 1;) {
    if (places[i - 1][2] != places[i][2]) continue;
    const std::int64_t begin = places[i][1].get<std::int64_t>() / 64 * 64,
                       size = places[i - 1][1].get<std::int64_t>() - places[i - 1][0].get<std::int64_t>();
    places[i - 1][0] = begin;
    places[i - 1][1] = begin + size;
  }
}

void buckets_without_padding(const json&, json& result) {
  for (std::size_t i = 0; i < result["bucket_indices"].size(); ++i)
    result["bucket_indices"][i][1] =
        result["bucket_indices"][i][0].get<std::int64_t>() + result["per_bucket_numel_unpadded"][i].get<std::int64_t>();
}

// All buckets but the last end where their parameters do.
void only_last_padded(const json& args, json& result) {
  if (!args.contains("data_parallel_world_size")) return;
  json& buckets = result["bucket_indices"];
  std::int64_t shift = 0;
  for (std::size_t i = 0; i < buckets.size(); ++i) {
    const std::int64_t begin = buckets[i][0], end = buckets[i][1], unpadded = result["per_bucket_numel_unpadded"][i];
    const std::int64_t kept = i + 1 == buckets.size() ? end - begin : (unpadded + 63) / 64 * 64;
    buckets[i] = {begin - shift, begin - shift + kept};
    for (json& place : result["param_index"])
      if (place[2] == i)
        place[0] = place[0].get<std::int64_t>() - shift, place[1] = place[1].get<std::int64_t>() - shift;
    shift += end - begin - kept;
  }
}

void unpadded_is_padded(const json&, json& result) {
  for (std::size_t i = 0; i < result["bucket_indices"].size(); ++i)
    result["per_bucket_numel_unpadded"][i] =
        result["bucket_indices"][i][1].get<std::int64_t>() - result["bucket_indices"][i][0].get<std::int64_t>();
}

std::vector<Mutant> layout_mutants() {
  const std::string check = "bucketing.layout.";
  using Sizes = std::vector<std::int64_t>;
  using bucketing::DistributedOptimizer;
  using bucketing::MegatronOptions;
  return {
      {"bkt.pad_overlap", "BUCKET-015", "a parameter starts at the multiple below the end of the one before", "BKT-10",
       check + "disjoint_views[buffer=padded]", check + "disjoint_views[buffer=multiples]", "every size is a multiple",
       results_of(kLayout, starts_rounded_down)},
      {"bkt.bucket_without_padding", "BUCKET-015",
       "a bucket ends with its last parameter, the next one begins after the padding",
       "two of three places know of the padding", check + "disjoint_views[buffer=padded]",
       check + "disjoint_views[buffer=plain]", "there is no padding", results_of(kLayout, buckets_without_padding)},
      {"bkt.places_of_32_bits", "BUCKET-015", "places are of 32 bits", "int for a place", check + "large[bits=33]",
       check + "large[bits=20]", "they fit",
       results_of(kLayout,
                  [](const json&, json& result) {
                    for (json& place : result["param_index"])
                      for (json& at : place) at = static_cast<std::int32_t>(at.get<std::int64_t>());
                  })},
      {"bkt.first_parameter_first", "BUCKET-016", "the buffer begins with the first parameter",
       "the order of registration, not of the backward", check + "last_parameter_first[buffer=plain]", "",
       "every case has several parameters",
       results_of(kLayout, "plumbline",
                  [](const json& args, json& result) {
                    auto numel = args.at("numel").get<Sizes>();
                    std::ranges::reverse(numel);
                    MegatronOptions options = layout_options(args);
                    if (options.distributed_optimizer) options.distributed_optimizer->shared_embedding.clear();
                    result = json_of(bucketing::megatron_layout(numel, options));
                    std::reverse(result["param_index"].begin(), result["param_index"].end());
                  })},
      {"bkt.no_start_alignment", "BUCKET-017", "parameters are packed without regard to multiples of 64",
       "the padding of ends is enough to be dealt out", check + "aligned_starts[buffer=padded]",
       check + "aligned_starts[buffer=plain]", "nothing is aligned",
       laid_out_with([](Sizes&, MegatronOptions& options) { options.distributed_optimizer.reset(); })},
      {"bkt.pad_world", "BUCKET-018", "buckets are padded for another group than the one that they are dealt to",
       "BKT-15", check + "padded_ends[buffer=padded]", check + "padded_ends[buffer=multiples]", "the ranks divide 128",
       optimizer_with([](DistributedOptimizer& optimizer) { optimizer.ranks = 1; })},
      {"bkt.only_last", "BUCKET-018", "the last bucket alone is padded", "BKT-19", check + "padded_ends[buffer=padded]",
       check + "padded_ends[buffer=plain]", "none is", results_of(kLayout, only_last_padded)},
      {"bkt.bandwidth_ignored", "BUCKET-018", "the padding for bandwidth is left out", "the option is not handed on",
       check + "padded_ends[buffer=bandwidth]", check + "padded_ends[buffer=padded]", "it is not asked for",
       optimizer_with([](DistributedOptimizer& optimizer) { optimizer.pads_for_bandwidth = false; })},
      {"bkt.bandwidth_always", "BUCKET-018", "buckets are always padded for bandwidth", "the option is not looked at",
       check + "padded_ends[buffer=padded]", check + "padded_ends[buffer=bandwidth]", "it is asked for",
       optimizer_with([](DistributedOptimizer& optimizer) { optimizer.pads_for_bandwidth = true; })},
      {"bkt.unpadded_is_padded", "BUCKET-018", "sizes without padding are given with it",
       "the field is filled after the padding", check + "padded_ends[buffer=padded]",
       check + "padded_ends[buffer=plain]", "they are the same", results_of(kLayout, unpadded_is_padded)},
      {"bkt.size_in_bytes", "BUCKET-019", "the size of buckets is taken for bytes", "PyTorch's is",
       check + "closes_on_reaching[buffer=plain]", "", "every case has a size",
       laid_out_with([](Sizes&, MegatronOptions& options) {
         if (options.bucket_elements)
           *options.bucket_elements = std::max<std::int64_t>(1, *options.bucket_elements / 4);
       })},
      {"bkt.one_bucket", "BUCKET-019", "there is one bucket whatever the size", "overlap is off",
       check + "closes_on_reaching[buffer=padded]", "", "every case has a size",
       laid_out_with([](Sizes&, MegatronOptions& options) { options.bucket_elements.reset(); })},
      {"bkt.embedding_shares", "BUCKET-020", "a shared embedding lies in a bucket with others",
       "the attribute is not looked at", check + "embedding_alone[buffer=embedding]",
       check + "embedding_alone[buffer=padded]", "there is none",
       optimizer_with([](DistributedOptimizer& optimizer) { optimizer.shared_embedding.clear(); })},
      {"bkt.ddp_is_padded", "BUCKET-021", "the buffer is padded also without the distributed optimizer",
       "one layout for both", check + "megatron_recorded[kind=ddp_layout]",
       check + "megatron_recorded[kind=distributed_optimizer_layout]", "it is padded",
       results_of(kLayout, "megatron",
                  [](const json& args, json& result) {
                    MegatronOptions options = layout_options(args);
                    if (!options.distributed_optimizer) options.distributed_optimizer = DistributedOptimizer{};
                    result = json_of(bucketing::megatron_layout(args.at("numel").get<Sizes>(), options));
                  })},
      {"bkt.takes_no_ranks", "BUCKET-022", "a group of no ranks is taken", "a maximum with 1",
       check + "bad_arguments[fault=no_ranks]", check + "bad_arguments[fault=negative_size]",
       "there are no ranks to speak of",
       takes(kLayout, [](const json& args) { return args.value("data_parallel_world_size", 1) == 0; })},
  };
}

// ---- flat buffers ----

std::string kind_of(const json& args, int gradient, bool with_group) {
  const auto i = static_cast<std::size_t>(gradient);
  return args["dtype"][i].get<std::string>() + args["device"][i].get<std::string>() +
         (with_group ? args["group"][i].dump() : "");
}

// Buffers that are one but for their group.
void mix_groups(const json& args, json& result) {
  json merged = json::array();
  for (const json& bucket : result["buckets"]) {
    const bool is_sparse = !args.value("expect_sparse_gradient", json::array()).empty() &&
                           args["expect_sparse_gradient"][bucket[0].get<std::size_t>()] == true;
    const auto like = std::ranges::find_if(
        merged, [&](const json& other) { return kind_of(args, other[0], false) == kind_of(args, bucket[0], false); });
    if (like == merged.end() || is_sparse)
      merged.push_back(bucket);
    else
      like->insert(like->end(), bucket.begin(), bucket.end());
  }
  result["buckets"] = merged;
}

void split_runs(const json&, json& result) {
  json split = json::array();
  for (const json& bucket : result["buckets"])
    for (const json& gradient : bucket) {
      const bool goes_on = !split.empty() && split.back().back().get<int>() + 1 == gradient.get<int>();
      if (!goes_on) split.push_back(json::array());
      split.back().push_back(gradient);
    }
  result["buckets"] = split;
}

void sort_buckets_by_first(const json& args, json& result) {
  const auto order = args.value("order", std::vector<int>());
  const auto position = [&](int gradient) {
    return order.empty() ? gradient : static_cast<int>(std::ranges::find(order, gradient) - order.begin());
  };
  std::stable_sort(result["buckets"].begin(), result["buckets"].end(),
                   [&](const json& a, const json& b) { return position(a[0]) < position(b[0]); });
}

void types_first(const json& args, json& result) {
  std::vector<std::string> seen;
  for (const auto& name : args["dtype"]) seen.push_back(name);
  std::stable_sort(result["buckets"].begin(), result["buckets"].end(), [&](const json& a, const json& b) {
    const auto first = [&](const json& bucket) {
      return std::ranges::find(seen, seen[bucket[0].get<std::size_t>()]) - seen.begin();
    };
    return first(a) < first(b);
  });
}

std::vector<Mutant> flat_mutants() {
  const std::string check = "bucketing.flat.";
  return {
      {"bkt.mix_groups", "BUCKET-023", "gradients of several groups share a buffer", "BKT-13",
       check + "one_buffer_a_kind[gradients=groups_of_one_type]", check + "one_buffer_a_kind[gradients=one_group]",
       "there is one group", results_of(kFlatten, "plumbline", mix_groups)},
      {"bkt.flat_in_runs", "BUCKET-023", "a buffer ends where another kind begins", "only the last buffer is looked at",
       check + "one_buffer_a_kind[gradients=types]", check + "one_buffer_a_kind[gradients=equal]", "there is one kind",
       results_of(kFlatten, "plumbline", split_runs)},
      {"bkt.group_forgotten", "BUCKET-023", "every buffer is said to be of group 0", "a field that is not filled",
       check + "described[gradients=groups_of_one_type]", check + "described[gradients=one_group]", "it is",
       results_of(kFlatten, "plumbline",
                  [](const json&, json& result) {
                    for (json& group : result["groups"]) group = 0;
                  })},
      {"bkt.flat_as_begun", "BUCKET-024", "buffers are launched as they began", "the order of a table of keys",
       check + "as_completed[gradients=types]", check + "as_completed[gradients=equal]", "there is one buffer",
       results_of(kFlatten, "plumbline", sort_buckets_by_first)},
      {"bkt.flat_registered", "BUCKET-024", "members lie in the order of registration",
       "the order of readiness is not looked at", check + "as_completed[gradients=ordered]",
       check + "as_completed[gradients=one_group]", "it is the order",
       results_of(kFlatten, "plumbline",
                  [](const json&, json& result) {
                    for (json& bucket : result["buckets"]) std::sort(bucket.begin(), bucket.end());
                  })},
      {"bkt.unfused_registered", "BUCKET-025", "unfused reductions go in the order of registration",
       "a loop over parameters", check + "unfused[order=ready]", check + "unfused[order=registered]", "it is the order",
       results_of(kFlatten,
                  [](const json& args, json& result) {
                    if (args.value("fused", true) == false)
                      std::sort(result["buckets"].begin(), result["buckets"].end());
                  })},
      {"bkt.colossalai_types_first", "BUCKET-026", "all groups of a type come first, then the next type",
       "the two loops the other way round", check + "colossalai[groups=several]", check + "colossalai[groups=one]",
       "there is one group", results_of(kFlatten, "colossalai", types_first)},
      {"bkt.takes_negative_groups", "BUCKET-027", "a group below 0 is taken", "any number is a key",
       check + "bad_arguments[fault=negative_group]", check + "bad_arguments[fault=negative_gradient]",
       "the size is what is wrong",
       takes(kFlatten, [](const json& args) { return args.contains("group") && args["group"][0] == -1; })},
  };
}

// ---- checks of plans ----

// Drops the problems that it does not see, and judges by what is left.
RewriteAnswer blind_to(std::function<bool(const json& args, const json& problem)> unseen) {
  return results_of(kCheck, [unseen = std::move(unseen)](const json& args, json& result) {
    json seen = json::array();
    bool valid = true;
    for (const json& problem : result["problems"]) {
      if (unseen(args, problem)) continue;
      valid = valid && problem["severity"] != "error";
      seen.push_back(problem);
    }
    result = {{"valid", valid}, {"problems", seen}};
  });
}
RewriteAnswer blind_to_kind(const char* kind) {
  return blind_to([kind](const json&, const json& problem) { return problem["kind"] == kind; });
}

Mutant blind_mutant(const char* name, const char* kind, const char* what, const char* source, const char* shows,
                    const char* hides) {
  const std::string check = "bucketing.plan.faults_are_found[fault=";
  return {name,
          "BUCKET-029",
          what,
          source,
          check + shows + "]",
          check + hides + "]",
          "the fault is another one",
          blind_to_kind(kind)};
}

std::vector<Mutant> check_mutants() {
  const std::string check = "bucketing.plan.";
  return {
      blind_mutant("bkt.include_frozen", "frozen", "frozen parameters may be in buckets", "BKT-07", "frozen_included",
                   "twice"),
      blind_mutant("bkt.twice_unseen", "doubled", "a gradient may be in two buckets",
                   "the cover is checked for holes alone", "twice", "left_out"),
      blind_mutant("bkt.left_out_unseen", "missing", "a gradient may be in no bucket",
                   "what is there is checked, not what is not", "no_bucket_at_all", "twice"),
      blind_mutant("bkt.overlap_unseen", "overlap", "members may overlap", "sizes are added and places not looked at",
                   "overlapping", "gap_between"),
      blind_mutant("bkt.gap_unseen", "gap", "elements may belong to no gradient, and are reduced as data",
                   "a gap looks like padding", "gap_between", "overlapping"),
      blind_mutant("bkt.outside_unseen", "outside", "a member may reach beyond its bucket",
                   "places are compared with each other alone", "behind_the_bucket", "gap_at_the_end"),
      blind_mutant("bkt.mixed_unseen", "mixed", "a bucket may have members of other types, devices and groups",
                   "BKT-13", "another_group", "sparse_among_dense"),
      blind_mutant("bkt.sparse_unseen", "alone", "a sparse gradient may lie among others",
                   "its place is like any other", "sparse_among_dense", "another_type"),
      blind_mutant("bkt.alignment_unseen", "alignment", "places need not be multiples", "only sizes are looked at",
                   "member_not_aligned", "padding_too_long"),
      blind_mutant("bkt.cap_unseen", "cap", "caps are not looked at", "BKT-12", "closed_too_late", "buckets_swapped"),
      blind_mutant("bkt.order_unseen", "order", "members may be in any order", "BKT-01", "members_swapped",
                   "closed_too_early"),
      blind_mutant("bkt.overflow_unseen", "overflow", "a bucket may have more bytes than 64 bits hold",
                   "elements are compared, not bytes", "too_many_bytes", "gap_at_the_end"),
      blind_mutant("bkt.range_unseen", "range", "a bucket may have a gradient that there is not", "an index is trusted",
                   "no_such_gradient", "left_out"),
      {"bkt.last_bucket_alone_checked", "BUCKET-029", "caps are looked at in the last bucket alone", "BKT-19",
       check + "faults_are_found[fault=closed_too_late]", check + "faults_are_found[fault=limit_of_the_other_end]",
       "it is the last bucket", blind_to([](const json& args, const json& problem) {
         return problem["kind"] == "cap" && problem["bucket"] != args["plan"]["buckets"].size() - 1;
       })},
      {"bkt.names_nobody", "BUCKET-029", "problems do not say whom they concern", "a message is thought to be enough",
       check + "faults_are_found[fault=another_type]", "", "every case asks whom a problem concerns",
       results_of(kCheck,
                  [](const json&, json& result) {
                    for (json& problem : result["problems"]) problem["gradient"] = problem["bucket"] = nullptr;
                  })},
      {"bkt.padding_is_a_gap", "BUCKET-028", "padding that alignment needs is called a gap",
       "the rules are not looked at", check + "right_plans_pass[plan=aligned]", check + "right_plans_pass[plan=packed]",
       "there is none",
       results_of(kCheck,
                  [](const json& args, json& result) {
                    if (args.value("member_alignment", 1) > 1) result["valid"] = false;
                  })},
      {"bkt.reverse_is_disorder", "BUCKET-028", "limits are walked from the first launch on, whatever was planned",
       "DDP turns its first plan round", check + "right_plans_pass[plan=reversed]",
       check + "right_plans_pass[plan=limits]", "it was planned so",
       results_of(kCheck,
                  [](const json& args, json& result) {
                    if (args.value("planned_in_reverse", false)) result["valid"] = false;
                  })},
      {"bkt.warnings_fail", "BUCKET-030", "a plan with a warning is not valid", "every problem counts alike",
       check + "warnings_are_no_errors[warning=waits]", "", "every case has a warning",
       results_of(kCheck, [](const json&, json& result) { result["valid"] = result["problems"].empty(); })},
      {"bkt.takes_other_models", "BUCKET-036", "data of another model are read",
       "sizes are not held against the gradients", check + "bad_torch_plans[fault=number_of_another_model]",
       check + "bad_plans[fault=no_buckets]", "the plan is ours",
       takes(kRead, [](const json&) { return true; }, {{"plan", {{"buckets", json::array()}}}})},
  };
}

// ---- reading ----

RewriteAnswer read_as(const char* convention, std::function<void(const json& args, json& buckets)> change) {
  return results_of(kRead, convention, [change = std::move(change)](const json& args, json& result) {
    change(args, result["plan"]["buckets"]);
  });
}

bool is_rebuilt(const json& args) { return args["plan"].contains("rebuilt_per_bucket_param_indices"); }

std::vector<Mutant> read_mutants() {
  const std::string check = "bucketing.plan.";
  return {
      {"bkt.names_no_field", "BUCKET-036", "an error says that the plan is wrong, and not where",
       "one message for every field", check + "bad_plans[fault=unknown_type_of_a_bucket]",
       check + "bad_plans[fault=plan_that_is_a_list]", "the plan itself is what is wrong",
       [](const std::string& op, const json&, json reply) {
         if (op == kCheck && reply.contains("error")) reply["error"]["message"] = "the plan is not valid";
         return reply;
       }},
      {"bkt.sizes_read_forwards", "BUCKET-031",
       "buckets of which sizes are known are listed from the first parameter on",
       "they are launched from the last to the first", check + "reads_torch[buckets=first]",
       check + "reads_torch[buckets=rebuilt]", "indices are given",
       read_as("torch",
               [](const json& args, json& buckets) {
                 if (!is_rebuilt(args)) std::reverse(buckets.begin(), buckets.end());
               })},
      {"bkt.rebuilt_read_backwards", "BUCKET-031", "rebuilt buckets are turned round", "as the first ones are",
       check + "reads_torch[buckets=rebuilt]", check + "reads_torch[buckets=first]", "they are not rebuilt",
       read_as("torch",
               [](const json& args, json& buckets) {
                 if (is_rebuilt(args)) std::reverse(buckets.begin(), buckets.end());
               })},
      {"bkt.padding_unread", "BUCKET-032", "a bucket that is read has no padding", "the unpadded sizes are at hand",
       check + "reads_megatron[buckets=padded]", check + "reads_megatron[buckets=plain]", "there is none",
       read_as("megatron",
               [](const json& args, json& buckets) {
                 for (std::size_t i = 0; i < buckets.size(); ++i)
                   buckets[i]["elements"] = args["plan"]["per_bucket_numel_unpadded"][i];
               })},
      {"bkt.places_in_the_buffer", "BUCKET-032", "places are those in the buffer, not in the bucket",
       "one subtraction less", check + "reads_megatron[buckets=plain]", "", "every case has several buckets",
       read_as("megatron",
               [](const json& args, json& buckets) {
                 for (std::size_t i = 0; i < buckets.size(); ++i)
                   for (json& member : buckets[i]["members"])
                     member[1] =
                         member[1].get<std::int64_t>() + args["plan"]["bucket_indices"][i][0].get<std::int64_t>();
               })},
      {"bkt.ring_unread", "BUCKET-033", "the ring of a group is not read", "names and sizes are enough",
       check + "reads_paddle[buckets=recorded]", "", "every group has a ring",
       read_as("paddle",
               [](const json&, json& buckets) {
                 for (json& bucket : buckets) bucket["group"] = 0;
               })},
  };
}

// ---- time ----

void ring_without_share(const json& args, json& result) {
  const int ranks = args["world_size"];
  if (ranks < 2 || args["bandwidth"] == 0) return;
  result["communication"] = result["communication"].get<double>() * ranks / (ranks - 1);
}

std::vector<Mutant> time_mutants() {
  const std::string check = "bucketing.plan.";
  return {
      {"bkt.all_exposed", "BUCKET-034", "all communication counts as exposed", "a sum without overlap",
       check + "exposed_by_recurrence[times=any]", check + "exposed_by_recurrence[times=one_rank]", "there is none",
       results_of(kExposed, [](const json&, json& result) { result["exposed"] = result["communication"]; })},
      {"bkt.ring_without_share", "BUCKET-034", "a rank sends its own part, too", "2 b / B for 2 (n-1)/n b / B",
       check + "exposed_by_recurrence[times=any]", check + "exposed_by_recurrence[times=free]", "bytes take no time",
       results_of(kExposed, ring_without_share)},
      {"bkt.many_channels", "BUCKET-034", "buckets do not wait for each other", "as many channels as buckets",
       check + "exposed_by_recurrence[times=late_first]", "", "a bucket waits in every case",
       results_of(kExposed,
                  [](const json&, json& result) {
                    for (json& launch : result["launches"])
                      launch["end"] =
                          launch["end"].get<double>() - launch["start"].get<double>() + launch["ready"].get<double>(),
                      launch["start"] = launch["ready"];
                  })},
      {"bkt.never_hidden", "BUCKET-035", "the formula where communication is the longer is used throughout",
       "one case for two", check + "equal_buckets[bound=backward]", check + "equal_buckets[bound=communication]",
       "it is the longer",
       results_of(kEqual,
                  [](const json& args, json& result) {
                    for (std::size_t i = 0; i < result["exposed"].size(); ++i) {
                      const double ranks = args["world_size"], count = args["buckets"][i], backward = args["backward"];
                      const double one = 2 * (ranks - 1) * args["latency"].get<double>() +
                                         2 * (ranks - 1) / ranks * args["bytes"].get<double>() / count /
                                             args["bandwidth"].get<double>();
                      result["exposed"][i] = backward / count + count * one - backward;
                    }
                  })},
      {"bkt.best_without_ranks", "BUCKET-035", "the best number is that of two ranks", "n - 1 is forgotten",
       check + "equal_buckets[bound=communication]", "", "every case has more ranks",
       results_of(kEqual,
                  [](const json& args, json& result) {
                    result["best_count"] =
                        result["best_count"].get<double>() * std::sqrt(args["world_size"].get<double>() - 1);
                  })},
      {"bkt.takes_negative_times", "BUCKET-037", "times below 0 are taken", "a clock that was set back",
       check + "bad_times[fault=time_below_0]", check + "bad_times[fault=no_ranks]", "no time is below 0",
       takes(kExposed, [](const json& args) { return args["ready"] == json{-1}; })},
  };
}

// ---- agreement ----

void silence(const json& args, json& result) {
  result = {{"agrees", true}, {"differences", json(args["ranks"].size(), nullptr)}};
}

// What is left of the ranks' plans when somebody looks at a part of them alone is equal: they agree.
RewriteAnswer looks_at(std::function<json(const json& ours)> part) {
  return results_of(kAgree, [part = std::move(part)](const json& args, json& result) {
    const json first = part(args["ranks"][0]);
    if (std::ranges::all_of(args["ranks"], [&](const json& ours) { return part(ours) == first; }))
      silence(args, result);
  });
}

json order_told(const json& ours) {
  json order = json::array();
  for (const json& bucket : ours["plan"]["buckets"])
    for (const json& member : bucket["members"]) order.push_back(member[0]);
  return order;
}

json sizes_of(const json& ours) {
  json sizes = json::array();
  for (const json& gradient : ours["gradients"]) sizes.push_back(gradient);
  for (const json& bucket : ours["plan"]["buckets"])
    sizes.push_back({bucket["elements"], bucket["limit_bytes"], bucket["members"].size()});
  return sizes;
}

json without_shapes(const json& ours) {
  json rest = ours;
  rest.erase("shapes");
  return rest;
}

std::vector<Mutant> agreement_mutants() {
  const std::string check = "bucketing.agreement.";
  return {
      {"bkt.never_agrees", "BUCKET-038", "ranks that have the same are said to differ", "addresses are compared",
       check + "all_agree[ranks=5,parameters=usual]", check + "all_agree[ranks=1,parameters=usual]",
       "one rank is not compared",
       results_of(kAgree, [](const json& args, json& result) { result["agrees"] = args["ranks"].size() == 1; })},
      {"bkt.agree_order_only", "BUCKET-039",
       "ranks compare the order of gradients, not the number, sizes and limits of buckets", "BKT-02",
       check + "differences_are_told[differs=split]", check + "differences_are_told[differs=place]",
       "the order is what differs", looks_at(order_told)},
      {"bkt.shapes_not_compared", "BUCKET-039", "shapes of one size are taken for the same", "sizes are compared",
       check + "differences_are_told[differs=shape]", check + "differences_are_told[differs=size]", "the size differs",
       looks_at(without_shapes)},
      {"bkt.tells_one_rank", "BUCKET-039", "rank 0 alone is told, the others go on into the reduction",
       "who compares throws, and nobody else", check + "differences_are_told[differs=type]", "",
       "every case has several ranks to tell",
       results_of(kAgree,
                  [](const json&, json& result) {
                    for (std::size_t i = 1; i < result["differences"].size(); ++i) result["differences"][i] = nullptr;
                  })},
      {"bkt.tells_its_own_view", "BUCKET-039", "each rank is told how it differs from the next rank",
       "neighbours compare", check + "differences_are_told[differs=padding]", "",
       "every case has several ranks to tell",
       results_of(kAgree,
                  [](const json&, json& result) {
                    for (std::size_t i = 0; i < result["differences"].size(); ++i)
                      if (!result["differences"][i].is_null())
                        result["differences"][i]["message"] = "rank " + std::to_string(i) + " differs";
                  })},
      {"bkt.numbers_for_names", "BUCKET-039", "a difference is named by its number", "hashes have no names",
       check + "differences_are_told[differs=missing]", check + "differences_are_told[differs=limit]",
       "it is of a bucket, which has no name",
       results_of(kAgree,
                  [](const json&, json& result) {
                    for (json& one : result["differences"])
                      if (one.is_object() && !one["subject"].get<std::string>().starts_with("bucket"))
                        one["subject"] = "gradient 3";
                  })},
      {"bkt.one_value_told", "BUCKET-039", "only the value of the lowest rank is told", "a message has room for one",
       check + "differences_are_told[differs=group]", "", "every case has two values",
       results_of(kAgree,
                  [](const json&, json& result) {
                    for (json& one : result["differences"])
                      if (one.is_object()) one["opinions"].erase(1);
                  })},
      {"bkt.rank_dependent_order", "BUCKET-040", "each rank may have the order in which its own gradients became ready",
       "BKT-01", check + "orders_of_readiness[ranks=4]", check + "orders_of_readiness[ranks=1]", "there is one rank",
       looks_at(sizes_of)},
  };
}

}  // namespace

std::vector<Mutant> bucket_mutants() {
  std::vector<Mutant> all;
  for (const auto kind : {assign_mutants, torch_mutants, layout_mutants, flat_mutants, check_mutants, read_mutants,
                          time_mutants, agreement_mutants})
    std::ranges::move(kind(), std::back_inserter(all));
  return all;
}

}  // namespace plumbline::mutants
