// Buckets of ten gradients to 100,000, each plan derived a second time in one walk.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <numeric>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "conformance/bucketing/asked_reduction.hpp"
#include "conformance/bucketing/bucketing_checks.hpp"
#include "conformance/support/asking.hpp"
#include "conformance/support/sizes.hpp"

namespace plumbline::conformance {

using nlohmann::json;
using suite::Adapter;

namespace {

using Count = std::int64_t;

// Sizes from 1 to 53 elements, which repeat so late that buckets differ.
std::vector<Count> many_sizes(int gradients) {
  std::vector<Count> elements;
  for (int i = 0; i < gradients; ++i) elements.push_back(1 + (i * Count{37} + i / 53) % 53);
  return elements;
}

// ---- PyTorch's rule ----

// Two types, each of which walks the limits for itself; a bucket closes after the gradient that reaches its limit.
JudgeSize assigned_gradients(const std::string& convention) {
  return [convention](Adapter& adapter, int gradients) {
    const std::vector<Count> elements = many_sizes(gradients), limits{300, 1000};
    struct Open {
      std::vector<int> members;
      Count bytes = 0;
      std::size_t closed = 0;
    };
    std::map<std::string, Open> open;
    std::vector<std::pair<std::vector<int>, Count>> buckets;
    std::vector<std::string> dtypes;
    const auto close = [&](Open& one) {
      buckets.emplace_back(std::move(one.members), limits[std::min<std::size_t>(one.closed++, 1)]);
      one.members.clear();
      one.bytes = 0;
    };
    for (int i = 0; i < gradients; ++i) {
      const bool is_half = i % 3 == 1;
      dtypes.emplace_back(is_half ? "f16" : "f32");
      Open& one = open[dtypes.back()];
      one.members.push_back(i);
      one.bytes += elements[static_cast<std::size_t>(i)] * (is_half ? 2 : 4);
      if (one.bytes >= limits[std::min<std::size_t>(one.closed, 1)]) close(one);
    }
    for (auto& [dtype, one] : open)
      if (!one.members.empty()) close(one);
    std::ranges::sort(buckets);
    json expected{{"buckets", json::array()}, {"bucket_limits", json::array()}};
    for (const auto& [members, limit] : buckets) {
      expected["buckets"].push_back(members);
      expected["bucket_limits"].push_back(limit);
    }
    const json args{
        {"convention", convention}, {"numel", elements}, {"dtype", dtypes}, {"device", "cpu"}, {"limits", limits}};
    return problem_of(adapter, "bucketing.assign", args,
                      [&](const json& result) { return first_difference(expected, result); });
  };
}

// Gradients of one element, in buckets of seven, over two ranks.
std::string many_reduced(Adapter& adapter, int gradients) {
  json args{{"world_size", 2}, {"numel", std::vector<int>(static_cast<std::size_t>(gradients), 1)}};
  json expected = json::array();
  for (int i = 0; i < gradients; ++i) {
    if (i % 7 == 0) args["buckets"].push_back(json::array());
    args["buckets"].back().push_back(i);
    expected.push_back({0.5 * (2 * (i % 29) + 1)});
  }
  for (int rank = 0; rank < 2; ++rank) {
    json pass = json::array();
    for (int i = 0; i < gradients; ++i) pass.push_back({{"gradient", i}, {"values", {i % 29 + rank}}});
    args["steps"][0].push_back({{"passes", {std::move(pass)}}});
  }
  return problem_of_reduction(adapter, args, [&](const json& result) {
    return each_row(result, [&](const json& row, std::size_t, int) {
      return first_difference(expected, row.at("grads"), "gradients");
    });
  });
}

JudgeSize many_caps(const std::string& convention) {
  return [convention](Adapter& adapter, int count) {
    json caps = json::array(), bytes = json::array();
    for (int i = 0; i < count; ++i) {
      caps.push_back(0.5 + (i * 7) % 61);
      bytes.push_back((1 << 19) + (Count{(i * 7) % 61} << 20));
    }
    return problem_of(adapter, "bucketing.capacity_config", {{"convention", convention}, {"bucket_cap_mb_list", caps}},
                      [&](const json& result) {
                        json expected{{"per_bucket_bytes_caps", bytes},
                                      {"bucket_bytes_cap", *std::ranges::max_element(bytes)}};
                        for (int row = 0; row < 4; ++row) expected["limits"].push_back({{"rebuild", bytes}});
                        return first_difference(expected, result);
                      });
  };
}

// One bucket first; then, in the order of readiness, as many equal gradients as reach the cap.
JudgeSize launched_buckets(const std::string& convention) {
  return [convention](Adapter& adapter, int gradients) {
    constexpr int elements = 100, cap_bytes = 10'485, in_bucket = 27;  // 0.01 MiB, truncated; 26 are below it
    std::vector<int> ready(static_cast<std::size_t>(gradients));
    std::iota(ready.rbegin(), ready.rend(), 0);
    std::vector<int> registered(ready.rbegin(), ready.rend());
    static_assert((in_bucket - 1) * elements * 4 < cap_bytes && in_bucket * elements * 4 >= cap_bytes);
    json rebuilt = json::array();
    for (int begin = 0; begin < gradients; begin += in_bucket) {
      const int end = std::min(begin + in_bucket, gradients);
      rebuilt.push_back({{"index", rebuilt.size()},
                         {"numel", (end - begin) * elements},
                         {"is_last", end == gradients},
                         {"params", std::vector<int>(ready.begin() + begin, ready.begin() + end)}});
    }
    const json first{{{"index", 0}, {"numel", gradients * elements}, {"is_last", true}, {"params", registered}}};
    const json args{
        {"convention", convention}, {"numel", std::vector<int>(static_cast<std::size_t>(gradients), elements)},
        {"dtype", "f32"},           {"device", "cpu"},
        {"bucket_cap_mb", 0.01},    {"ready", ready},
        {"iterations", 3}};
    return problem_of(adapter, "bucketing.ddp_runs", args, [&](const json& result) {
      return first_difference({first, rebuilt, rebuilt}, result.at("launches"), "launches");
    });
  };
}

// ---- buffers ----

Count next_multiple(Count number, Count of) { return (number + of - 1) / of * of; }

// From the last parameter to the first, with a distributed optimizer.
json padded_buffer(const std::vector<Count>& elements, Count ranks, Count size) {
  constexpr Count start = 64;
  const Count end_of_bucket = std::lcm(ranks, Count{128});
  json places(elements.size(), nullptr), buckets = json::array(), unpadded = json::array();
  Count begin = 0, end = 0;
  for (std::size_t i = elements.size(); i-- > 0;) {
    const Count at = next_multiple(end, start);
    end = at + elements[i];
    places[i] = {at, end, buckets.size()};
    if (end - begin < size && i > 0) continue;
    unpadded.push_back(end - begin);
    end = next_multiple(end, end_of_bucket);
    buckets.push_back({begin, end});
    begin = end;
  }
  return {{"param_index", places}, {"bucket_indices", buckets}, {"per_bucket_numel_unpadded", unpadded}};
}

JudgeSize padded_layout(const std::string& convention) {
  return [convention](Adapter& adapter, int parameters) {
    constexpr Count size = 5000;
    const std::vector<Count> elements = many_sizes(parameters);
    const json args{{"convention", convention},
                    {"numel", elements},
                    {"bucket_size_elements", size},
                    {"data_parallel_world_size", 6}};
    return problem_of(adapter, "bucketing.layout", args,
                      [&](const json& result) { return first_difference(padded_buffer(elements, 6, size), result); });
  };
}

// Every third parameter belongs to an expert, with fewer replicas.
JudgeSize padded_buffers(const std::string& convention) {
  return [convention](Adapter& adapter, int parameters) {
    constexpr Count size = 5000;
    const std::vector<Count> elements = many_sizes(parameters);
    std::vector<Count> dense, of_experts;
    json experts = json::array();
    for (std::size_t i = 0; i < elements.size(); ++i) {
      if (i % 3 == 2) experts.push_back(i);
      (i % 3 == 2 ? of_experts : dense).push_back(elements[i]);
    }
    const json args{{"convention", convention},
                    {"numel", elements},
                    {"dtype", "bf16"},
                    {"expert", experts},
                    {"bucket_size_elements", size},
                    {"data_parallel_world_size", 6},
                    {"expert_data_parallel_world_size", 3}};
    return problem_of(adapter, "bucketing.buffers", args, [&](const json& result) {
      return first_difference({padded_buffer(dense, 6, size), padded_buffer(of_experts, 3, size)}, result.at("buffers"),
                              "buffers");
    });
  };
}

// Three groups of one type. In the order of readiness, the last gradient first, the one whose last member is ready
// first is launched first.
std::string flat_buffers(Adapter& adapter, int gradients) {
  const std::vector<Count> elements = many_sizes(gradients);
  std::vector<int> groups, order(elements.size());
  std::iota(order.rbegin(), order.rend(), 0);
  json expected{{"buckets", json(3, json::array())}, {"groups", {2, 1, 0}}, {"numel", {0, 0, 0}}};
  for (int i = 0; i < gradients; ++i) groups.push_back(i % 3);
  for (const int i : order) {
    const auto bucket = static_cast<std::size_t>(2 - i % 3);
    expected["buckets"][bucket].push_back(i);
    expected["numel"][bucket] = expected["numel"][bucket].get<Count>() + elements[static_cast<std::size_t>(i)];
  }
  const json args{{"numel", elements}, {"dtype", "f32"}, {"device", "cpu"}, {"group", groups}, {"order", order}};
  return problem_of(adapter, "bucketing.flatten", args,
                    [&](const json& result) { return first_difference(expected, result); });
}
std::string flat_buffers_of_colossalai(Adapter& adapter, int gradients) {
  const std::vector<Count> elements = many_sizes(gradients);
  std::vector<int> groups;
  json expected{{"buckets", json(3, json::array())}, {"groups", {0, 1, 2}}, {"numel", {0, 0, 0}}};
  for (int i = 0; i < gradients; ++i) {
    const auto bucket = static_cast<std::size_t>(i % 3);
    groups.push_back(i % 3);
    expected["buckets"][bucket].push_back(i);
    expected["numel"][bucket] = expected["numel"][bucket].get<Count>() + elements[static_cast<std::size_t>(i)];
  }
  const json args{
      {"convention", "colossalai"}, {"numel", elements}, {"dtype", "f32"}, {"device", "cpu"}, {"group", groups}};
  return problem_of(adapter, "bucketing.flatten", args,
                    [&](const json& result) { return first_difference(expected, result); });
}

// ---- plans of anybody ----

// Nine gradients a bucket, one directly after the other.
struct ManyBuckets {
  json gradients = json::array(), buckets = json::array();
  std::vector<Count> elements;
};
ManyBuckets packed_plan(int gradients) {
  ManyBuckets plan{.elements = many_sizes(gradients)};
  for (int i = 0; i < gradients; ++i) {
    const Count size = plan.elements[static_cast<std::size_t>(i)];
    plan.gradients.push_back({{"name", "p" + std::to_string(i)}, {"elements", size}, {"dtype", "f32"}});
    if (i % 9 == 0)
      plan.buckets.push_back({{"dtype", "f32"},
                              {"device", "cpu"},
                              {"group", 0},
                              {"sparse", false},
                              {"elements", 0},
                              {"limit_bytes", 0},
                              {"members", json::array()}});
    json& bucket = plan.buckets.back();
    bucket["members"].push_back({i, bucket["elements"]});
    bucket["elements"] = bucket["elements"].get<Count>() + size;
  }
  return plan;
}

// One gradient near the end begins an element early: it overlaps the gradient before it.
std::string overlap_is_named(Adapter& adapter, int gradients) {
  ManyBuckets plan = packed_plan(gradients);
  json& member = plan.buckets[plan.buckets.size() - 2]["members"][8];
  member[1] = member[1].get<Count>() - 1;
  const json gradient = member[0];
  return problem_of(adapter, "bucketing.check", {{"plan", {{"buckets", plan.buckets}}}, {"gradients", plan.gradients}},
                    [&](const json& result) -> std::string {
                      if (result.at("valid") != false)
                        return fmt::format("valid, with gradient {} over another", gradient.dump());
                      for (const json& problem : result.at("problems"))
                        if (problem.at("kind") == "overlap" && problem.at("gradient") == gradient) return {};
                      return fmt::format("no overlap of gradient {} among {}", gradient.dump(),
                                         result.at("problems").dump().substr(0, 200));
                    });
}

// Who accepts everything accepts no plan: a small one with a fault is not.
std::string accepted_plan(Adapter& adapter, int gradients) {
  const ManyBuckets plan = packed_plan(gradients);
  const std::string words = problem_of(
      adapter, "bucketing.check", {{"plan", {{"buckets", plan.buckets}}}, {"gradients", plan.gradients}},
      [](const json& result) { return first_difference({{"valid", true}, {"problems", json::array()}}, result); });
  constexpr int few = 20;
  return words.empty() ? overlap_is_named(adapter, few) : words;
}

std::string problem_of_read_plan(Adapter& adapter, const ManyBuckets& plan, const std::string& convention,
                                 json written) {
  const json args{{"convention", convention}, {"plan", std::move(written)}, {"gradients", plan.gradients}};
  return problem_of(adapter, "bucketing.read", args, [&](const json& result) -> std::string {
    const json& found = result.at("plan").at("buckets");
    if (found.size() != plan.buckets.size())
      return fmt::format("{} buckets instead of {}", found.size(), plan.buckets.size());
    for (std::size_t i = 0; i < found.size(); ++i)
      for (const char* field : {"elements", "members"})
        if (found[i].at(field) != plan.buckets[i].at(field))
          return fmt::format("bucket {} has {} {}, not {}", i, field, found[i].at(field).dump(),
                             plan.buckets[i].at(field).dump());
    return {};
  });
}
std::string read_plan(Adapter& adapter, int gradients) {
  ManyBuckets plan = packed_plan(gradients);
  for (std::size_t i = 0; i < plan.buckets.size(); ++i) {  // other values in each bucket
    plan.buckets[i]["device"] = "cuda:" + std::to_string(i % 7);
    plan.buckets[i]["group"] = i % 5;
    plan.buckets[i]["limit_bytes"] = i + 100;
  }
  const json written{{"schema", 1}, {"buckets", plan.buckets}};
  return problem_of(adapter, "bucketing.read", {{"plan", written}, {"gradients", plan.gradients}},
                    [&](const json& result) { return first_difference({{"plan", written}}, result); });
}
std::string read_logging(Adapter& adapter, int gradients) {
  const ManyBuckets plan = packed_plan(gradients);
  std::vector<std::string> indices, sizes;
  for (const json& bucket : plan.buckets) {
    std::vector<int> members;
    for (const json& member : bucket["members"]) members.push_back(member[0]);
    indices.push_back(fmt::format("{}", fmt::join(members, " ")));
    sizes.push_back(std::to_string(4 * bucket["elements"].get<Count>()));
  }
  const Count bytes = 4 * std::accumulate(plan.elements.begin(), plan.elements.end(), Count{0});
  return problem_of_read_plan(adapter, plan, "torch",
                              {{"bucket_sizes", std::to_string(bytes)},
                               {"rebuilt_bucket_sizes", fmt::format("{}", fmt::join(sizes, ", "))},
                               {"rebuilt_per_bucket_param_indices", fmt::format("{}", fmt::join(indices, ", "))},
                               {"has_rebuilt_buckets", 1},
                               {"num_parameter_tensors", gradients},
                               {"total_parameter_size_bytes", bytes}});
}
// The plan in a buffer that goes from the last gradient to the first.
std::string read_buffer(Adapter& adapter, int gradients) {
  ManyBuckets plan = packed_plan(gradients);
  json places(static_cast<std::size_t>(gradients), nullptr), ends = json::array();
  Count end = 0;
  std::ranges::reverse(plan.buckets);
  for (json& bucket : plan.buckets) {
    std::ranges::reverse(bucket["members"]);
    const Count begin = end;
    for (json& member : bucket["members"]) {
      const auto gradient = member[0].get<std::size_t>();
      places[gradient] = {end, end + plan.elements[gradient], ends.size()};
      member[1] = end - begin;
      end += plan.elements[gradient];
    }
    ends.push_back({begin, end});
  }
  return problem_of_read_plan(adapter, plan, "megatron", {{"param_index", places}, {"bucket_indices", ends}});
}
std::string read_groups(Adapter& adapter, int gradients) {
  const ManyBuckets plan = packed_plan(gradients);
  json groups = json::array();
  for (const json& bucket : plan.buckets) {
    json& group = groups.emplace_back(json{{"numel", bucket["elements"]}, {"dtype", "f32"}, {"ring_id", 0}});
    for (const json& member : bucket["members"])
      group["gradients"].push_back("p" + std::to_string(member[0].get<int>()));
  }
  return problem_of_read_plan(adapter, plan, "paddle", groups);
}

// ---- time ----

// Eight ranks, times and sizes that are exact in binary: c = 14 x 0.25 + 14/8 x bytes / 64.
std::string exposed_buckets(Adapter& adapter, int buckets) {
  json plan = json::array(), ready = json::array(), launches = json::array();
  double end = 0, all = 0;
  for (int i = 0; i < buckets; ++i) {
    const int elements = 1 + i * 5 % 32;
    const double there = 5.0 * i + (i % 7) / 4.0, takes = 3.5 + 1.75 * 4 * elements / 64, start = std::max(there, end);
    plan.push_back({{"dtype", "f32"}, {"elements", elements}, {"members", {{i, 0}}}});
    ready.push_back(there);
    end = start + takes;
    all += takes;
    launches.push_back({{"ready", there}, {"start", start}, {"end", end}});
  }
  const double backward = 5.0 * buckets, exposed = std::max(0.0, end - backward);
  const json args{{"plan", {{"buckets", plan}}},
                  {"ready", ready},
                  {"backward", backward},
                  {"world_size", 8},
                  {"latency", 0.25},
                  {"bandwidth", 64}};
  return problem_of(adapter, "bucketing.exposed", args, [&](const json& result) {
    return first_difference({{"launches", launches}, {"communication", all}, {"exposed", exposed}}, result);
  });
}

// Buckets are ready at equal intervals and take equal times: the last ends after all of one and one of the other.
std::string many_equal_buckets(Adapter& adapter, int most) {
  constexpr double backward = 16, bytes = 512, latency = 0.001, bandwidth = 4096;
  constexpr int ranks = 9;
  std::vector<int> counts;
  for (int count = 1; count < most; count = count * 3 / 2 + 1) counts.push_back(count);
  counts.push_back(most);
  const json args{{"backward", backward}, {"bytes", bytes},     {"buckets", counts},
                  {"world_size", ranks},  {"latency", latency}, {"bandwidth", bandwidth}};
  return problem_of(adapter, "bucketing.equal_buckets", args, [&](const json& result) -> std::string {
    for (std::size_t i = 0; i < counts.size(); ++i) {
      const double takes = 2 * (ranks - 1) * latency + 2.0 * (ranks - 1) / ranks * bytes / counts[i] / bandwidth;
      const double step = backward / counts[i],
                   expected = std::max(step + counts[i] * takes, backward + takes) - backward;
      const double got = result.at("exposed").at(i);
      if (!(std::abs(got - expected) <= 1e-9 * (1 + expected)))
        return fmt::format("{} buckets leave {} exposed, not {}", counts[i], got, expected);
    }
    return {};
  });
}

// ---- agreement ----

json ranks_with_plan(int ranks, const ManyBuckets& plan) {
  return json(static_cast<std::size_t>(ranks), {{"gradients", plan.gradients}, {"plan", {{"buckets", plan.buckets}}}});
}

// As many ranks as there may be with ten gradients each, and two ranks with many.
std::string agreeing_ranks(Adapter& adapter, int gradients) {
  const int ranks = std::min(gradients / 10 + 1, 64);
  for (const auto& [world, count] : {std::pair(ranks, 10), std::pair(2, gradients)}) {
    const ManyBuckets plan = packed_plan(count);
    json asked = ranks_with_plan(world, plan);
    const json none(static_cast<std::size_t>(world), nullptr);
    std::string words = problem_of(adapter, "bucketing.agree", {{"ranks", asked}}, [&](const json& result) {
      return first_difference({{"agrees", true}, {"differences", none}}, result);
    });
    if (!words.empty()) return words;
    const std::string odd = "p" + std::to_string(count - 2);
    asked.back()["gradients"][static_cast<std::size_t>(count) - 2]["dtype"] = "f16";
    words = problem_of(adapter, "bucketing.agree", {{"ranks", asked}}, [&](const json& result) -> std::string {
      if (result.at("agrees") != false) return "ranks agree of which one has another type";
      for (int rank = 0; rank < world; ++rank)
        if (result.at("differences").at(static_cast<std::size_t>(rank)).at("subject") != odd)
          return fmt::format("rank {} hears of {}, not of {}", rank,
                             result["differences"][static_cast<std::size_t>(rank)].dump(), odd);
      return {};
    });
    if (!words.empty()) return words;
  }
  return {};
}

}  // namespace

void add_bucket_size_checks(suite::Suite& suite) {
  const auto add = [&](SizedCheck one) { add_sized_check(suite, "bucketing", std::move(one)); };
  const std::vector<int> gradients{10, 300, 4567, 100'000}, told{20, 300, 4567, 20'000};
  add(asking({{"device", {"cpu"}}, {"dtype", {"f16", "f32"}}},
             {"bucketing.assign", "BUCKET-003@4e98", gradients, assigned_gradients("plumbline")}));
  add(asking({{"device", {"cpu"}}, {"dtype", {"f16", "f32"}}},
             {"bucketing.assign", "BUCKET-010@6fcf", gradients, assigned_gradients("torch"), "torch"}));
  add({"bucketing.capacity_config", "BUCKET-041@84e5", {3, 40, 1000, 10'000}, many_caps("plumbline")});
  add({"bucketing.capacity_config", "BUCKET-011@8188", {3, 40, 1000, 10'000}, many_caps("torch"), "torch"});
  add(asking({{"device", {"cpu"}}, {"dtype", {"f32"}}},
             {"bucketing.ddp_runs", "BUCKET-013@d637", gradients, launched_buckets("plumbline")}));
  add(asking({{"device", {"cpu"}}, {"dtype", {"f32"}}},
             {"bucketing.ddp_runs", "BUCKET-012@3287", {10, 300, 4567, 20'000}, launched_buckets("torch"), "torch"}));
  add({"bucketing.layout", "BUCKET-017@8964", gradients, padded_layout("plumbline")});
  add({"bucketing.layout", "BUCKET-021@2767", gradients, padded_layout("megatron"), "megatron"});
  add(asking({{"dtype", {"bf16"}}}, {"bucketing.buffers", "BUCKET-227@a24e", gradients, padded_buffers("plumbline")}));
  add(asking({{"dtype", {"bf16"}}},
             {"bucketing.buffers", "BUCKET-227@a24e", gradients, padded_buffers("megatron"), "megatron"}));
  add(asking({{"device", {"cpu"}}, {"dtype", {"f32"}}},
             {"bucketing.flatten", "BUCKET-024@6f6c", gradients, flat_buffers}));
  add(asking({{"device", {"cpu"}}, {"dtype", {"f32"}}},
             {"bucketing.flatten", "BUCKET-026@2e71", gradients, flat_buffers_of_colossalai, "colossalai"}));
  add({"bucketing.check", "BUCKET-028@d331", {20, 300, 4567, 100'000}, accepted_plan});
  add({"bucketing.check", "BUCKET-029@4ce7", told, overlap_is_named, "plumbline", "overlap"});
  add({"bucketing.read", "BUCKET-219@a1a3", told, read_plan});
  add({"bucketing.read", "BUCKET-031@b0fe", told, read_logging, "torch"});
  add({"bucketing.read", "BUCKET-032@166d", told, read_buffer, "megatron"});
  add({"bucketing.read", "BUCKET-033@0e95", told, read_groups, "paddle"});
  add({"bucketing.exposed", "BUCKET-034@2337", {10, 300, 4567, 20'000}, exposed_buckets});
  add({"bucketing.equal_buckets", "BUCKET-035@be77", {10, 300, 4567, 100'000}, many_equal_buckets});
  add({"bucketing.reduce", "BUCKET-050@e3c3", {10, 300, 5000}, many_reduced});
  add({"bucketing.agree", "BUCKET-039@6c92", {20, 300, 640, 4567}, agreeing_ranks});
}

}  // namespace plumbline::conformance
