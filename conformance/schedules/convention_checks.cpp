// Partitions of other systems, for all small questions and many drawn ones: each answer is what the system's own
// function gives, written down here as its source has it.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>
#include <regex>

#include <fmt/format.h>

#include "conformance/schedules/schedules_checks.hpp"
#include "conformance/support/asking.hpp"
#include "conformance/support/property.hpp"

namespace plumbline::conformance {

using nlohmann::json;
using suite::Context;
using suite::Door;

namespace {

using Numbers = std::vector<int>;

// Asks with the convention; nothing expected: a refusal.
std::string problem_of_question(Context& context, const char* convention, const std::string& op, json args,
                                const std::optional<json>& expected) {
  args["convention"] = convention;
  if (expected) {
    const std::string problem = problem_of(context.adapter(), op, args,
                                           [&](const json& result) { return first_difference(*expected, result); });
    return problem.empty() ? "" : args.dump() + ": " + problem;
  }
  return problem_of_refusal_beside_answers(context.adapter(), op, args);
}

// Division as Python does it: the remainder has the divisor's sign.
int floor_of(int dividend, int divisor) {
  return static_cast<int>(std::floor(static_cast<double>(dividend) / divisor));
}

// ---- ColossalAI ----

json colossalai_answer(const std::vector<std::vector<Numbers>>& ranks, bool warned) {
  return {{"parts", ranks}, {"warned", warned}};
}

// Chunk by chunk, the remainder in the last parts; nothing where Python divides by 0 or an assertion fails.
std::optional<json> colossalai_uniform(int items, int ranks, int chunks) {
  if (chunks == 0 || items - floor_of(items, chunks) * chunks != 0 || (ranks == 0 && chunks > 0)) return {};
  std::vector<std::vector<Numbers>> parts(static_cast<std::size_t>(std::max(ranks, 0)));
  bool warned = false;
  const int of_chunk = floor_of(items, chunks);
  for (int chunk = 0; chunk < chunks; ++chunk) {
    const int size = floor_of(of_chunk, ranks), larger_from = ranks - (of_chunk - size * ranks);
    warned = warned || size == 0;
    int begin = chunk * of_chunk;
    for (int rank = 0; rank < ranks; ++rank) {
      const int end = begin + size + (rank >= larger_from ? 1 : 0);
      parts[static_cast<std::size_t>(rank)].push_back({begin, end});
      begin = end;
    }
  }
  return colossalai_answer(parts, warned);
}

void colossalai_uniform_rule(Context& context) {
  for (int items = -4; items <= 9; ++items)
    for (int ranks = -2; ranks <= 4; ++ranks)
      for (int chunks = -2; chunks <= 3; ++chunks) {
        const std::string problem = problem_of_question(context, "colossalai", "schedules.partition_uniform",
                                                        {{"num_items", items}, {"pp", ranks}, {"chunks", chunks}},
                                                        colossalai_uniform(items, ranks, chunks));
        if (!problem.empty()) return report_words(problem);
      }
}

class ColossalaiBalance {
 public:
  explicit ColossalaiBalance(const Numbers& weights) : weights_(weights) {
    for (const int weight : weights) counted_.push_back(std::max(weight, 1));
  }
  // Filled from the left up to the least bottleneck that needs no more than `count` parts; then the heaviest is halved.
  [[nodiscard]] std::vector<Numbers> parts(std::size_t count) const {
    int bottleneck = *std::ranges::max_element(weights_);
    while (filled(bottleneck).size() > count) ++bottleneck;
    std::vector<Numbers> parts = filled(bottleneck), single;
    while (parts.size() + single.size() < count) {
      const auto heaviest = std::ranges::max_element(
          parts, {}, [&](const Numbers& part) { return std::pair(weight_of(part[0], part[1]), -part[0]); });
      const Numbers part = *heaviest;
      parts.erase(heaviest);
      if (part[1] - part[0] == 1) {
        single.push_back(part);
        continue;
      }
      const int middle = middle_of(part[0], part[1]);
      parts.push_back({part[0], middle});
      parts.push_back({middle, part[1]});
    }
    parts.insert(parts.end(), single.begin(), single.end());
    std::ranges::sort(parts);
    return parts;
  }

