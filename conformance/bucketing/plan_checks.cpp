// Who looks at a plan sees what is wrong with it, reads what others wrote, and predicts what a backward cannot hide.
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "conformance/bucketing/bucketing_checks.hpp"
#include "conformance/support/asking.hpp"
#include "conformance/support/property.hpp"
#include "conformance/support/recorded.hpp"
#include "conformance/support/words.hpp"
#include "reference/bucketing/check_plan.hpp"
#include "reference/bucketing/plan_json.hpp"
#include "reference/comm/errors.hpp"

namespace plumbline::conformance {

using nlohmann::json;
using suite::Context;
using suite::Door;

namespace {

const char* const kCheck = "bucketing.check";
const char* const kRead = "bucketing.read";
const char* const kExposed = "bucketing.exposed";
const char* const kEqual = "bucketing.equal_buckets";
const char* const kRanksAgree = "bucketing.agree";

// ---- plans that are right, and what is done to them ----

// The arguments of bucketing.check.
struct Planned {
  json gradients = json::array(), buckets = json::array(), rules = json::object();
  json of_plan = json::object();  // what the plan says beside its buckets
  [[nodiscard]] json args() const {
    json args = rules;
    args["gradients"] = gradients;
    args["plan"] = of_plan;
    args["plan"]["buckets"] = buckets;
    return args;
  }
  [[nodiscard]] std::int64_t elements(const json& member) const {
    return gradients.at(member.at(0).get<std::size_t>()).at("elements");
  }
};

// f32 gradients, packed until a bucket has 40 elements, and one of f64 with two of them. Every bucket has two members
// at least.
Planned packed(Random& random) {
  Planned one;
  const int count = random.between(3, 5);
  for (int bucket = 0; bucket < count; ++bucket) {
    const bool is_double = bucket == count - 1;
    json members = json::array();
    std::int64_t end = 0;
    for (int left = random.between(2, 4); left > 0 || (!is_double && end < 40); --left) {
      const bool closes = left <= 1 && !is_double;
      const std::int64_t size = closes ? 40 : random.between(1, is_double ? 5 : 8);
      members.push_back({one.gradients.size(), end});
      one.gradients.push_back({{"name", fmt::format("p{}", one.gradients.size())},
                               {"elements", size},
                               {"dtype", is_double ? "f64" : "f32"}});
      end += size;
    }
    one.buckets.push_back({{"dtype", is_double ? "f64" : "f32"}, {"elements", end}, {"members", members}});
  }
  return one;
}

// Members at multiples of 8, buckets of multiples of 32.
Planned aligned(Random& random) {
  Planned one = packed(random);
  for (json& bucket : one.buckets) {
    std::int64_t end = 0;
    for (json& member : bucket["members"]) {
      member[1] = (end + 7) / 8 * 8;
      end = member[1].get<std::int64_t>() + one.elements(member);
    }
    bucket["elements"] = (end + 31) / 32 * 32;
  }
  one.rules = {{"member_alignment", 8}, {"bucket_alignment", 32}};
  return one;
}

Planned with_limits(Random& random) {
  Planned one = packed(random);
  one.rules["limits"] = {160};
  return one;
}

Planned with_order(Random& random) {
  Planned one = packed(random);
  for (std::size_t i = 0; i < one.gradients.size(); ++i)
    one.rules["order"].push_back(i), one.rules["ready"].push_back(i);
  return one;
}

// Packed from the last gradient to the first and launched the other way round, as DDP does.
Planned in_reverse(Random& random) {
  Planned one = with_limits(random);
  std::ranges::reverse(one.buckets);
  one.rules["planned_in_reverse"] = true;
  return one;
}

// Closed before what would exceed 160 bytes.
Planned below_caps(Random& random) {
  Planned one;
  json members = json::array();
  std::int64_t end = 0;
  for (int left = random.between(8, 14); left > 0; --left) {
    const std::int64_t size = random.between(5, 30);
    if (end + size > 40) {
      one.buckets.push_back({{"dtype", "f32"}, {"elements", end}, {"members", members}});
      members = json::array(), end = 0;
    }
    members.push_back({one.gradients.size(), end});
    one.gradients.push_back({{"elements", size}});
    end += size;
  }
  one.buckets.push_back({{"dtype", "f32"}, {"elements", end}, {"members", members}});
  one.rules = {{"limits", {160}}, {"closing", "before_exceeding"}};
  return one;
}

Planned with_sparse(Random& random) {
  Planned one = with_limits(random);
  const json alone = json::array({json::array({one.gradients.size(), 0})});
  one.buckets.insert(one.buckets.begin() + 1,
                     json::object({{"dtype", "f32"}, {"elements", 7}, {"sparse", true}, {"members", alone}}));
  one.gradients.push_back({{"elements", 7}, {"sparse", true}});
  return one;
}

Planned with_frozen(Random& random) {
  Planned one = packed(random);
  one.rules["frozen"] = {one.gradients.size()};
  one.gradients.push_back({{"elements", 7}, {"dtype", "f16"}});
  return one;
}

// With an empty gradient at each end of every bucket, where the next one begins.
Planned with_empty_gradients(Random& random) {
  Planned one = packed(random);
  for (json& bucket : one.buckets) {
    const json dtype = bucket.at("dtype"), end = bucket.at("elements");
    for (const json& at : {json(0), end}) {
      bucket["members"].push_back({one.gradients.size(), at});
      one.gradients.push_back({{"name", fmt::format("p{}", one.gradients.size())}, {"elements", 0}, {"dtype", dtype}});
    }
  }
  return one;
}

// Each bucket's limit is the size that it has, and that of the last but one stays.
Planned with_limits_reached(Random& random) {
  Planned one = packed(random);
  for (const json& bucket : one.buckets)
    if (bucket.at("dtype") == "f32") one.rules["limits"].push_back(4 * bucket.at("elements").get<std::int64_t>());
  return one;
}

// As much between members, and at the end, as the alignment explains. What is not known of a plan's alignment is what
// the plan itself says.
Planned aligned_by_plan(Random& random) {
  Planned one = aligned(random);
  one.of_plan = std::exchange(one.rules, json::object());
  return one;
}

// A limit counts what lies between members.
Planned aligned_with_limits(Random& random) {
  Planned one = aligned(random);
  for (const json& bucket : one.buckets) {
    if (bucket.at("dtype") != "f32") continue;
    const json& last = bucket.at("members").back();
    one.rules["limits"].push_back(4 * (last.at(1).get<std::int64_t>() + one.elements(last)));
  }
  return one;
}

// An embedding that is to be alone closes the bucket before it, which so is not full.
Planned with_alone(Random& random) {
  Planned one = with_limits(random);
  for (const int elements : {3, 2}) {
    const json members = json::array({json::array({one.gradients.size(), 0})});
    one.buckets.insert(one.buckets.begin(),
                       json::object({{"dtype", "f32"}, {"elements", elements}, {"members", members}}));
    if (elements == 3) one.rules["alone"] = {one.gradients.size()};
    one.gradients.push_back({{"elements", elements}});
  }
  return one;
}

// All that may be said of a gradient, of complex numbers on a device.
Planned of_other_kinds(Random& random) {
  Planned one = packed(random);
  for (const char* dtype : {"f16", "bf16", "f64", "i32", "i64", "u8", "c32", "c64", "c128"}) {
    const json members = json::array({json::array({one.gradients.size(), 0})});
    one.buckets.push_back(
        {{"dtype", dtype}, {"elements", 3}, {"device", "cuda:1"}, {"group", 4}, {"members", members}});
    one.gradients.push_back({{"elements", 3}, {"dtype", dtype}, {"device", "cuda:1"}, {"group", 4}});
  }
  return one;
}

const std::map<std::string, Planned (*)(Random&)>& right_plans() {
  static const std::map<std::string, Planned (*)(Random&)> plans{{"packed", packed},
                                                                 {"aligned", aligned},
                                                                 {"limits", with_limits},
                                                                 {"order", with_order},
                                                                 {"reversed", in_reverse},
                                                                 {"below_caps", below_caps},
                                                                 {"sparse", with_sparse},
                                                                 {"frozen", with_frozen},
                                                                 {"empty_gradients", with_empty_gradients},
                                                                 {"limits_reached", with_limits_reached},
                                                                 {"aligned_by_plan", aligned_by_plan},
                                                                 {"aligned_with_limits", aligned_with_limits},
                                                                 {"alone", with_alone},
                                                                 {"other_kinds", of_other_kinds}};
  return plans;
}

constexpr int kPlanTrials = 25;

void right_plans_pass(Context& context) {
  Random random(context.seed());
  for (int trial = 0; trial < kPlanTrials; ++trial) {
    const json args = right_plans().at(context.parameters().text("plan"))(random).args();
    const std::string problem = problem_of(context.adapter(), kCheck, args, [](const json& result) {
      return first_difference({{"valid", true}, {"problems", json::array()}}, result);
    });
    if (!problem.empty()) return report_words(args.dump() + ": " + problem);
  }
}

// What is done to a plan, and what has to be said of it; whom it concerns.
struct Fault {
  Planned (*plan)(Random&);
  std::string kind;
  std::function<json(Planned&, Random&)> make;  // {"gradient": 3} or {"bucket": 1}
};

json& some_bucket(Planned& one, Random& random) {
  return one.buckets[static_cast<std::size_t>(random.between(0, static_cast<int>(one.buckets.size()) - 1))];
}
json about(const Planned& one, const json& bucket) { return {{"bucket", &bucket - &one.buckets.front()}}; }
// A member that is not the first, so that there is something before it.
json& some_later_member(json& bucket, Random& random) {
  json& members = bucket["members"];
  return members[static_cast<std::size_t>(random.between(1, static_cast<int>(members.size()) - 1))];
}

json change_gradient(Planned& one, Random& random, const char* field, const json& value) {
  const json& member = some_later_member(one.buckets[0], random);
  one.gradients[member.at(0).get<std::size_t>()][field] = value;
  return {{"gradient", member.at(0)}};
}

json say_twice(Planned& one, Random& random) {
  const json member = some_bucket(one, random)["members"].back();
  json& other = one.buckets[0];
  const std::int64_t end = other["elements"];
  other["members"].push_back({member.at(0), end});
  other["elements"] = end + one.elements(member);
  return {{"gradient", member.at(0)}};
}

json leave_out(Planned& one, Random& random) {
  json& bucket = some_bucket(one, random);
  json& members = bucket["members"];
  const json member = members.back();
  members.erase(members.size() - 1);
  bucket["elements"] = member.at(1);
  return {{"gradient", member.at(0)}};
}

json shift(Planned& one, Random& random, std::int64_t by) {
  json& member = some_later_member(some_bucket(one, random), random);
  member[1] = member[1].get<std::int64_t>() + by;
  return {{"gradient", member.at(0)}};
}

json overlap(Planned& one, Random& random, std::int64_t by) {
  json& bucket = some_bucket(one, random);
  json& member = some_later_member(bucket, random);
  member[1] = member[1].get<std::int64_t>() - by;
  return about(one, bucket);
}

json resize(Planned& one, Random& random, std::int64_t by) {
  json& bucket = some_bucket(one, random);
  bucket["elements"] = bucket["elements"].get<std::int64_t>() + by;
  return by < 0 ? json{{"gradient", bucket["members"].back().at(0)}} : about(one, bucket);
}

// The first member of the second bucket goes to the end of the first.
json move_to_first(Planned& one) {
  json &first = one.buckets[0], &second = one.buckets[1];
  const json member = second["members"].front();
  second["members"].erase(0);
  for (json& other : second["members"]) other[1] = other[1].get<std::int64_t>() - one.elements(member);
  second["elements"] = second["elements"].get<std::int64_t>() - one.elements(member);
  first["members"].push_back({member.at(0), first["elements"]});
  first["elements"] = first["elements"].get<std::int64_t>() + one.elements(member);
  return {{"bucket", 0}};
}

// The first bucket ends with its first member, and another one has the others.
json split_first(Planned& one) {
  json first = one.buckets[0], rest = first;
  const std::int64_t size = one.elements(first["members"].front());
  first["members"] = json::array({first["members"].front()});
  first["elements"] = size;
  rest["members"].erase(0);
  for (json& other : rest["members"]) other[1] = other[1].get<std::int64_t>() - size;
  rest["elements"] = rest["elements"].get<std::int64_t>() - size;
  one.buckets[0] = first;
  one.buckets.insert(one.buckets.begin() + 1, rest);
  return {{"bucket", 0}};
}

json swap_members(Planned& one) {
  json& members = one.buckets[0]["members"];
  std::swap(members[0][0], members[1][0]);
  members[0][1] = 0;
  members[1][1] = one.elements(members[0]);
  return {{"bucket", 0}};
}

json exceed_cap(Planned& one) {
  one.gradients[0]["elements"] = 39;
  one.gradients[1]["elements"] = 5;
  std::int64_t end = 0;
  for (json& member : one.buckets[0]["members"]) member[1] = end, end += one.elements(member);
  one.buckets[0]["elements"] = end;
  return {{"bucket", 0}};
}

const std::map<std::string, Fault>& faults() {
  static const std::map<std::string, Fault> list{
      {"twice", {packed, "doubled", say_twice}},
      {"left_out", {packed, "missing", leave_out}},
      {"no_bucket_at_all",
       {packed, "missing",
        [](Planned& one, Random&) {
          one.buckets = json::array();
          return json{{"gradient", 0}};
        }}},
      {"overlapping", {packed, "overlap", [](Planned& one, Random& random) { return overlap(one, random, 1); }}},
      {"overlapping_alignment",
       {aligned, "overlap", [](Planned& one, Random& random) { return overlap(one, random, 8); }}},
      {"overlapping_by_all",
       {packed, "overlap",
        [](Planned& one, Random&) {
          one.buckets[0]["members"][1][1] = 0;
          return json{{"bucket", 0}};
        }}},
      {"beginning_at_the_end",
       {packed, "outside",
        [](Planned& one, Random& random) {
          json& bucket = some_bucket(one, random);
          bucket["members"].back()[1] = bucket["elements"];
          return json{{"gradient", bucket["members"].back().at(0)}};
        }}},
      {"before_the_bucket",
       {packed, "outside",
        [](Planned& one, Random&) {
          one.buckets[0]["members"][0][1] = -1;
          return json{{"gradient", 0}};
        }}},
      {"behind_the_bucket", {packed, "outside", [](Planned& one, Random& random) { return resize(one, random, -1); }}},
      {"another_type",
       {packed, "mixed", [](Planned& one, Random& random) { return change_gradient(one, random, "dtype", "i32"); }}},
      {"another_device",
       {packed, "mixed",
        [](Planned& one, Random& random) { return change_gradient(one, random, "device", "cuda:1"); }}},
      {"another_group",
       {packed, "mixed", [](Planned& one, Random& random) { return change_gradient(one, random, "group", 2); }}},
      {"sparse_among_dense",
       {packed, "alone", [](Planned& one, Random& random) { return change_gradient(one, random, "sparse", true); }}},
      {"dense_as_sparse",
       {with_sparse, "alone",
        [](Planned& one, Random&) {
          one.gradients.back()["sparse"] = false;
          return json{{"bucket", 1}};
        }}},
      {"embedding_among_others",
       {packed, "alone",
        [](Planned& one, Random&) {
          one.rules["alone"] = {1};
          return json{{"gradient", 1}};
        }}},
      {"gap_at_the_end", {packed, "gap", [](Planned& one, Random& random) { return resize(one, random, 1); }}},
      {"gap_between",
       {packed, "gap",
        [](Planned& one, Random& random) {
          json& bucket = some_bucket(one, random);
          bucket["elements"] = bucket["elements"].get<std::int64_t>() + 1;
          bucket["members"].back()[1] = bucket["members"].back()[1].get<std::int64_t>() + 1;
          return json{{"gradient", bucket["members"].back().at(0)}};
        }}},
      {"padding_too_long", {aligned, "gap", [](Planned& one, Random& random) { return resize(one, random, 32); }}},
      {"member_not_aligned",
       {aligned, "alignment", [](Planned& one, Random& random) { return shift(one, random, 1); }}},
      {"bucket_not_aligned",
       {aligned, "alignment", [](Planned& one, Random& random) { return resize(one, random, 8); }}},
      {"closed_too_late", {with_limits, "cap", [](Planned& one, Random&) { return move_to_first(one); }}},
      {"closed_too_early", {with_limits, "cap", [](Planned& one, Random&) { return split_first(one); }}},
      {"limit_of_the_other_end",
       {in_reverse, "cap",
        [](Planned& one, Random&) {
          one.rules["limits"] = {4, 160};
          return json{{"bucket", one.buckets.size() - 1}};
        }}},
      {"above_the_cap",
       {below_caps, "cap",
        [](Planned& one, Random&) {
          if (one.buckets[0]["members"].size() < 2) move_to_first(one);
          return exceed_cap(one);
        }}},
      {"below_the_cap",
       {below_caps, "cap",
        [](Planned& one, Random&) {
          one.rules["limits"] = {std::int64_t{1} << 40};
          return json{{"bucket", 0}};
        }}},
      {"embedding_first_of_others",
       {packed, "alone",
        [](Planned& one, Random&) {
          one.rules["alone"] = {0};
          return json{{"gradient", 0}};
        }}},
      {"sparse_as_dense",
       {with_sparse, "alone",
        [](Planned& one, Random&) {
          one.buckets[1]["sparse"] = false;
          return json{{"bucket", 1}};
        }}},
      {"numbers_of_elements",
       {packed, "mixed", [](Planned& one, Random& random) { return change_gradient(one, random, "dtype", "c64"); }}},
      {"too_many_by_one",
       {packed, "overflow",
        [](Planned& one, Random&) {
          one.buckets[0]["elements"] = std::numeric_limits<std::int64_t>::max() / 4 + 1;
          return json{{"bucket", 0}};
        }}},
      {"limit_of_the_second",
       {with_limits, "cap",
        [](Planned& one, Random&) {
          one.rules["limits"] = {160, 4};
          return json{{"bucket", 1}};
        }}},
      {"one_byte_below_the_size",
       {aligned, "cap",
        [](Planned& one, Random&) {
          const json last = one.buckets[0]["members"].back();
          one.rules["limits"] = {4 * (last.at(1).get<std::int64_t>() + one.elements(last)) + 1};
          return json{{"bucket", 0}};
        }}},
      {"twice_in_a_bucket",
       {packed, "doubled",
        [](Planned& one, Random&) {
          json& bucket = one.buckets[0];
          bucket["members"].push_back({0, bucket["elements"]});
          bucket["elements"] = bucket["elements"].get<std::int64_t>() + one.elements(bucket["members"].back());
          return json{{"gradient", 0}};
        }}},
      {"members_swapped", {with_order, "order", [](Planned& one, Random&) { return swap_members(one); }}},
      {"buckets_swapped",
       {with_order, "order",
        [](Planned& one, Random&) {
          std::swap(one.buckets[0], one.buckets[1]);
          return json{{"bucket", 1}};
        }}},
      {"no_such_gradient",
       {packed, "range",
        [](Planned& one, Random&) {
          one.buckets[1]["members"][0][0] = one.gradients.size();
          return json{{"bucket", 1}};
        }}},
      {"gradient_below_0",
       {packed, "range",
        [](Planned& one, Random&) {
          one.buckets[1]["members"][0][0] = -1;
          return json{{"bucket", 1}};
        }}},
      {"bucket_below_0",
       {packed, "range",
        [](Planned& one, Random&) {
          one.buckets[1]["elements"] = -1;
          return json{{"bucket", 1}};
        }}},
      {"too_many_bytes",
       {packed, "overflow",
        [](Planned& one, Random&) {
          one.buckets[0]["elements"] = std::int64_t{1} << 61;
          return json{{"bucket", 0}};
        }}},
      {"frozen_included",
       {packed, "frozen",
        [](Planned& one, Random&) {
          one.rules["frozen"] = {1};
          return json{{"gradient", 1}};
        }}},
  };
  return list;
}

// Whether a problem of that kind, and about that, is among them; "" or what there is instead.
std::string names(const json& result, const std::string& kind, const json& whom, bool is_error) {
  if (result.at("valid") != !is_error) return fmt::format("valid is {}", result.at("valid").dump());
  for (const json& problem : result.at("problems")) {
    if (problem.at("kind") != kind || problem.at("severity") != (is_error ? "error" : "warning")) continue;
    // Of a bucket as a whole no gradient is named, and of a gradient wherever it is no bucket.
    static const std::map<std::string, const char*> unnamed{
        {"cap", "gradient"},   {"overflow", "gradient"}, {"empty", "gradient"}, {"waits", "gradient"},
        {"doubled", "bucket"}, {"missing", "bucket"},    {"frozen", "bucket"}};
    if (const auto field = unnamed.find(kind); field != unnamed.end() && !problem.at(field->second).is_null()) continue;
    if (std::ranges::all_of(whom.items(), [&](const auto& field) { return problem.at(field.key()) == field.value(); }))
      return {};
  }
  return fmt::format("no {} about {} among {}", kind, whom.dump(), result.at("problems").dump());
}

void faults_are_found(Context& context) {
  const Fault& fault = faults().at(context.parameters().text("fault"));
  Random random(context.seed());
  for (int trial = 0; trial < kPlanTrials; ++trial) {
    Planned one = fault.plan(random);
    const json whom = fault.make(one, random);
    const std::string problem = problem_of(context.adapter(), kCheck, one.args(),
                                           [&](const json& result) { return names(result, fault.kind, whom, true); });
    if (!problem.empty()) return report_words(one.args().dump() + ": " + problem);
  }
}

// What costs time alone does not make a plan wrong.
void warnings_are_no_errors(Context& context) {
  Random random(context.seed());
  Planned one = packed(random);
  json whom;
  if (context.parameters().text("warning") == "empty") {
    one.buckets.push_back({{"dtype", "f32"}, {"elements", 0}, {"members", json::array()}});
    whom = {{"bucket", one.buckets.size() - 1}};
  } else {
    for (std::size_t i = one.gradients.size(); i-- > 0;) one.rules["ready"].push_back(i);
    whom = {{"bucket", 1}};
  }
  report_words(problem_of(context.adapter(), kCheck, one.args(), [&](const json& result) {
    return names(result, context.parameters().text("warning"), whom, false);
  }));
}

// ---- what others wrote ----

json elements_of(const json& numel, const json& dtypes) {
  json gradients = json::array();
  for (std::size_t i = 0; i < numel.size(); ++i)
    gradients.push_back({{"elements", numel[i]}, {"dtype", dtypes.is_array() ? dtypes[i] : dtypes}});
  return gradients;
}

json indices_of(const json& plan) {
  json buckets = json::array();
  for (const json& bucket : plan.at("buckets")) {
    json& mine = buckets.emplace_back(json::array());
    for (const json& member : bucket.at("members")) mine.push_back(member.at(0));
  }
  return buckets;
}

// Whether the plan that a subject has read is one of the gradients, by our own rules.
std::string problem_of_read(const json& plan, const json& gradients, const json& rules) {
  bucketing::PlanRules held;
  held.member_alignment = rules.value("member_alignment", held.member_alignment);
  held.bucket_alignment = rules.value("bucket_alignment", held.bucket_alignment);
  try {
    const auto found =
        bucketing::check_plan(bucketing::plan_of_json(plan), bucketing::gradients_of_json(gradients).gradients, held);
    for (const bucketing::PlanProblem& problem : found)
      if (problem.severity == bucketing::Severity::error) return "the plan that is read is wrong: " + problem.message;
  } catch (const Error& error) {
    return fmt::format("what is read is no plan: {}", error.what());
  }
  return {};
}

void reads_torch(Context& context) {
  const bool rebuilt = context.parameters().text("buckets") == "rebuilt";
  const json record = recorded("bucketing", "torch_ddp");
  for (const json& one : record.at("cases")) {
    const json& logging = one.at(rebuilt ? "logging_after_3_iterations" : "logging_at_construction");
    if (rebuilt && !logging.contains("rebuilt_per_bucket_param_indices")) continue;
    json gradients = elements_of(one["parameters"]["numel"], one["parameters"]["dtype"]);
    if (one.contains("expect_sparse_gradient")) gradients[0]["sparse"] = true;
    json launched = json::array();
    for (const json& launch : one.at("launches").at(rebuilt ? 2 : 0)) launched.push_back(launch.at("params"));
    // Its text has the buckets as they were planned, the hook each bucket's members as they are laid out.
    for (json& bucket : launched) std::sort(bucket.begin(), bucket.end());
    report_words(problem_of(context.adapter(), kRead,
                            {{"convention", "torch"}, {"plan", logging}, {"gradients", gradients}},
                            [&](const json& result) {
                              json got = indices_of(result.at("plan"));
                              for (json& bucket : got) std::sort(bucket.begin(), bucket.end());
                              if (got != launched)
                                return fmt::format("read {}, launched were {}", got.dump(), launched.dump());
                              return problem_of_read(result.at("plan"), gradients, json::object());
                            }));
  }
}

// Sizes alone, launched from the last bucket to the first: what each bucket of some gradients must have.
struct Sized {
  json gradients;
  std::string sizes;
  json buckets;
};
std::vector<Sized> sized(const std::string& kind) {
  const auto of = [](std::int64_t elements, const char* dtype = "f32", bool sparse = false, int group = 0) {
    return json{{"elements", elements}, {"dtype", dtype}, {"sparse", sparse}, {"group", group}};
  };
  using List = json::array_t;
  if (kind == "types")
    return {{List{of(4), of(3, "f16"), of(5), of(1, "f16"), of(2, "f64")}, "16, 8, 36", {{4}, {1, 3}, {0, 2}}},
            {List{of(4), of(3, "c64"), of(5)}, "24,36", {{1}, {0, 2}}},
            {List{of(4), of(3, "f32", false, 1), of(5)}, " 20 , 12, 16", {{2}, {1}, {0}}}};
  if (kind == "empty")
    return {{List{of(4), of(0)}, "16", {{0, 1}}},
            {List{of(4), of(0), of(0)}, "16", {{0, 1, 2}}},
            {List{of(4), of(0)}, "0, 16", {{1}, {0}}},
            {List{of(0), of(4)}, "16", {{0, 1}}},
            {List{of(4), of(0, "f16"), of(6), of(0)}, "0, 40", {{1}, {0, 2, 3}}},
            {List{}, "", json::array()}};
  return {{List{of(4), of(7, "f32", true), of(6)}, "28, 40", {{1}, {0, 2}}},
          {List{of(7, "f32", true), of(7, "f32", true), of(6)}, "24, 28, 28", {{2}, {1}, {0}}},
          {List{of(7, "f32", true), of(7)}, "28, 28", {{1}, {0}}}};
}
void reads_sizes(Context& context) {
  for (const Sized& one : sized(context.parameters().text("gradients"))) {
    const json args{{"convention", "torch"}, {"plan", {{"bucket_sizes", one.sizes}}}, {"gradients", one.gradients}};
    report_words(problem_of(context.adapter(), kRead, args, [&](const json& result) {
      const std::string problem = first_difference({one.buckets}, {indices_of(result.at("plan"))}, one.sizes);
      return problem.empty() ? problem_of_read(result.at("plan"), one.gradients, json::object()) : problem;
    }));
  }
}

// A plan in our form, with all fields or with those alone that it must have.
void reads_own(Context& context) {
  const bool all = context.parameters().text("fields") == "all";
  json plan{{"buckets", json::array()}};
  if (all) plan["schema"] = 1;
  json expected = plan;
  expected["schema"] = 1;
  for (const char* dtype : {"f16", "bf16", "f32", "f64", "i32", "i64", "u8", "c32", "c64", "c128"}) {
    const auto i = static_cast<int>(plan["buckets"].size());
    json bucket{{"dtype", dtype}, {"elements", i + 9}, {"members", {{2 * i, 0}, {2 * i + 1, i + 1}}}};
    const json others = all ? json{{"device", "cuda:" + std::to_string(i)},
                                   {"group", i + 3},
                                   {"limit_bytes", i + 100},
                                   {"sparse", i % 2 == 0}}
                            : json{{"device", "cpu"}, {"group", 0}, {"limit_bytes", 0}, {"sparse", false}};
    json whole = bucket;
    whole.update(others);
    plan["buckets"].push_back(all ? whole : bucket);
    expected["buckets"].push_back(whole);
  }
  report_words(problem_of(context.adapter(), kRead, {{"plan", plan}, {"gradients", json::array()}},
                          [&](const json& result) { return first_difference({{"plan", expected}}, result); }));
}

void reads_megatron(Context& context) {
  const bool padded = context.parameters().text("buckets") == "padded";
  const json record = recorded("bucketing", "megatron");
  for (const json& one : record.at("cases")) {
    if (one.contains("data_parallel_world_size") != padded) continue;
    const json gradients = elements_of(one.at("numel"), "f32");
    json expected = json::array();  // by bucket, what lies where in it
    for (const json& bucket : one.at("bucket_indices"))
      expected.push_back({{"elements", bucket.at(1).get<std::int64_t>() - bucket.at(0).get<std::int64_t>()},
                          {"members", json::array()}});
    for (std::size_t i = one.at("numel").size(); i-- > 0;) {
      const json& place = one.at("param_index").at(i);
      const auto bucket = place.at(2).get<std::size_t>();
      expected[bucket]["members"].push_back(
          {i, place.at(0).get<std::int64_t>() - one.at("bucket_indices").at(bucket).at(0).get<std::int64_t>()});
    }
    const json rules = padded ? json{{"member_alignment", 64}, {"bucket_alignment", 128}} : json::object();
    json rest = rules;
    if (one.value("pad_buckets_for_high_nccl_busbw", false)) rest["bucket_alignment"] = 65536;
    if (padded && one.at("data_parallel_world_size").get<int>() % 3 == 0)
      rest["bucket_alignment"] = rest["bucket_alignment"].get<int>() * 3;
    report_words(problem_of(context.adapter(), kRead,
                            {{"convention", "megatron"}, {"plan", one}, {"gradients", gradients}},
                            [&](const json& result) {
                              const std::string problem = first_difference(expected, result.at("plan").at("buckets"));
                              return problem.empty() ? problem_of_read(result.at("plan"), gradients, rest) : problem;
                            }));
  }
}

void reads_paddle(Context& context) {
  const json record = recorded("bucketing", "paddle");
  for (const json& one : record.at("cases")) {
    json expected = json::array();
    for (const json& group : one.at("groups")) {
      json& bucket = expected.emplace_back(json::object());
      bucket["elements"] = group.at("numel");
      bucket["group"] = group.at("ring_id");
      std::int64_t end = 0;
      for (const json& name : group.at("gradients"))
        for (std::size_t i = 0; i < one.at("gradients").size(); ++i)
          if (one.at("gradients").at(i).at("name") == name) {
            bucket["members"].push_back({i, end});
            end += one.at("gradients").at(i).at("elements").get<std::int64_t>();
          }
    }
    report_words(
        problem_of(context.adapter(), kRead,
                   {{"convention", "paddle"}, {"plan", one.at("groups")}, {"gradients", one.at("gradients")}},
                   [&](const json& result) { return first_difference(expected, result.at("plan").at("buckets")); }));
  }
}

// ---- time ----

struct Times {
  json buckets = json::array(), ready = json::array();
  int ranks = 2;
  double latency = 0, bandwidth = 0, backward = 0;
};

// Numbers that are exact in binary, so that sums are, too.
Times draw_times(const std::string& kind, Random& random) {
  Times times;
  times.ranks = kind == "one_rank" ? 1 : random.one_of(std::vector<int>{2, 4, 8});
  times.latency = kind == "free" ? 0 : random.between(0, 8) / 4.0;
  times.bandwidth = kind == "free" ? 0 : 64;
  double last = 0;
  for (int bucket = 0, gradient = 0; bucket < random.between(2, 6); ++bucket) {
    json members = json::array();
    std::int64_t end = 0;
    for (int left = random.between(1, 3); left > 0; --left, ++gradient) {
      const int size = random.between(1, 40);
      members.push_back({gradient, end});
      end += size;
      times.ready.push_back(kind == "late_first" && gradient == 0 ? 50.0 : random.between(0, 160) / 4.0);
      last = std::max(last, times.ready.back().get<double>());
    }
    times.buckets.push_back({{"dtype", "f32"}, {"elements", end}, {"members", members}});
  }
  times.backward = last + random.between(0, 8);
  return times;
}

double seconds(double bytes, const Times& times) {
  const double others = times.ranks - 1;
  return 2 * others * times.latency + (times.bandwidth > 0 ? 2 * others / times.ranks * bytes / times.bandwidth : 0);
}

bool is_close(double a, double b) { return std::abs(a - b) <= 1e-9 * std::max({1.0, std::abs(a), std::abs(b)}); }

std::string problem_of_launches(const Times& times, const json& result) {
  double end = 0, all = 0;
  for (std::size_t i = 0; i < times.buckets.size(); ++i) {
    double ready = 0;
    for (const json& member : times.buckets[i].at("members"))
      ready = std::max(ready, times.ready.at(member.at(0).get<std::size_t>()).get<double>());
    const double takes = seconds(4 * times.buckets[i].at("elements").get<double>(), times),
                 start = std::max(ready, end);
    const json& launch = result.at("launches").at(i);
    if (!is_close(launch.at("ready"), ready) || !is_close(launch.at("start"), start) ||
        !is_close(launch.at("end"), start + takes))
      return fmt::format("bucket {} is {}, it is ready at {}, starts at {} and takes {}", i, launch.dump(), ready,
                         start, takes);
    end = start + takes;
    all += takes;
  }
  const double exposed = std::max(0.0, end - times.backward), ratio = all > 0 ? 1 - exposed / all : 1;
  if (!is_close(result.at("exposed"), exposed) || !is_close(result.at("communication"), all) ||
      !is_close(result.at("overlap_ratio"), ratio))
    return fmt::format("exposed {}, communication {}, overlap {}; they are {}, {} and {}", result.at("exposed").dump(),
                       result.at("communication").dump(), result.at("overlap_ratio").dump(), exposed, all, ratio);
  return {};
}

void exposed_by_recurrence(Context& context) {
  Random random(context.seed());
  for (int trial = 0; trial < 60; ++trial) {
    const Times times = draw_times(context.parameters().text("times"), random);
    const json args{{"plan", {{"buckets", times.buckets}}},
                    {"ready", times.ready},
                    {"backward", times.backward},
                    {"world_size", times.ranks},
                    {"latency", times.latency},
                    {"bandwidth", times.bandwidth}};
    const std::string problem = problem_of(context.adapter(), kExposed, args,
                                           [&](const json& result) { return problem_of_launches(times, result); });
    if (!problem.empty()) return report_words(args.dump() + ": " + problem);
  }
}

// Bucket by bucket: K equal ones, each ready T/K after the last.
double exposed_of(double backward, double bytes, int buckets, const Times& times) {
  double end = 0;
  for (int i = 1; i <= buckets; ++i) end = std::max(end, backward * i / buckets) + seconds(bytes / buckets, times);
  return std::max(0.0, end - backward);
}

void equal_buckets(Context& context) {
  const bool bound = context.parameters().text("bound") == "communication";
  for (const int ranks : {2, 3, 8}) {
    const Times times{.ranks = ranks, .latency = 0.01, .bandwidth = bound ? 4.0 : 4096.0};
    const double backward = 16, bytes = 512, others = ranks - 1;
    const std::vector<int> counts{1, 2, 5, 20, 28, 60};
    const json args{{"backward", backward}, {"bytes", bytes},  {"buckets", counts},
                    {"world_size", ranks},  {"latency", 0.01}, {"bandwidth", times.bandwidth}};
    report_words(problem_of(context.adapter(), kEqual, args, [&](const json& result) -> std::string {
      for (std::size_t i = 0; i < counts.size(); ++i)
        if (const double expected = exposed_of(backward, bytes, counts[i], times);
            !is_close(result.at("exposed").at(i), expected))
          return fmt::format("{} buckets over {} ranks leave {} exposed, it is {}", counts[i], ranks,
                             result.at("exposed").at(i).dump(), expected);
      const double best = result.at("best_count");
      // Where communication is the longer, no number has less exposed than the two about the best one.
      const auto least = [&](double count) {
        return exposed_of(backward, bytes, std::max(1, static_cast<int>(count)), times);
      };
      for (int other = 1; bound && other < 200; ++other)
        if (least(other) < std::min(least(std::floor(best)), least(std::ceil(best))) - 1e-9)
          return fmt::format("{} is said to be the best number over {} ranks, {} leave less exposed", best, ranks,
                             other);
      return is_close(best, std::sqrt(backward / (2 * others * 0.01)))
                 ? ""
                 : fmt::format("{} is said to be the best number over {} ranks", best, ranks);
    }));
  }
}

// Without a latency, or over one rank, more buckets are never worse.
void free_buckets(Context& context) {
  const bool alone = context.parameters().text("of") == "one_rank";
  const json args{{"backward", 16},
                  {"bytes", 64},
                  {"buckets", {1, 3}},
                  {"latency", alone ? 0.5 : 0.0},
                  {"world_size", alone ? 1 : 2},
                  {"bandwidth", 4}};
  report_words(problem_of(context.adapter(), kEqual, args, [&](const json& result) {
    const json exposed = alone ? json{0.0, 0.0} : json{16.0, 16.0 / 3};
    for (std::size_t i = 0; i < 2; ++i)
      if (!is_close(result.at("exposed").at(i), exposed.at(i)))
        return fmt::format("exposed is {}, not {}", result.at("exposed").dump(), exposed.dump());
    return result.at("best_count") == "inf" ? std::string() : "the best number is " + result.at("best_count").dump();
  }));
}

// ---- refusals ----

const std::vector<BadQuestion>& bad_plans() {
  static const json gradients = json::array({{{"elements", 4}}});
  static const json plan{
      {"buckets", json::array({{{"dtype", "f32"}, {"elements", 4}, {"members", json::array({json::array({0, 0})})}}})}};
  const auto check = [](json change) {
    json args{{"gradients", gradients}, {"plan", plan}};
    args.update(change);
    return args;
  };
  const auto exposed = [](json change) {
    json args{{"plan", plan}, {"ready", {1}}, {"backward", 1}, {"world_size", 2}};
    args.update(change);
    return args;
  };
  const auto with = [](json value, const char* path, json part) {
    value[json::json_pointer(path)] = std::move(part);
    return value;
  };
  const auto without = [](json value, const char* object, const char* field) {
    value[json::json_pointer(object)].erase(field);
    return value;
  };
  const auto equal = [](json change) {
    json args{{"backward", 1}, {"bytes", 1}, {"buckets", {1}}, {"world_size", 2}};
    args.update(change);
    return args;
  };
  const auto of_plan = [&](const char* path, json part) {
    return check({{"plan", with(plan, path, std::move(part))}});
  };
  const json two = json::array({{{"elements", 4}, {"name", "a"}}, {{"elements", 6}, {"name", "b"}}});
  const auto read = [&](const char* convention, json written) {
    return json{{"convention", convention}, {"gradients", two}, {"plan", std::move(written)}};
  };
  // Right ones, each of which is spoilt in one place.
  const json first{{"bucket_sizes", "40"}, {"num_parameter_tensors", 2}},
      rebuilt{{"rebuilt_per_bucket_param_indices", "1, 0"}, {"rebuilt_bucket_sizes", "24, 16"}},
      layout{{"param_index", {{6, 10, 0}, {0, 6, 0}}}, {"bucket_indices", {{0, 10}}}},
      group = json::array({{{"gradients", {"a", "b"}}, {"numel", 10}}});
  constexpr std::int64_t large = std::int64_t{1} << 62;
  const auto ranks = [&](std::size_t count, const json& shapes) {
    return json{{"ranks", json(count, json{{"gradients", gradients}, {"plan", plan}, {"shapes", shapes}})}};
  };
  static const std::vector<BadQuestion> list{
      {"no_buckets", kCheck, check({{"plan", json::object()}})},
      {"plan_that_is_a_list", kCheck, check({{"plan", json::array()}})},
      {"buckets_that_are_an_object", kCheck, of_plan("/buckets", json::object())},
      {"other_schema", kCheck, of_plan("/schema", 2)},
      {"unknown_field_of_a_plan", kCheck, of_plan("/bucket", 1)},
      {"unknown_field_of_a_bucket", kCheck, of_plan("/buckets/0/limit", 1)},
      {"bucket_without_type", kCheck, check({{"plan", without(plan, "/buckets/0", "dtype")}})},
      {"bucket_without_size", kCheck, check({{"plan", without(plan, "/buckets/0", "elements")}})},
      {"bucket_without_members", kCheck, check({{"plan", without(plan, "/buckets/0", "members")}})},
      {"unknown_type_of_a_bucket", kCheck, of_plan("/buckets/0/dtype", "f33")},
      {"unknown_device_of_a_bucket", kCheck, of_plan("/buckets/0/device", "drum")},
      {"member_of_one_number", kCheck, of_plan("/buckets/0/members/0", json::array({0}))},
      {"member_of_three_numbers", kCheck, of_plan("/buckets/0/members/0", {0, 0, 4})},
      {"no_alignment_in_a_plan", kCheck, of_plan("/member_alignment", 0)},
      {"no_alignment_of_buckets_in_a_plan", kCheck, of_plan("/bucket_alignment", 0)},
      {"unknown_type", kCheck, check({{"gradients", json::array({{{"elements", 4}, {"dtype", "float"}}})}})},
      {"unknown_device", kCheck, check({{"gradients", json::array({{{"elements", 4}, {"device", "drum"}}})}})},
      {"negative_elements", kCheck, check({{"gradients", json::array({{{"elements", -4}}})}})},
      {"no_elements", kCheck, check({{"gradients", json::array({json::object()})}})},
      {"negative_group", kCheck, check({{"gradients", json::array({{{"elements", 4}, {"group", -1}}})}})},
      {"unknown_field_of_a_gradient", kCheck, check({{"gradients", json::array({{{"elements", 4}, {"size", 4}}})}})},
      {"names_that_are_equal", kCheck, check({{"gradients", with(two, "/1/name", "a")}})},
      {"bytes_that_are_too_many", kCheck, check({{"gradients", with(two, "/1/elements", large)}})},
      {"sum_of_bytes_that_are_too_many", kCheck,
       check({{"gradients", with(with(two, "/0/elements", large / 4), "/1/elements", large / 4)}})},
      {"negative_limit", kCheck, check({{"limits", {-1}}})},
      {"negative_limit_later", kCheck, check({{"limits", {7, -1}}})},
      {"no_alignment", kCheck, check({{"member_alignment", 0}})},
      {"no_alignment_of_buckets", kCheck, check({{"bucket_alignment", 0}})},
      {"negative_alignment", kCheck, check({{"bucket_alignment", -8}})},
      {"order_too_short", kCheck, check({{"order", json::array()}})},
      {"order_too_long", kCheck, check({{"order", {0, 1}}})},
      {"order_with_a_stranger", kCheck, check({{"order", {1}}})},
      {"order_below_0", kCheck, check({{"order", {-1}}})},
      {"order_with_a_repetition", kCheck, check({{"gradients", two}, {"order", {1, 1}}})},
      {"readiness_too_short", kCheck, check({{"ready", json::array()}})},
      {"readiness_with_a_stranger", kCheck, check({{"ready", {1}}})},
      {"frozen_stranger", kCheck, check({{"frozen", {1}}})},
      {"frozen_below_0", kCheck, check({{"frozen", {-1}}})},
      {"alone_stranger", kCheck, check({{"alone", {1}}})},
      {"alone_below_0", kCheck, check({{"alone", {-1}}})},
      {"sizes_of_another_model", kRead, read("torch", with(first, "/bucket_sizes", "17"))},
      {"sizes_that_are_too_small", kRead, read("torch", with(first, "/bucket_sizes", "36"))},
      {"sizes_that_are_too_large", kRead, read("torch", with(first, "/bucket_sizes", "44"))},
      {"too_few_sizes", kRead, read("torch", with(first, "/bucket_sizes", "16"))},
      {"too_many_sizes", kRead, read("torch", with(first, "/bucket_sizes", "0, 40"))},
      {"two_sizes_of_a_bucket", kRead, read("torch", with(first, "/bucket_sizes", "40 40"))},
      {"sizes_that_are_words", kRead, read("torch", with(first, "/bucket_sizes", "40, many"))},
      {"neither_sizes_nor_indices", kRead, read("torch", {{"num_parameter_tensors", 2}})},
      {"number_of_another_model", kRead, read("torch", with(first, "/num_parameter_tensors", 3))},
      {"indices_with_a_stranger", kRead, read("torch", with(rebuilt, "/rebuilt_per_bucket_param_indices", "1, 2"))},
      {"indices_below_0", kRead, read("torch", with(rebuilt, "/rebuilt_per_bucket_param_indices", "1, -1"))},
      {"rebuilt_sizes_of_another_model", kRead, read("torch", with(rebuilt, "/rebuilt_bucket_sizes", "24, 20"))},
      {"too_few_rebuilt_sizes", kRead, read("torch", with(rebuilt, "/rebuilt_bucket_sizes", "24"))},
      {"layout_of_another_model", kRead, read("megatron", with(layout, "/param_index/0", {5, 10, 0}))},
      {"layout_that_ends_elsewhere", kRead, read("megatron", with(layout, "/param_index/0", {6, 9, 0}))},
      {"layout_below_0", kRead, read("megatron", with(layout, "/param_index/1", {-6, 0, 0}))},
      {"layout_of_fewer", kRead, read("megatron", with(layout, "/param_index", json::array({{0, 4, 0}})))},
      {"layout_of_more", kRead, read("megatron", with(layout, "/param_index", {{6, 10, 0}, {0, 6, 0}, {10, 11, 0}}))},
      {"place_without_bucket", kRead, read("megatron", with(layout, "/param_index/0", {6, 10}))},
      {"bucket_that_there_is_not", kRead, read("megatron", with(layout, "/param_index/0", {6, 10, 1}))},
      {"bucket_number_below_0", kRead, read("megatron", with(layout, "/param_index/0", {6, 10, -1}))},
      {"bucket_of_three_ends", kRead, read("megatron", with(layout, "/bucket_indices/0", {0, 5, 10}))},
      {"bucket_that_ends_before", kRead, read("megatron", with(layout, "/bucket_indices/0", {10, 0}))},
      {"bucket_that_begins_below_0", kRead, read("megatron", with(layout, "/bucket_indices/0", {-1, 10}))},
      {"layout_without_buckets", kRead, read("megatron", without(layout, "", "bucket_indices"))},
      {"layout_without_places", kRead, read("megatron", without(layout, "", "param_index"))},
      {"group_of_another_model", kRead, read("paddle", with(group, "/0/gradients/1", "stranger"))},
      {"group_of_numbers", kRead, read("paddle", with(group, "/0/gradients/1", 1))},
      {"group_of_another_size", kRead, read("paddle", with(group, "/0/numel", 11))},
      {"group_without_gradients", kRead, read("paddle", without(group, "/0", "gradients"))},
      {"groups_that_are_an_object", kRead, read("paddle", json::object())},
      {"no_rank", kRanksAgree, ranks(0, json::array())},
      {"too_many_ranks", kRanksAgree, ranks(65, json::array({{4}}))},
      {"shape_of_fewer", kRanksAgree, ranks(2, json::array({{3}}))},
      {"shape_of_more", kRanksAgree, ranks(2, json::array({{2, 3}}))},
      {"shape_below_0", kRanksAgree, ranks(2, json::array({{-2, -2}}))},
      {"shape_of_none", kRanksAgree, ranks(2, json::array({{4, 0}}))},
      {"shape_of_too_many", kRanksAgree, ranks(2, json::array({{large, 4, 1}}))},
      {"too_many_shapes", kRanksAgree, ranks(2, json::array({{4}, {4}}))},
      {"gradient_without_time", kExposed, exposed({{"ready", json::array()}})},
      {"gradient_below_0", kExposed, exposed({{"plan", with(plan, "/buckets/0/members/0/0", -1)}})},
      {"bytes_that_64_bits_do_not_hold", kExposed, exposed({{"plan", with(plan, "/buckets/0/elements", large)}})},
      {"bytes_below_0", kExposed, exposed({{"plan", with(plan, "/buckets/0/elements", -4)}})},
      {"time_below_0", kExposed, exposed({{"ready", {-1}}})},
      {"time_infinite", kExposed, exposed({{"ready", {"inf"}}})},
      {"time_not_a_number", kExposed, exposed({{"backward", "nan"}})},
      {"backward_below_0", kExposed, exposed({{"backward", -1}})},
      {"latency_below_0", kExposed, exposed({{"latency", -0.5}})},
      {"latency_not_a_number", kExposed, exposed({{"latency", "nan"}})},
      {"bandwidth_below_0", kExposed, exposed({{"bandwidth", -1}})},
      {"bandwidth_not_a_number", kExposed, exposed({{"bandwidth", "nan"}})},
      {"no_ranks", kExposed, exposed({{"world_size", 0}})},
      {"no_equal_buckets", kEqual, equal({{"buckets", {0}}})},
      {"buckets_below_0", kEqual, equal({{"buckets", {1, -1}}})},
      {"equal_bytes_below_0", kEqual, equal({{"bytes", -1}})},
      {"equal_bytes_not_a_number", kEqual, equal({{"bytes", "nan"}})},
      {"equal_backward_below_0", kEqual, equal({{"backward", -1}})},
      {"equal_backward_of_no_bucket", kEqual, equal({{"backward", -1}, {"buckets", json::array()}})},
      {"equal_ranks_of_no_bucket", kEqual, equal({{"world_size", 0}, {"buckets", json::array()}})},
  };
  return list;
}

// Those that are read by a convention.
suite::Axis bad_plans_of(const std::string& convention) {
  suite::Axis axis{"fault", {}};
  for (const BadQuestion& bad : bad_plans())
    if (bad.op == kRead && bad.args.at("convention") == convention) axis.values.push_back(bad.fault);
  return axis;
}

// The field that is wrong with a plan, of which the error has the name: the field itself, or the one that it is in.
const std::string& field_of(const std::string& fault) {
  static const std::map<std::string, std::vector<std::string>> faults_by_field{
      {"buckets", {"no_buckets", "buckets_that_are_an_object"}},
      {"plan", {"plan_that_is_a_list"}},
      {"schema", {"other_schema"}},
      {"bucket", {"unknown_field_of_a_plan"}},
      {"limit", {"unknown_field_of_a_bucket"}},
      {"dtype", {"bucket_without_type", "unknown_type_of_a_bucket", "unknown_type"}},
      {"elements",
       {"bucket_without_size", "negative_elements", "no_elements", "bytes_that_are_too_many",
        "sum_of_bytes_that_are_too_many"}},
      {"members", {"bucket_without_members", "member_of_one_number", "member_of_three_numbers"}},
      {"device", {"unknown_device_of_a_bucket", "unknown_device"}},
      {"member_alignment", {"no_alignment_in_a_plan", "no_alignment"}},
      {"bucket_alignment", {"no_alignment_of_buckets_in_a_plan", "no_alignment_of_buckets", "negative_alignment"}},
      {"group", {"negative_group"}},
      {"size", {"unknown_field_of_a_gradient"}},
      {"name", {"names_that_are_equal"}},
      {"limits", {"negative_limit", "negative_limit_later"}},
      {"order",
       {"order_too_short", "order_too_long", "order_with_a_stranger", "order_below_0", "order_with_a_repetition"}},
      {"ready", {"readiness_too_short", "readiness_with_a_stranger"}},
      {"frozen", {"frozen_stranger", "frozen_below_0"}},
      {"alone", {"alone_stranger", "alone_below_0"}},
      {"bucket_sizes",
       {"sizes_of_another_model", "sizes_that_are_too_small", "sizes_that_are_too_large", "too_few_sizes",
        "too_many_sizes", "two_sizes_of_a_bucket", "sizes_that_are_words", "neither_sizes_nor_indices"}},
      {"num_parameter_tensors", {"number_of_another_model"}},
      {"rebuilt_per_bucket_param_indices", {"indices_with_a_stranger", "indices_below_0"}},
      {"rebuilt_bucket_sizes", {"rebuilt_sizes_of_another_model", "too_few_rebuilt_sizes"}},
      {"param_index",
       {"layout_of_another_model", "layout_that_ends_elsewhere", "layout_below_0", "layout_of_fewer", "layout_of_more",
        "place_without_bucket", "bucket_that_there_is_not", "bucket_number_below_0", "layout_without_places"}},
      {"bucket_indices",
       {"bucket_of_three_ends", "bucket_that_ends_before", "bucket_that_begins_below_0", "layout_without_buckets"}},
      {"gradients", {"group_of_another_model", "group_of_numbers", "group_without_gradients"}},
      {"numel", {"group_of_another_size"}},
      {"groups", {"groups_that_are_an_object"}},
      {"ranks", {"no_rank", "too_many_ranks"}},
      {"shapes",
       {"shape_of_fewer", "shape_of_more", "shape_below_0", "shape_of_none", "shape_of_too_many", "too_many_shapes"}}};
  static const std::map<std::string, std::string> fields = [] {
    std::map<std::string, std::string> all;
    for (const auto& [field, faults] : faults_by_field)
      for (const std::string& each : faults) all[each] = field;
    return all;
  }();
  return fields.at(fault);
}

void names_the_field(Context& context) {
  report_words(problem_of_bad_question(context, bad_plans()));
  const std::string& fault = context.parameters().text("fault");
  const auto bad = std::ranges::find(bad_plans(), fault, &BadQuestion::fault);
  const Answer answer = answer_to(context.adapter(), bad->op, bad->args);
  if (answer.is_refused() && !has_word(answer.message, field_of(fault)))
    report_words(fmt::format("the error does not name {}: {}", field_of(fault), answer.message));
}

void refuses_bad_plans(Context& context) { report_words(problem_of_bad_question(context, bad_plans())); }

template <class Map>
suite::Axis keys_of(const char* name, const Map& map) {
  suite::Axis axis{name, {}};
  for (const auto& [key, value] : map) axis.values.push_back(key);
  return axis;
}

}  // namespace

void add_bucket_plan_checks(suite::Suite& suite) {
  const auto add = [&](const char* name, const char* requirement, std::vector<std::string> operations, suite::Axis axis,
                       void (*body)(Context&), const char* convention = "plumbline", OperationsOfCase asks = {}) {
    suite.add({.id = std::string("bucketing.plan.") + name,
               .verifies = {requirement},
               .door = Door::adapter,
               .axes = {std::move(axis)},
               .operations = std::move(operations),
               .asks = std::move(asks),
               .convention = convention,
               .body = body});
  };
  add("right_plans_pass", "BUCKET-028@d331", {kCheck}, keys_of("plan", right_plans()), right_plans_pass);
  add("faults_are_found", "BUCKET-029@4ce7", {kCheck}, keys_of("fault", faults()), faults_are_found);
  add("warnings_are_no_errors", "BUCKET-030@b1bd", {kCheck}, {"warning", {"empty", "waits"}}, warnings_are_no_errors);
  add("reads_torch", "BUCKET-031@b0fe", {kRead}, {"buckets", {"first", "rebuilt"}}, reads_torch, "torch");
  add("reads_megatron", "BUCKET-032@166d", {kRead}, {"buckets", {"plain", "padded"}}, reads_megatron, "megatron");
  add("reads_paddle", "BUCKET-033@0e95", {kRead}, {"buckets", {"recorded"}}, reads_paddle, "paddle");
  add("exposed_by_recurrence", "BUCKET-034@2337", {kExposed}, {"times", {"any", "late_first", "free", "one_rank"}},
      exposed_by_recurrence);
  add("equal_buckets", "BUCKET-035@be77", {kEqual}, {"bound", {"communication", "backward"}}, equal_buckets);
  add("free_buckets", "BUCKET-035@be77", {kEqual}, {"of", {"one_rank", "no_latency"}}, free_buckets);
  add("reads_sizes", "BUCKET-031@b0fe", {kRead}, {"gradients", {"types", "empty", "sparse"}}, reads_sizes, "torch");
  add("reads_own", "BUCKET-219@a1a3", {kRead}, {"fields", {"all", "least"}}, reads_own);
  add("bad_plans", "BUCKET-036@ec8f", {kCheck}, faults_of(bad_plans(), {kCheck}), names_the_field);
  add("bad_ranks", "BUCKET-036@ec8f", {kRanksAgree}, faults_of(bad_plans(), {kRanksAgree}), names_the_field);
  for (const char* convention : {"torch", "megatron", "paddle"})
    add(fmt::format("bad_{}_plans", convention).c_str(), "BUCKET-036@ec8f", {kRead}, bad_plans_of(convention),
        names_the_field, convention);
  add("bad_times", "BUCKET-037@190f", {kExposed, kEqual}, faults_of(bad_plans(), {kExposed, kEqual}), refuses_bad_plans,
      "plumbline", operation_of_fault(bad_plans()));
}

}  // namespace plumbline::conformance
