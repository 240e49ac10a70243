// That ranks find out, before anything is reduced, that they planned differently: all of them, and alike.
#include <map>
#include <tuple>

#include <fmt/format.h>

#include "conformance/bucketing/bucketing_checks.hpp"
#include "conformance/support/asking.hpp"

namespace plumbline::conformance {

using nlohmann::json;
using suite::Context;
using suite::Door;

namespace {

const char* const kAgree = "bucketing.agree";

// Four parameters in two buckets.
json usual() {
  const auto parameter = [](const char* name, std::int64_t elements) {
    return json{{"name", name},    {"elements", elements}, {"dtype", "f32"},
                {"device", "cpu"}, {"group", 0},           {"sparse", false}};
  };
  const json first = json::array({json::array({3, 0}), json::array({2, 8})});
  const json second = json::array({json::array({1, 0}), json::array({0, 6})});
  return {
      {"gradients", json::array({parameter("embedding", 30), parameter("attention", 6), parameter("norm", 4),
                                 parameter("head", 8)})},
      {"shapes", json::array({json::array({6, 5}), json::array({6}), json::array({4}), json::array({8})})},
      {"plan",
       {{"buckets", json::array({{{"dtype", "f32"}, {"elements", 12}, {"limit_bytes", 40}, {"members", first}},
                                 {{"dtype", "f32"}, {"elements", 36}, {"limit_bytes", 100}, {"members", second}}})}}}};
}

// What one rank has otherwise, and what it is called; the parts of the two values that differ, where they are known.
struct Difference {
  json ours;
  std::string subject;
  std::string usual_part, odd_part;
};

void resize_norm(json& ours, std::int64_t elements) {
  ours["gradients"][2]["elements"] = elements;
  ours["shapes"][2] = {elements};
  ours["plan"]["buckets"][0]["elements"] = 8 + elements;
}

void leave_out_last(json& ours) {
  ours["gradients"].erase(3);
  ours["shapes"].erase(3);
  json& first = ours["plan"]["buckets"][0];
  first["members"] = json::array({json::array({2, 0})});
  first["elements"] = 4;
}

void insert_adapter(json& ours) {
  ours["gradients"].insert(ours["gradients"].begin() + 1, json{{"name", "adapter"}, {"elements", 77}});
  ours["shapes"].insert(ours["shapes"].begin() + 1, json::array({7, 11}));
  for (json& bucket : ours["plan"]["buckets"])
    for (json& member : bucket["members"])
      if (member[0] != 0) member[0] = member[0].get<int>() + 1;
  json& second = ours["plan"]["buckets"][1];
  second["members"].push_back({1, 36});
  second["elements"] = 113;
}

Difference difference_named(const std::string& name) {
  Difference one{usual(), "", "", ""};
  json &gradients = one.ours["gradients"], &buckets = one.ours["plan"]["buckets"];
  if (name == "size") resize_norm(one.ours, 5), one.subject = "norm", one.usual_part = "4", one.odd_part = "5";
  if (name == "shape")
    one.ours["shapes"][0] = {5, 6}, one.subject = "embedding", one.usual_part = "6, 5", one.odd_part = "5, 6";
  if (name == "type")
    gradients[1]["dtype"] = "f16", one.subject = "attention", one.usual_part = "f32", one.odd_part = "f16";
  if (name == "device")
    gradients[1]["device"] = "cuda:3", one.subject = "attention", one.usual_part = "cpu", one.odd_part = "cuda:3";
  if (name == "group") gradients[3]["group"] = 9, one.subject = "head", one.odd_part = "9";
  if (name == "sparse") gradients[3]["sparse"] = true, one.subject = "head", one.odd_part = "sparse";
  if (name == "missing") leave_out_last(one.ours), one.subject = "head";
  if (name == "extra") insert_adapter(one.ours), one.subject = "adapter", one.odd_part = "7, 11";
  if (name == "place")
    buckets[0]["members"] = json::array({json::array({2, 0}), json::array({3, 4})}), one.subject = "norm";
  if (name == "launch_order") std::swap(buckets[0], buckets[1]), one.subject = "embedding";
  if (name == "split") {
    buckets[0] = {
        {"dtype", "f32"}, {"elements", 8}, {"limit_bytes", 40}, {"members", json::array({json::array({3, 0})})}};
    const json norm = json::array({json::array({2, 0})});
    buckets.insert(buckets.begin() + 1,
                   json::object({{"dtype", "f32"}, {"elements", 4}, {"limit_bytes", 40}, {"members", norm}}));
    one.subject = "embedding";
  }
  if (name == "limit")
    buckets[1]["limit_bytes"] = 101, one.subject = "bucket 1", one.usual_part = "100", one.odd_part = "101";
  const std::map<std::string, std::tuple<const char*, json, const char*, const char*>> of_bucket{
      {"bucket_type", {"dtype", "bf16", "f32", "bf16"}},
      {"bucket_device", {"device", "cuda:2", "cpu", "cuda:2"}},
      {"bucket_group", {"group", 8, "", "8"}},
      {"bucket_sparse", {"sparse", true, "", "sparse"}},
      {"bucket_complex", {"dtype", "c64", "f32", "2"}}};
  if (const auto found = of_bucket.find(name); found != of_bucket.end()) {
    const auto& [field, value, usual_part, odd_part] = found->second;
    buckets[1][field] = value;
    one.subject = "bucket 1", one.usual_part = usual_part, one.odd_part = odd_part;
  }
  if (name == "padding")
    buckets[0]["elements"] = 16, one.subject = "bucket 0", one.usual_part = "12", one.odd_part = "16";
  return one;
}

json everybody(int ranks, const json& ours) { return {{"ranks", json(static_cast<std::size_t>(ranks), ours)}}; }

void all_agree(Context& context) {
  const auto ranks = static_cast<int>(context.parameters().number("ranks"));
  json ours = usual();
  if (context.parameters().text("parameters") == "none")
    ours = {{"gradients", json::array()}, {"plan", {{"buckets", json::array()}}}};
  if (context.parameters().text("parameters") == "empty") {
    // A shape with a 0 has no elements, whatever the product of its other sizes.
    constexpr std::int64_t large = std::int64_t{1} << 62;
    const json gradients{{{"name", "none"}, {"elements", 0}}, {{"name", "some"}, {"elements", 6}}};
    const json bucket{{"dtype", "f32"}, {"elements", 6}, {"members", {{0, 0}, {1, 0}}}};
    ours = {{"gradients", gradients},
            {"shapes", json::array({json::array({large, 0, 4}), json::array({2, 3})})},
            {"plan", {{"buckets", json::array({bucket})}}}};
  }
  report_words(problem_of(context.adapter(), kAgree, everybody(ranks, ours), [&](const json& result) {
    return first_difference({{"agrees", true}, {"differences", json(static_cast<std::size_t>(ranks), nullptr)}},
                            result);
  }));
}

// Every rank is told, all are told the same, and that names the parameter, and the odd one apart from the others, with
// what each has.
std::string problem_of_differences(const json& result, int ranks, int odd, const Difference& difference) {
  if (result.at("agrees") != false) return "ranks are said to agree";
  const json& told = result.at("differences");
  if (told.size() != static_cast<std::size_t>(ranks)) return fmt::format("{} ranks are told something", told.size());
  for (const json& one : told)
    if (one.is_null() || one != told.front())
      return fmt::format("ranks are told different things: {} and {}", told.front().dump(), one.dump());
  const json& one = told.front();
  if (one.at("subject") != difference.subject)
    return fmt::format("the difference is said to be {}, it is {}", one.at("subject").dump(), difference.subject);
  if (one.at("message").get<std::string>().find(difference.subject) == std::string::npos)
    return fmt::format("'{}' does not name {}", one.at("message").get<std::string>(), difference.subject);
  if (one.at("opinions").size() != 2) return fmt::format("there are two opinions, and {}", one.at("opinions").dump());
  for (const json& opinion : one.at("opinions")) {
    const bool is_odd = opinion.at("ranks") == json::array({odd});
    if (!is_odd && opinion.at("ranks").size() != static_cast<std::size_t>(ranks) - 1)
      return fmt::format("rank {} differs, told are {}", odd, one.at("opinions").dump());
    const std::string& part = is_odd ? difference.odd_part : difference.usual_part;
    if (opinion.at("value").get<std::string>().find(part) == std::string::npos)
      return fmt::format("'{}' does not say {}", opinion.at("value").get<std::string>(), part);
  }
  return one.at("opinions").at(0).at("value") == one.at("opinions").at(1).at("value") ? "both opinions are the same"
                                                                                      : "";
}

void differences_are_told(Context& context) {
  const Difference difference = difference_named(context.parameters().text("differs"));
  for (const int ranks : {2, 3, 5})
    for (const int odd : {0, ranks - 1, ranks / 2}) {
      json args = everybody(ranks, usual());
      args["ranks"][static_cast<std::size_t>(odd)] = difference.ours;
      // Of two ranks neither is the odd one: the lower one's opinion comes first.
      const std::string problem = problem_of(context.adapter(), kAgree, args, [&](const json& result) {
        return problem_of_differences(result, ranks, odd, difference);
      });
      if (!problem.empty()) return report_words(fmt::format("rank {} of {}: {}", odd, ranks, problem));
    }
}

// Ranks that say the same have one opinion, in the order of their first ones.
void opinions_of_each(Context& context) {
  json args = everybody(5, usual());
  const std::vector<int> limits{100, 101, 100, 102, 101};
  for (std::size_t rank = 0; rank < limits.size(); ++rank)
    args["ranks"][rank]["plan"]["buckets"][1]["limit_bytes"] = limits[rank];
  report_words(problem_of(context.adapter(), kAgree, args, [&](const json& result) -> std::string {
    for (const json& one : result.at("differences")) {
      json ranks = json::array();
      for (const json& opinion : one.at("opinions")) {
        ranks.push_back(opinion.at("ranks"));
        const std::string limit = std::to_string(limits[opinion.at("ranks").at(0).get<std::size_t>()]);
        if (opinion.at("value").get<std::string>().find(limit) == std::string::npos)
          return fmt::format("{} does not say {}", opinion.dump(), limit);
      }
      if (ranks != json{{0, 2}, {1, 4}, {3}}) return fmt::format("opinions are said to be those of {}", ranks.dump());
    }
    return result.at("differences").size() == 5 ? "" : "not every rank is told";
  }));
}

// The order in which gradients became ready differs on every rank: the fault that goes unseen until lengths do not fit.
void orders_of_readiness(Context& context) {
  const auto ranks = static_cast<int>(context.parameters().number("ranks"));
  json args = everybody(ranks, usual());
  for (int rank = 0; rank < ranks; ++rank) {
    json& members = args["ranks"][static_cast<std::size_t>(rank)]["plan"]["buckets"][1]["members"];
    if (rank % 2 == 1) members = json::array({json::array({0, 0}), json::array({1, 30})});
  }
  report_words(problem_of(context.adapter(), kAgree, args, [&](const json& result) -> std::string {
    if (result.at("agrees") != (ranks == 1))
      return fmt::format("{} ranks of two orders agree: {}", ranks, result.at("agrees").dump());
    if (result.at("differences").empty()) return "no step is answered";
    json even = json::array(), uneven = json::array();
    for (int rank = 0; rank < ranks; ++rank) (rank % 2 == 0 ? even : uneven).push_back(rank);
    for (const json& one : result.at("differences")) {
      if (ranks == 1) return one.is_null() ? "" : "a rank disagrees with itself";
      if (one.is_null() || one.at("opinions").size() != 2 || one.at("opinions").at(0).at("ranks") != even ||
          one.at("opinions").at(1).at("ranks") != uneven)
        return fmt::format("ranks {} and {} differ, told is {}", even.dump(), uneven.dump(), one.dump());
    }
    return {};
  }));
}

}  // namespace

void add_plan_agreement_checks(suite::Suite& suite) {
  const auto add = [&](const char* name, const char* requirement, std::vector<suite::Axis> axes,
                       void (*body)(Context&)) {
    suite.add({.id = std::string("bucketing.agreement.") + name,
               .verifies = {requirement},
               .door = Door::adapter,
               .axes = std::move(axes),
               .operations = {kAgree},
               .body = body});
  };
  add("all_agree", "BUCKET-038@e459", {{"ranks", {"1", "2", "5", "64"}}, {"parameters", {"usual", "none", "empty"}}},
      all_agree);
  add("differences_are_told", "BUCKET-039@6c92",
      {{"differs",
        {"size", "shape", "type", "device", "group", "sparse", "missing", "extra", "place", "launch_order", "split",
         "limit", "padding", "bucket_type", "bucket_device", "bucket_group", "bucket_sparse", "bucket_complex"}}},
      differences_are_told);
  add("opinions_of_each", "BUCKET-039@6c92", {}, opinions_of_each);
  add("orders_of_readiness", "BUCKET-040@355d", {{"ranks", {"1", "2", "4", "7"}}}, orders_of_readiness);
}

}  // namespace plumbline::conformance