 private:
  [[nodiscard]] int weight_of(int begin, int end) const {
    return std::accumulate(counted_.begin() + begin, counted_.begin() + end, 0);
  }
  [[nodiscard]] std::vector<Numbers> filled(int bottleneck) const {
    std::vector<Numbers> parts;
    int begin = 0;
    for (int end = 1; end <= static_cast<int>(counted_.size()); ++end)
      if (weight_of(begin, end) > bottleneck) {
        parts.push_back({begin, end - 1});
        begin = end - 1;
      }
    parts.push_back({begin, static_cast<int>(counted_.size())});
    return parts;
  }
  [[nodiscard]] int middle_of(int begin, int end) const {
    int best = begin + 1;
    for (int middle = begin + 1; middle < end; ++middle)
      if (difference(begin, middle, end) < difference(begin, best, end)) best = middle;
    return best;
  }
  [[nodiscard]] int difference(int begin, int middle, int end) const {
    return std::abs(weight_of(begin, middle) - weight_of(middle, end));
  }

  const Numbers& weights_;
  Numbers counted_;
};

std::optional<json> colossalai_balanced(const Numbers& weights, int ranks, int chunks) {
  if (static_cast<int>(weights.size()) <= ranks * chunks)
    return colossalai_uniform(static_cast<int>(weights.size()), ranks, chunks);
  std::vector<std::vector<Numbers>> parts(static_cast<std::size_t>(ranks));
  std::size_t next = 0;
  for (const Numbers& part : ColossalaiBalance(weights).parts(static_cast<std::size_t>(ranks * chunks)))
    parts[next++ % parts.size()].push_back(part);
  return colossalai_answer(parts, false);
}

Numbers drawn_weights(Random& random, int most, int heaviest) {
  Numbers weights(static_cast<std::size_t>(random.between(0, most)));
  for (int& weight : weights) weight = random.between(0, random.between(0, heaviest));
  return weights;
}

void colossalai_balanced_rule(Context& context) {
  Random random(context.seed());
  for (int trial = 0; trial < 400; ++trial) {
    const Numbers weights = drawn_weights(random, 14, 12);
    const int ranks = random.between(1, 4), chunks = random.between(1, 2);
    const std::string problem = problem_of_question(context, "colossalai", "schedules.partition_balanced",
                                                    {{"weights", weights}, {"pp", ranks}, {"chunks", chunks}},
                                                    colossalai_balanced(weights, ranks, chunks));
    if (!problem.empty()) return report_words(problem);
  }
}

// ---- DeepSpeed ----

json boundaries(const Numbers& found) { return {{"boundaries", found}}; }

// Nothing where Python divides by 0 or steps by nothing.
std::optional<json> deepspeed_uniform(int items, int parts) {
  Numbers found;
  if (items <= parts) {
    for (int part = 0; part <= parts; ++part) found.push_back(std::min(part, items));
    return boundaries(found);
  }
  if (parts == 0 || floor_of(items, parts) == 0) return {};
  const int size = floor_of(items, parts);
  for (int part = 0; part <= parts; ++part) found.push_back(part * size + std::min(part, items - size * parts));
  return boundaries(found);
}
std::optional<json> deepspeed06_uniform(int items, int parts) {
  if (items <= parts) return deepspeed_uniform(items, parts);
  if (parts < 1) return {};
  Numbers found;
  for (int part = 0; part < parts; ++part) found.push_back(part * floor_of(items, parts));
  found.push_back(items);
  return boundaries(found);
}

// The least difference between the heaviest and the lightest of j parts of the first i items, as the source's table
// has it: of the parts before the last one, only the best of them counts; of equal ones the last split.
struct Spread {
  double heaviest = std::numeric_limits<double>::infinity(), lightest = std::numeric_limits<double>::infinity();
  int last = 0;
  [[nodiscard]] double cost() const { return std::isinf(heaviest) ? heaviest : heaviest - lightest; }
};
class DeepspeedBalance {
 public:
  explicit DeepspeedBalance(const std::vector<double>& weights) : weights_(weights) {}
  [[nodiscard]] Numbers split(int items, int parts) const {
    if (parts == 0) return {items};
    Numbers found = split(best(items, parts).last, parts - 1);
    found.push_back(items);
    return found;
  }

 private:
  [[nodiscard]] Spread best(int items, int parts) const {
    if (items == 0 && parts == 0) return {.heaviest = 0};
    Spread found;
    if (parts == 0 || parts > items) return found;
    for (int last = parts - 1; last < items; ++last) {
      const Spread before = best(last, parts - 1);
      const double own = std::accumulate(weights_.begin() + last, weights_.begin() + items, 0.0);
      const Spread one{std::max(before.heaviest, own), std::min(before.lightest, own), last};
      if (one.cost() <= found.cost()) found = one;
    }
    return found;
  }
  const std::vector<double>& weights_;
};
std::optional<json> deepspeed_balanced(const std::vector<double>& weights, int parts) {
  const auto items = static_cast<int>(weights.size());
  if (parts == 0) return boundaries({items});
  if (items <= parts) return deepspeed_uniform(items, parts);
  return boundaries(DeepspeedBalance(weights).split(items, parts));
}

// The source's probe of a bottleneck, over sums[i] of the first i + 1 items; a negative index counts from the end.
std::pair<Numbers, bool> probed(const std::vector<double>& sums, int parts, double bottleneck) {
  const auto items = static_cast<int>(sums.size());
  const auto sum = [&](int i) { return sums[static_cast<std::size_t>(i < 0 ? i + items : i)]; };
  Numbers found(static_cast<std::size_t>(parts) + 1, items);
  found.front() = 0;
  double target = bottleneck;
  int step = items / parts;
  for (std::size_t part = 1; part < static_cast<std::size_t>(parts); ++part) {
    while (step < items && sum(step) < target) step += items / parts;
    int end = step - items / parts;
    while (end < std::min(step, items) && sum(end) < target) ++end;
    found[part] = end;
    if (end == items) return {found, sum(-1) - sum(found[part - 1]) < bottleneck};
    target = sum(end - 1) + bottleneck;
  }
  return {found, target >= sum(-1)};
}
std::optional<json> deepspeed06_balanced(const std::vector<double>& weights, int parts) {
  const auto items = static_cast<int>(weights.size());
  if (items <= parts) return deepspeed06_uniform(items, parts);
  if (parts == 0) return {};
  std::vector<double> sums(weights.size());
  std::partial_sum(weights.begin(), weights.end(), sums.begin());
  double least = sums.back() / parts, most = sums.back();
  constexpr double precision = 1e-3;
  while (most > least + precision) {
    const double middle = least + (most - least) / 2;
    if (probed(sums, parts, middle).second)
      most = middle;
    else
      least = middle + precision;
  }
  const auto [found, all_placed] = probed(sums, parts, most);
  return all_placed ? std::optional(boundaries(found)) : std::nullopt;
}

using UniformRule = std::optional<json> (*)(int items, int parts);
using BalancedRule = std::optional<json> (*)(const std::vector<double>& weights, int parts);

void deepspeed_rule(Context& context, const char* convention, UniformRule uniform, BalancedRule balanced) {
  if (context.parameters().text("kind") == "uniform") {
    for (int items = -3; items <= 12; ++items)
      for (int parts = -3; parts <= 6; ++parts) {
        const std::string problem =
            problem_of_question(context, convention, "schedules.partition_uniform",
                                {{"num_items", items}, {"num_parts", parts}}, uniform(items, parts));
        if (!problem.empty()) return report_words(problem);
      }
    return;
  }
  Random random(context.seed());
  for (int trial = 0; trial < 300; ++trial) {
    std::vector<double> weights;
    for (const int weight : drawn_weights(random, 9, 12)) weights.push_back(weight / (trial % 2 == 0 ? 1.0 : 4.0));
    const int parts = random.between(0, 4);
    const std::string problem =
        problem_of_question(context, convention, "schedules.partition_balanced",
                            {{"weights", weights}, {"num_parts", parts}}, balanced(weights, parts));
    if (!problem.empty()) return report_words(problem);
  }
}
void deepspeed_rules(Context& context) { deepspeed_rule(context, "deepspeed", deepspeed_uniform, deepspeed_balanced); }
void deepspeed06_rules(Context& context) {
  deepspeed_rule(context, "deepspeed-0.6", deepspeed06_uniform, deepspeed06_balanced);
}

// Weights are not looked at: DeepSpeed 0.19.8 also answers where one, or their sum, is infinite or NaN.
void no_parts_refused(Context& context, const char* convention, int parts) {
  report_words(problem_of_refusal(context.adapter(), "schedules.partition_balanced",
                                  {{"convention", convention}, {"weights", {1.0, 2.0, 3.0}}, {"num_parts", parts}}));
}
void deepspeed_refuses(Context& context) { no_parts_refused(context, "deepspeed", -1); }
void deepspeed06_refuses(Context& context) { no_parts_refused(context, "deepspeed-0.6", 0); }

// ---- Megatron-LM's layouts ----

std::string repeated(std::string text, const std::regex& pattern) {
  std::string result;
  std::smatch found;
  for (; std::regex_search(text, found, pattern); text = found.suffix()) {
    result += found.prefix();
    for (int left = std::stoi(found[2]); left > 0; --left) result += found[1];
  }
  return result + text;
}

// The two substitutions of the source.
std::string written_out(std::string layout) {
  std::erase(layout, ',');
  return repeated(repeated(layout, std::regex(R"(\(([^)]+)\)\*(\d+))")), std::regex(R"((.)\*(\d+))"));
}

struct LayoutQuestion {
  std::string text;
  int ranks = 1, layers = 0, predictions = 0;
};

// Nothing for what is no layout of that model on those ranks.
std::optional<json> layout_answer(const LayoutQuestion& asked) {
  const std::string all = written_out(asked.text);
  std::vector<std::string> stages{""};
  for (const char letter : all) letter == '|' ? (void)stages.emplace_back() : stages.back().push_back(letter);
  std::string layers = all;
  std::erase(layers, '|');
  const auto count = [](const std::string& text, char letter) {
    return static_cast<int>(std::ranges::count(text, letter));
  };
  const auto all_stages = static_cast<int>(stages.size());
  if (layers.find_first_not_of("EtmL") != std::string::npos || all_stages % asked.ranks != 0) return {};
  if (!layers.starts_with('E') || !layers.ends_with('L') || count(layers, 'E') != 1 || count(layers, 'L') != 1)
    return {};
  if (count(layers, 't') != asked.layers || count(layers, 'm') != asked.predictions) return {};
  json answer{{"stages", stages}, {"parts", json(static_cast<std::size_t>(asked.ranks), json::array())}};
  answer["mtp_standalone"] = false;
  int begin = 0, with_prediction = 0;
  for (int stage = 0; stage < all_stages; ++stage) {
    const std::string& own = stages[static_cast<std::size_t>(stage)];
    const int end = begin + count(own, 't');
    answer["parts"][static_cast<std::size_t>(stage % asked.ranks)].push_back({begin, end});
    begin = end;
    if (count(own, 'm') == 0) continue;
    if (++with_prediction > 1 || stage + asked.ranks < all_stages) return {};
    if (layers.find('t', layers.find('m')) != std::string::npos) return {};
    answer["mtp_standalone"] = stage % asked.ranks != asked.ranks - 1;
  }
  return answer;
}

std::string drawn_text(Random& random, const std::string& letters) {
  std::string text;
  for (int left = random.between(0, 3); left > 0; --left) {
    text += letters[static_cast<std::size_t>(random.between(0, static_cast<int>(letters.size()) - 1))];
    if (random.between(0, 3) == 0) text += fmt::format("*{}", random.between(0, 3) == 0 ? 12 : random.between(0, 3));
    if (random.between(0, 5) == 0) text += ',';
  }
  return text;
}

LayoutQuestion drawn_layout(Random& random) {
  LayoutQuestion asked{.text = "E" + drawn_text(random, "t|")};
  for (int left = random.between(0, 2); left > 0; --left)
    asked.text += fmt::format("({})*{}", "t" + drawn_text(random, "t|"), random.between(0, 3));
  asked.text += drawn_text(random, "t|");
  if (random.between(0, 2) == 0) asked.text += drawn_text(random, random.between(0, 3) == 0 ? "m|" : "m");
  if (random.between(0, 1) == 0) asked.text += '|';
  asked.text += "L";
  if (random.between(0, 3) == 0) {
    const auto at = static_cast<std::size_t>(random.between(0, static_cast<int>(asked.text.size())));
    asked.text.insert(at, 1, "EtmL|()*2x 0"[random.between(0, 11)]);
  }
  const std::string all = written_out(asked.text);
  const int stages = static_cast<int>(std::ranges::count(all, '|')) + 1;
  asked.ranks = random.between(1, 4);
  while (random.between(0, 9) > 0 && stages % asked.ranks != 0) asked.ranks = random.between(1, 4);
  asked.layers = static_cast<int>(std::ranges::count(all, 't')) + (random.between(0, 9) == 0 ? 1 : 0);
  asked.predictions = static_cast<int>(std::ranges::count(all, 'm')) + (random.between(0, 9) == 0 ? 1 : 0);
  return asked;
}

void layouts_by_rule(Context& context) {
  const bool accepted = context.parameters().text("answer") == "accepted";
  Random random(context.seed());
  for (int trial = 0; trial < 700; ++trial) {
    const LayoutQuestion asked = drawn_layout(random);
    const std::optional<json> answer = layout_answer(asked);
    if (answer.has_value() != accepted) continue;
    json args{{"layout", asked.text}, {"pp", asked.ranks}, {"num_layers", asked.layers}};
    if (asked.predictions > 0) args["mtp_num_layers"] = asked.predictions;
    const std::string problem = problem_of_question(context, "megatron", "schedules.pipeline_layout", args, answer);
    if (!problem.empty()) return report_words(problem);
  }
}

// Embedding and loss counted, an even split of all ranks' layers, and of each rank's among its chunks.
std::optional<json> counted_answer(int layers, int ranks, int chunks, bool embedding, bool loss) {
  const int all = layers + (embedding ? 1 : 0) + (loss ? 1 : 0), parts = ranks * chunks;
  if (all % parts != 0 || all < parts) return {};
  json answer(static_cast<std::size_t>(ranks), json::array());
  int begin = 0;
  for (int part = 0; part < parts; ++part) {
    const int own = all / parts - (part == 0 && embedding ? 1 : 0) - (part == parts - 1 && loss ? 1 : 0);
    answer[static_cast<std::size_t>(part % ranks)].push_back({begin, begin + own});
    begin += own;
  }
  return json{{"parts", answer}};
}

void counted_by_rule(Context& context) {
  for (int layers = 1; layers <= 13; ++layers)
    for (int ranks = 1; ranks <= 4; ++ranks)
      for (int chunks = 1; chunks <= 3; ++chunks)
        for (int ends = 0; ends < 4; ++ends) {
          if (ranks == 1 && chunks > 1) continue;  // Megatron-core has chunks of pipelines of several ranks alone
          const bool embedding = ends % 2 == 1, loss = ends >= 2;
          const json args{
              {"num_layers", layers}, {"pp", ranks}, {"chunks", chunks}, {"embedding", embedding}, {"loss", loss}};
          const std::string problem = problem_of_question(context, "megatron", "schedules.partition_counted", args,
                                                          counted_answer(layers, ranks, chunks, embedding, loss));
          if (!problem.empty()) return report_words(problem);
        }
}

}  // namespace

void add_convention_checks(suite::Suite& suite) {
  const std::string uniform = "schedules.partition_uniform", balanced = "schedules.partition_balanced";
  const auto add = [&](const char* name, const char* requirement, std::vector<std::string> operations,
                       std::vector<suite::Axis> axes, const char* convention, void (*body)(Context&),
                       std::vector<AskedOption> options = {}, OperationsOfCase asks = {}) {
    suite.add({.id = std::string("schedules.partition.") + name,
               .verifies = {requirement},
               .door = Door::adapter,
               .axes = std::move(axes),
               .operations = std::move(operations),
               .asks = std::move(asks),
               .convention = convention,
               .options = options_of(std::move(options)),
               .body = body});
  };
  add("colossalai_uniform_rule", "SCHED-008@20fd", {uniform}, {}, "colossalai", colossalai_uniform_rule,
      {{uniform, "form", {"pp"}}});
  add("colossalai_balanced_rule", "SCHED-008@20fd", {balanced}, {}, "colossalai", colossalai_balanced_rule,
      {{balanced, "form", {"pp"}}});
  const suite::Axis kinds{"kind", {"uniform", "balanced"}};
  const auto of_kind = operations_by("kind", {{"uniform", {uniform}}, {"balanced", {balanced}}});
  const std::vector<AskedOption> by_parts{{uniform, "form", {}, "kind", {{"uniform", {"num_parts"}}}},
                                          {balanced, "form", {}, "kind", {{"balanced", {"num_parts"}}}}};
  add("deepspeed_rule", "SCHED-010@0554", {uniform, balanced}, {kinds}, "deepspeed", deepspeed_rules, by_parts,
      of_kind);
  add("deepspeed_06_rule", "SCHED-011@6a00", {uniform, balanced}, {kinds}, "deepspeed-0.6", deepspeed06_rules, by_parts,
      of_kind);
  const std::vector<AskedOption> balanced_by_parts{{balanced, "form", {"num_parts"}}};
  add("deepspeed_refuses", "SCHED-010@0554", {balanced}, {}, "deepspeed", deepspeed_refuses, balanced_by_parts);
  add("deepspeed_06_refuses", "SCHED-011@6a00", {balanced}, {}, "deepspeed-0.6", deepspeed06_refuses,
      balanced_by_parts);
  add("layouts_by_rule", "SCHED-103@262f", {"schedules.pipeline_layout"}, {{"answer", {"accepted"}}}, "megatron",
      layouts_by_rule);
  add("layouts_refused_by_rule", "SCHED-104@eb00", {"schedules.pipeline_layout"}, {{"answer", {"refused"}}}, "megatron",
      layouts_by_rule);
  add("counted_by_rule", "SCHED-105@369d", {"schedules.partition_counted"}, {}, "megatron", counted_by_rule);
}

}  // namespace plumbline::conformance
