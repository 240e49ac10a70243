// Which layers a stage has: every layer one owner, sizes and weights as even as they can be, peers' rules as recorded.
#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <optional>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "conformance/schedules/schedules_checks.hpp"
#include "conformance/support/asking.hpp"
#include "conformance/support/property.hpp"
#include "conformance/support/recorded.hpp"

namespace plumbline::conformance {

using nlohmann::json;
using suite::Adapter;
using suite::Context;
using suite::Door;

namespace {

using Numbers = std::vector<int>;

struct Interval {
  int begin = 0, end = 0;
};

// "" when each part begins where the part before it ends, empty ones as well, the first at 0, and the last ends at
// `items`: then each item has one owner.
std::string problem_of_cover(const std::vector<Interval>& parts, int items) {
  int end = 0;
  for (std::size_t part = 0; part < parts.size(); ++part) {
    if (parts[part].begin != end || parts[part].end < end)
      return fmt::format("part {} is [{}, {}), the parts before it end at {}", part, parts[part].begin, parts[part].end,
                         end);
    end = parts[part].end;
  }
  return end == items ? "" : fmt::format("the parts end at {} of {} items", end, items);
}

std::string problem_of_cover(const Numbers& boundaries, int items, int parts) {
  const std::string got = fmt::format("boundaries [{}]", fmt::join(boundaries, ","));
  if (static_cast<int>(boundaries.size()) != parts + 1 || boundaries.front() != 0 || boundaries.back() != items ||
      !std::ranges::is_sorted(boundaries))
    return fmt::format("expected {} that rise from 0 to {}, got {}", parts + 1, items, got);
  return {};
}

Numbers sizes_of(const Numbers& boundaries) {
  Numbers sizes(boundaries.size());
  std::adjacent_difference(boundaries.begin(), boundaries.end(), sizes.begin());
  sizes.erase(sizes.begin());
  return sizes;
}

using JudgeBoundaries = std::function<std::string(const Numbers& boundaries)>;

std::string problem_of_boundaries(Adapter& adapter, const std::string& op, const json& args,
                                  const JudgeBoundaries& judge) {
  return problem_of(adapter, op, args,
                    [&](const json& result) { return judge(result.at("boundaries").get<Numbers>()); });
}

// ---- uniform ----

void judge_splits(Context& context, const std::function<std::string(int items, int parts)>& problem) {
  const auto items = static_cast<int>(context.parameters().number("items"));
  const auto parts = static_cast<int>(context.parameters().number("parts"));
  report_words(problem(items, parts));
}

void every_item_once(Context& context) {
  judge_splits(context, [&](int items, int parts) {
    return problem_of(context.adapter(), "schedules.partition_uniform", {{"num_items", items}, {"pp", parts}},
                      [&](const json& result) {
                        std::vector<Interval> found;
                        for (const json& chunks : result.at("parts"))
                          for (const json& part : chunks) found.push_back({part.at(0), part.at(1)});
                        if (static_cast<int>(found.size()) != parts)
                          return fmt::format("{} parts instead of {}", found.size(), parts);
                        return problem_of_cover(found, items);
                      });
  });
}

void even_sizes(Context& context) {
  judge_splits(context, [&](int items, int parts) {
    return problem_of_boundaries(
        context.adapter(), "schedules.partition_uniform", {{"num_items", items}, {"num_parts", parts}},
        [&](const Numbers& found) -> std::string {
          if (auto problem = problem_of_cover(found, items, parts); !problem.empty()) return problem;
          const Numbers sizes = sizes_of(found);
          const auto [least, most] = std::ranges::minmax(sizes);
          if (most - least > 1 || !std::ranges::is_sorted(sizes, std::ranges::greater()))
            return fmt::format("sizes [{}]: they differ by one at most, the larger ones first", fmt::join(sizes, ","));
          return {};
        });
  });
}

// The sizes at the ends, by name.
json ends_of(const std::string& which, int first, int last) {
  json ends = json::object();
  if (which != "last") ends["first"] = first;
  if (which != "first") ends["last"] = last;
  return ends;
}

void ends_act_alone(Context& context) {
  constexpr int items = 30, parts = 4, first = 3, last = 8;
  const std::string& which = context.parameters().text("given");
  json args{{"num_items", items}, {"num_parts", parts}};
  args.update(ends_of(which, first, last));
  report_words(problem_of_boundaries(
      context.adapter(), "schedules.partition_uniform", args, [&](const Numbers& found) -> std::string {
        if (auto problem = problem_of_cover(found, items, parts); !problem.empty()) return problem;
        Numbers sizes = sizes_of(found);
        if (which != "last" && sizes.front() != first) return fmt::format("the first part has {} items", sizes.front());
        if (which != "first" && sizes.back() != last) return fmt::format("the last part has {} items", sizes.back());
        if (which != "last") sizes.erase(sizes.begin());
        if (which != "first") sizes.pop_back();
        const auto [least, most] = std::ranges::minmax(sizes);
        return most - least > 1 ? fmt::format("the other parts have [{}] items", fmt::join(sizes, ",")) : "";
      }));
}

// All small splits with ends: those of a given size have it, the others differ by one at most, the larger ones first.
void ends_of_all_splits(Context& context) {
  const std::vector<std::optional<int>> ends{std::nullopt, -1, 0, 1, 3};
  for (const int items : {0, 1, 2, 5, 8})
    for (int parts = 1; parts <= 4; ++parts)
      for (const auto& first : ends)
        for (const auto& last : ends) {
          const int fixed = (first ? 1 : 0) + (last ? 1 : 0), others = parts - fixed;
          const int left = items - first.value_or(0) - last.value_or(0);
          if (others < 0 && left == -items) continue;  // of one part that has all items, twice
          json args{{"num_items", items}, {"num_parts", parts}};
          if (first) args["first"] = *first;
          if (last) args["last"] = *last;
          std::string problem;
          if (first.value_or(0) < 0 || last.value_or(0) < 0 || left < 0 || others < 0 || (others == 0 && left > 0)) {
            problem = problem_of_refusal_beside_answers(context.adapter(), "schedules.partition_uniform", args);
          } else {
            Numbers expected{0};
            if (first) expected.push_back(*first);
            for (int part = 0; part < others; ++part)
              expected.push_back(expected.back() + left / others + (part < left % others ? 1 : 0));
            if (last) expected.push_back(items);
            problem = problem_of_boundaries(
                context.adapter(), "schedules.partition_uniform", args,
                [&](const Numbers& found) { return first_difference(json(expected), json(found), "boundaries"); });
            if (!problem.empty()) problem = args.dump() + ": " + problem;
          }
          if (!problem.empty()) return report_words(problem);
        }
}

// ---- chunks ----

void chunks_in_turn(Context& context) {
  const auto stages = static_cast<int>(context.parameters().number("stages"));
  const auto chunks = static_cast<int>(context.parameters().number("chunks"));
  constexpr int items = 23;
  report_words(problem_of(
      context.adapter(), "schedules.partition_uniform", {{"num_items", items}, {"pp", stages}, {"chunks", chunks}},
      [&](const json& result) -> std::string {
        // A model that is walked chunk by chunk, and rank by rank inside, meets its layers in their order.
        int next = 0;
        for (int chunk = 0; chunk < chunks; ++chunk)
          for (int rank = 0; rank < stages; ++rank) {
            const json& interval =
                result.at("parts").at(static_cast<std::size_t>(rank)).at(static_cast<std::size_t>(chunk));
            if (interval.at(0) != next)
              return fmt::format("chunk {} of rank {} is {}, and item {} is next", chunk, rank, interval.dump(), next);
            next = interval.at(1);
          }
        return next == items ? "" : fmt::format("{} of {} items have an owner", next, items);
      }));
}

// ---- optimal ----

struct Weights {
  std::vector<int> weights;
  int parts = 1;
};

std::string text_of(const Weights& value) {
  return fmt::format("weights [{}] in {} parts", fmt::join(value.weights, ","), value.parts);
}

std::vector<Weights> smaller(const Weights& value) {
  std::vector<Weights> list;
  if (value.parts > 1) list.push_back({value.weights, value.parts - 1});
  for (std::size_t i = 0; i < value.weights.size(); ++i) {
    Weights without = value, lighter = value;
    without.weights.erase(without.weights.begin() + static_cast<std::ptrdiff_t>(i));
    if (!without.weights.empty()) list.push_back(std::move(without));
    if (lighter.weights[i] > 0) {
      --lighter.weights[i];
      list.push_back(std::move(lighter));
    }
  }
  return list;
}

// The least largest sum over all places of the boundaries.
int lightest(const std::vector<int>& weights, int parts) {
  if (parts == 1) return std::accumulate(weights.begin(), weights.end(), 0);
  int best = std::numeric_limits<int>::max(), first = 0;
  for (std::size_t taken = 0; taken <= weights.size(); ++taken) {
    best = std::min(
        best,
        std::max(first, lightest({weights.begin() + static_cast<std::ptrdiff_t>(taken), weights.end()}, parts - 1)));
    if (taken < weights.size()) first += weights[taken];
  }
  return best;
}

int heaviest(const std::vector<int>& weights, const Numbers& boundaries) {
  int most = 0;
  for (std::size_t part = 0; part + 1 < boundaries.size(); ++part)
    most =
        std::max(most, std::accumulate(weights.begin() + boundaries[part], weights.begin() + boundaries[part + 1], 0));
  return most;
}

void judge_weights(Context& context, const std::function<std::string(const Weights&, const Numbers&)>& judge) {
  const auto problem = [&](const Weights& value) {
    return problem_of_boundaries(context.adapter(), "schedules.partition_optimal",
                                 {{"weights", value.weights}, {"parts", value.parts}}, [&](const Numbers& found) {
                                   const auto items = static_cast<int>(value.weights.size());
                                   const std::string cover = problem_of_cover(found, items, value.parts);
                                   return cover.empty() ? judge(value, found) : cover;
                                 });
  };
  const std::string& kind = context.parameters().text("weights");
  if (kind == "equal") return report_words(problem({{1, 1, 1, 1, 1}, 4}));
  if (kind == "divisible") return report_words(problem({{1, 1, 1, 1, 1, 1, 1, 1}, 4}));
  const Property<Weights> property{.draw =
                                       [](Random& random) {
                                         Weights value{.weights = {}, .parts = random.between(1, 5)};
                                         for (int left = random.between(1, 8); left > 0; --left)
                                           value.weights.push_back(random.between(0, 6));
                                         return value;
                                       },
                                   .problem = problem,
                                   .smaller = smaller,
                                   .words = [](const Weights& value) { return text_of(value); }};
  constexpr int trials = 400;
  report_words(search(property, context.seed(), trials));
}

void least_heaviest(Context& context) {
  judge_weights(context, [](const Weights& value, const Numbers& found) -> std::string {
    const int least = lightest(value.weights, value.parts), got = heaviest(value.weights, found);
    return got == least
               ? ""
               : fmt::format("the heaviest part of [{}] weighs {}, it could be {}", fmt::join(found, ","), got, least);
  });
}

// Weights that are no whole numbers, judged in units of which all are multiples: sums of so few are exact.
void least_heaviest_of_fractions(Context& context) {
  // The sum of a few of the huge ones is beyond what a double holds.
  static const std::map<std::string, double> units{{"small", 0x1p-40}, {"eighth", 0.125}, {"huge", 0x1p1019}};
  const double unit = units.at(context.parameters().text("unit"));
  const auto scaled = [&](const Weights& value) {
    std::vector<double> weights;
    for (const int weight : value.weights) weights.push_back(weight * unit);
    return weights;
  };
  const auto problem = [&](const Weights& value) {
    return problem_of_boundaries(
        context.adapter(), "schedules.partition_optimal", {{"weights", scaled(value)}, {"parts", value.parts}},
        [&](const Numbers& found) -> std::string {
          std::string cover = problem_of_cover(found, static_cast<int>(value.weights.size()), value.parts);
          if (!cover.empty()) return cover;
          const int least = lightest(value.weights, value.parts), got = heaviest(value.weights, found);
          return got == least ? ""
                              : fmt::format("the heaviest part of [{}] weighs {} x {}, it could be {}",
                                            fmt::join(found, ","), unit, got, least);
        });
  };
  const Property<Weights> property{
      .draw =
          [](Random& random) {
            Weights value{.weights = {}, .parts = random.between(2, 5)};
            for (int left = random.between(2, 8); left > 0; --left) value.weights.push_back(random.between(0, 15));
            return value;
          },
      .problem = problem,
      .smaller = smaller,
      .words = [&](const Weights& value) { return fmt::format("{} units of {}", text_of(value), unit); }};
  constexpr int trials = 200;
  report_words(search(property, context.seed(), trials));
}

void none_empty(Context& context) {
  judge_weights(context, [](const Weights& value, const Numbers& found) -> std::string {
    if (static_cast<int>(value.weights.size()) < value.parts) return {};
    const Numbers sizes = sizes_of(found);
    return std::ranges::count(sizes, 0) == 0 ? "" : fmt::format("a part is empty: [{}]", fmt::join(found, ","));
  });
}

// ---- peers ----

// A recorded case, answered as then; a refusal by a refusal.
void ask_as_recorded(Adapter& adapter, const std::string& convention, const std::string& kind, const json& one) {
  json args{{"convention", convention}};
  for (const char* field : {"num_items", "weights", "pp", "chunks", "num_parts", "layers"})
    if (one.contains(field)) args[field] = one[field];
  const std::string op = kind == "count_layer_params" ? "schedules.count_layer_params" : "schedules.partition_" + kind;
  const std::string words = op + " " + args.dump().substr(0, 200) + ": ";
  if (one.contains("error")) {
    if (!refuses_bad_value(answer_to(adapter, op, args), args))
      report_words(words + "refused in the record, here answered, or unsupported");
    return;
  }
  json expected = json::object();
  for (const char* field : {"parts", "warned", "boundaries", "counts"})
    if (one.contains(field)) expected[field] = one[field];
  const std::string problem =
      problem_of(adapter, op, args, [&](const json& result) { return first_difference(expected, result); });
  if (!problem.empty()) report_words(words + problem);
}

// The recorded cases of a kind.
void as_recorded(Context& context, const std::string& file, const std::string& convention, const std::string& kind,
                 const std::string& implementation) {
  const json record = recorded("schedules", file);
  for (const json& one : record.at("cases"))
    if (one.at("kind") == kind && one.value("impl", implementation) == implementation)
      ask_as_recorded(context.adapter(), convention, kind, one);
}

void colossalai(Context& context) {
  as_recorded(context, "partition_colossalai", "colossalai", context.parameters().text("kind"), "");
}
void deepspeed(Context& context) {
  as_recorded(context, "partition_deepspeed", "deepspeed", context.parameters().text("kind"), "deepspeed-0.19.8");
}
void deepspeed06(Context& context) {
  as_recorded(context, "partition_deepspeed", "deepspeed-0.6", context.parameters().text("kind"), "deepspeed-0.6.3");
}
void layer_counts(Context& context) {
  const json record = recorded("schedules", "partition_colossalai");
  std::vector<json> cases;
  for (const json& one : record.at("cases"))
    if (one.at("kind") == "count_layer_params") cases.push_back(one);
  ask_as_recorded(context.adapter(), "plumbline", "count_layer_params",
                  cases.at(static_cast<std::size_t>(context.parameters().number("recorded"))));
}

// The same of layers with arguments that are seldom given.
std::vector<std::pair<json, std::int64_t>> layers_with_options() {
  const auto with = [](const char* type, json arguments) {
    arguments["type"] = type;
    return arguments;
  };
  const json cell{{"input_size", 3}, {"hidden_size", 5}};
  const auto recurrent = [&](const char* type, const json& more) {
    json all = cell;
    all.update(more);
    return with(type, all);
  };
  const json heads{{"embed_dim", 8}, {"num_heads", 2}};
  const auto attention = [&](const json& more) {
    json all = heads;
    all.update(more);
    return with("MultiheadAttention", all);
  };
  return {{with("Linear", {{"in_features", 3}, {"out_features", 5}, {"device", "cpu"}, {"dtype", "float32"}}), 20},
          {with("Linear", {{"in_features", 3}, {"out_features", 5}, {"bias", false}}), 15},
          {with("Bilinear", {{"in1_features", 3}, {"in2_features", 5}, {"out_features", 7}, {"bias", false}}), 105},
          {with("Conv2d", {{"in_channels", 6}, {"out_channels", 10}, {"kernel_size", 3}}), 6 * 10 * 9 + 10},
          {with("Conv2d", {{"in_channels", 6}, {"out_channels", 10}, {"kernel_size", {3, 2}}, {"bias", false}}), 360},
          {with("Conv1d", {{"in_channels", 6}, {"out_channels", 6}, {"kernel_size", json::array({4})}, {"groups", 6}}),
           24 + 6},
          {with("Conv3d", {{"in_channels", 1}, {"out_channels", 1}, {"kernel_size", 1}, {"padding_mode", "zeros"}}), 2},
          {with("BatchNorm2d", {{"num_features", 12}, {"momentum", 0.5}, {"eps", 0.001}}), 24},
          {with("SyncBatchNorm", {{"num_features", 12}}), 24},
          {with("GroupNorm", {{"num_channels", 12}, {"num_groups", 12}}), 24},
          {with("InstanceNorm1d", {{"num_features", 12}, {"affine", false}}), 0},
          {with("LayerNorm", {{"normalized_shape", {3, 4}}}), 24},
          {with("LayerNorm", {{"normalized_shape", {3, 4}}, {"bias", false}}), 12},
          {with("RMSNorm", {{"normalized_shape", {3, 4}}}), 12},
          {with("RMSNorm", {{"normalized_shape", 12}}), 12},
          {with("RMSNorm", {{"normalized_shape", 12}, {"elementwise_affine", false}}), 0},
          {with("Embedding", {{"num_embeddings", 11}, {"embedding_dim", 4}, {"padding_idx", 10}}), 44},
          {with("Embedding", {{"num_embeddings", 11}, {"embedding_dim", 4}, {"padding_idx", -11}}), 44},
          {with("EmbeddingBag", {{"num_embeddings", 11}, {"embedding_dim", 4}, {"mode", "sum"}}), 44},
          {with("PReLU", json::object()), 1},
          {with("PReLU", {{"num_parameters", 5}}), 5},
          {recurrent("RNNCell", json::object()), 5 * (3 + 5 + 2)},
          {recurrent("GRUCell", json::object()), 3 * 5 * (3 + 5 + 2)},
          {recurrent("LSTMCell", {{"bias", false}}), 4 * 5 * (3 + 5)},
          {recurrent("GRU", {{"bidirectional", true}}), 2 * 3 * 5 * (3 + 5 + 2)},
          {recurrent("RNN", {{"num_layers", 3}, {"bidirectional", true}}), 2 * (5 * 10 + 2 * 5 * (10 + 5 + 2))},
          {recurrent("LSTM", {{"proj_size", 2}}), 4 * 5 * (3 + 2 + 2) + 2 * 5},
          {recurrent("LSTM", {{"proj_size", 4}, {"num_layers", 3}}),
           4 * 5 * (3 + 4 + 2) + 4 * 5 + 2 * (4 * 5 * (4 + 4 + 2) + 4 * 5)},
          {recurrent("LSTM", {{"proj_size", 0}}), 4 * 5 * (3 + 5 + 2)},
          {attention({{"bias", false}}), 4 * 8 * 8},
          {attention({{"kdim", 6}, {"vdim", 4}}), 8 * 8 + 8 * 6 + 8 * 4 + 8 * 8 + 4 * 8},
          {attention({{"add_bias_kv", true}}), 4 * 8 * 8 + 4 * 8 + 2 * 8},
          {with("Identity", {{"whatever", 3}}), 0},
          {with("Dropout", {{"p", 0.5}}), 0},
          {with("Softmax", {{"dim", 1}}), 0},
          {with("MaxPool2d", {{"kernel_size", 2}, {"stride", 2}}), 0},
          {with("Unflatten", {{"dim", 1}, {"unflattened_size", {2, 3}}}), 0}};
}

// What no constructor of torch.nn makes, or what no 64-bit number counts.
void refuses_layers(Context& context) {
  const json convolution{{"type", "Conv2d"}, {"in_channels", 8}, {"out_channels", 10}, {"kernel_size", 3}};
  const json lstm{{"type", "LSTM"}, {"input_size", 3}, {"hidden_size", 5}};
  const json embedding{{"type", "Embedding"}, {"num_embeddings", 11}, {"embedding_dim", 4}};
  const json linear{{"type", "Linear"}, {"in_features", 3}, {"out_features", 5}};
  const json heads{{"type", "MultiheadAttention"}, {"embed_dim", 8}, {"num_heads", 2}};
  const json groups{{"type", "GroupNorm"}, {"num_channels", 12}, {"num_groups", 3}};
  constexpr std::int64_t large = std::int64_t{1} << 40, most = std::numeric_limits<std::int64_t>::max();
  struct Change {
    json layer;
    const char* argument;
    json value;
  };
  const std::vector<Change> changes{{convolution, "groups", 4},
                                    {convolution, "groups", 5},
                                    {convolution, "groups", 0},
                                    {convolution, "kernel_size", {3, -1}},
                                    {convolution, "kernel_size", "3"},
                                    {convolution, "kernels", 3},
                                    {convolution, "in_channels", nullptr},
                                    {lstm, "proj_size", 5},
                                    {lstm, "proj_size", 6},
                                    {lstm, "proj_size", -1},
                                    {lstm, "nonlinearity", "tanh"},
                                    {embedding, "padding_idx", 11},
                                    {embedding, "padding_idx", -12},
                                    {embedding, "num_embeddings", nullptr},
                                    {linear, "out_features", nullptr},
                                    {linear, "out_features", -1},
                                    {linear, "out_features", "5"},
                                    {linear, "out_features", 2.5},
                                    {linear, "out_feature", 5},
                                    {linear, "in_features", most},
                                    {linear, "type", "Linears"},
                                    {linear, "type", ""},
                                    {linear, "type", "BatchNorm1d BatchNorm2d"},
                                    {heads, "num_heads", 3},
                                    {groups, "num_groups", 5},
                                    {groups, "num_groups", 24}};
  for (const auto& [layer, argument, value] : changes) {
    json wrong = layer;
    wrong[argument] = value;
    const json args{{"layers", {linear, wrong}}};
    const std::string problem =
        problem_of_refusal_beside_answers(context.adapter(), "schedules.count_layer_params", args);
    if (!problem.empty()) return report_words(problem);
  }
  json wide = linear;
  wide.update({{"in_features", large}, {"out_features", large}});
  report_words(problem_of_refusal_beside_answers(context.adapter(), "schedules.count_layer_params",
                                                 {{"layers", json::array({wide})}}));
}

// Counted by hand, a factor a dimension of each tensor that the layer has: {layer, count}.
std::vector<std::pair<json, std::int64_t>> layers_counted_by_hand(const std::string& schedule_kind) {
  const auto convolution = [](const std::string& type, const json& kernel) {
    return json{{"type", type}, {"in_channels", 6}, {"out_channels", 10}, {"kernel_size", kernel}, {"groups", 2}};
  };
  const auto norm = [](const std::string& type, const std::string& size, json more) {
    more["type"] = type;
    more[size] = 12;
    return more;
  };
  const auto recurrent = [](const std::string& type, json more) {
    more.update({{"type", type}, {"input_size", 3}, {"hidden_size", 5}});
    return more;
  };
  if (schedule_kind == "bilinear")
    return {{{{"type", "Bilinear"}, {"in1_features", 3}, {"in2_features", 5}, {"out_features", 7}}, 3 * 5 * 7 + 7}};
  if (schedule_kind == "convolution")
    return {{convolution("Conv1d", 4), 10 * 3 * 4 + 10},
            {convolution("Conv3d", {2, 3, 4}), 10 * 3 * 2 * 3 * 4 + 10},
            {convolution("ConvTranspose1d", 4), 6 * 5 * 4 + 10},
            {convolution("ConvTranspose2d", {2, 3}), 6 * 5 * 2 * 3 + 10},
            {convolution("ConvTranspose3d", 2), 6 * 5 * 2 * 2 * 2 + 10}};
  if (schedule_kind == "norm")
    return {{norm("BatchNorm1d", "num_features", {}), 2 * 12},
            {norm("BatchNorm3d", "num_features", {{"affine", false}}), 0},
            {norm("GroupNorm", "num_channels", {{"num_groups", 3}}), 2 * 12},
            {norm("GroupNorm", "num_channels", {{"num_groups", 3}, {"affine", false}}), 0},
            {norm("InstanceNorm2d", "num_features", {}), 0},  // affine only where it is asked for
            {norm("InstanceNorm2d", "num_features", {{"affine", true}}), 2 * 12},
            {norm("LayerNorm", "normalized_shape", {{"elementwise_affine", false}}), 0},
            {norm("LayerNorm", "normalized_shape", {{"bias", false}}), 12}};
  if (schedule_kind == "options") return layers_with_options();
  if (schedule_kind == "recurrent")
    return {{recurrent("RNN", {{"bias", false}}), 5 * 3 + 5 * 5},
            {recurrent("GRU", {}), 3 * (5 * 3 + 5 * 5 + 5 + 5)},
            {recurrent("LSTM", {{"num_layers", 2}}), 4 * (5 * 3 + 5 * 5 + 5 + 5) + 4 * (5 * 5 + 5 * 5 + 5 + 5)},
            // The second layer takes what both directions of the first give.
            {recurrent("LSTM", {{"num_layers", 2}, {"bidirectional", true}}),
             2 * 4 * (5 * 3 + 5 * 5 + 5 + 5) + 2 * 4 * (5 * 10 + 5 * 5 + 5 + 5)}};
  return {{{{"type", "Embedding"}, {"num_embeddings", 11}, {"embedding_dim", 4}}, 11 * 4},
          {{{"type", "MultiheadAttention"}, {"embed_dim", 8}, {"num_heads", 2}}, 3 * 8 * 8 + 3 * 8 + 8 * 8 + 8},
          {{{"type", "ReLU"}}, 0}};
}
void layers_by_hand(Context& context) {
  json layers = json::array(), counts = json::array();
  for (auto& [layer, count] : layers_counted_by_hand(context.parameters().text("family"))) {
    layers.push_back(layer);
    counts.push_back(count);
  }
  ask_as_recorded(context.adapter(), "plumbline", "count_layer_params", {{"layers", layers}, {"counts", counts}});
}

// ColossalAI's parts, by stage and chunk, have the items in order: each chunk goes over all stages.
std::string problem_of_order(const json& parts, int stages, int chunks, int items) {
  int next = 0;
  for (int chunk = 0; chunk < chunks; ++chunk)
    for (int stage = 0; stage < stages; ++stage) {
      const json& part = parts.at(static_cast<std::size_t>(stage)).at(static_cast<std::size_t>(chunk));
      if (part.at(0) != next)
        return fmt::format("chunk {} of stage {} begins at {}, not at {}", chunk, stage, part.at(0).dump(), next);
      next = part.at(1);
    }
  return next == items ? "" : fmt::format("{} of {} items have an owner", next, items);
}

// No more items than parts: the uniform rule holds, chunks must divide the items, and stages stay empty.
void falls_back_to_uniform(Context& context) {
  const auto items = static_cast<int>(context.parameters().number("items"));
  const json weights(static_cast<std::size_t>(items), 5);
  constexpr int stages = 4, chunks = 2;
  const json both{{"convention", "colossalai"}, {"pp", stages}, {"chunks", chunks}};
  json balanced = both, uniform = both;
  balanced["weights"] = weights;
  uniform["num_items"] = items;
  const Answer of_weights = answer_to(context.adapter(), "schedules.partition_balanced", balanced);
  const Answer of_number = answer_to(context.adapter(), "schedules.partition_uniform", uniform);
  if (items % chunks != 0) {
    if (!refuses_bad_value(of_weights, balanced))
      report_words(fmt::format("{} items in {} chunks: {}", items, chunks, of_weights.result.dump()));
    return;
  }
  if (of_weights.is_refused() || of_number.is_refused())
    return report_words("refused: " + of_weights.message + of_number.message);
  report_words(problem_of(context.adapter(), "schedules.partition_uniform", uniform, [&](const json& result) {
    return problem_of_order(result.at("parts"), stages, chunks, items);
  }));
  report_words(first_difference(of_number.result, of_weights.result));
  const json warned = items / chunks < stages;
  report_words(first_difference({{"warned", warned}}, of_weights.result));
}

// ---- refusals ----

const std::vector<BadQuestion>& bad_partitions() {
  static const std::string uniform = "schedules.partition_uniform", optimal = "schedules.partition_optimal";
  static const std::vector<BadQuestion> list{
      {"no_parts", uniform, {{"num_items", 4}, {"num_parts", 0}}},
      {"negative_items", uniform, {{"num_items", -1}, {"num_parts", 2}}},
      {"no_optimal_parts", optimal, {{"weights", {1, 2}}, {"parts", 0}}},
      {"negative_weight", optimal, {{"weights", {1, -2}}, {"parts", 1}}},
      {"weight_not_a_number", optimal, {{"weights", {1, "nan"}}, {"parts", 1}}},
      {"weight_infinite", optimal, {{"weights", {1, "inf"}}, {"parts", 1}}},
      {"ends_too_large", uniform, {{"num_items", 5}, {"num_parts", 3}, {"first", 4}, {"last", 3}}},
      {"rest_without_owner", uniform, {{"num_items", 9}, {"num_parts", 2}, {"first", 4}, {"last", 4}}}};
  return list;
}

void refuses_bad_partitions(Context& context) { report_words(problem_of_bad_question(context, bad_partitions())); }

}  // namespace

void add_partition_checks(suite::Suite& suite) {
  const suite::Axis items{"items", {"0", "1", "3", "8", "30", "38", "1000"}},
      parts{"parts", {"1", "3", "4", "8", "9", "48"}};
  const auto add = [&](const char* name, const char* requirement, std::vector<std::string> operations,
                       std::vector<suite::Axis> axes, void (*body)(Context&), std::vector<AskedOption> options = {},
                       const char* convention = "plumbline", OperationsOfCase asks = {}) {
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
  const std::vector<std::string> uniform{"schedules.partition_uniform"}, balanced{"schedules.partition_balanced"},
      either{"schedules.partition_uniform", "schedules.partition_balanced"}, optimal{"schedules.partition_optimal"};
  const std::string in_uniform = uniform.front(), in_balanced = balanced.front();
  const std::vector<AskedOption> by_parts{{in_uniform, "form", {"num_parts"}}}, by_rank{{in_uniform, "form", {"pp"}}};
  const auto of_kind = operations_by("kind", {{"uniform", uniform}, {"balanced", balanced}});
  const auto form_of_kind = [&](const char* form) {
    return std::vector<AskedOption>{{in_uniform, "form", {}, "kind", {{"uniform", {form}}}},
                                    {in_balanced, "form", {}, "kind", {{"balanced", {form}}}}};
  };
  const suite::Axis kinds{"kind", {"uniform", "balanced"}}, weights{"weights", {"equal", "divisible", "random"}};
  add("every_item_once", "SCHED-001@948e", uniform, {items, parts}, every_item_once, by_rank);
  add("even_sizes", "SCHED-002@6712", uniform, {items, parts}, even_sizes, by_parts);
  add("ends_act_alone", "SCHED-003@5248", uniform, {{"given", {"first", "last", "both"}}}, ends_act_alone, by_parts);
  add("ends_of_all_splits", "SCHED-003@5248", uniform, {}, ends_of_all_splits, by_parts);
  add("ends_that_do_not_fit", "SCHED-004@f67c", uniform,
      {suite::Axis{"fault", {"ends_too_large", "rest_without_owner"}}}, refuses_bad_partitions, by_parts);
  add("chunks_in_turn", "SCHED-005@02a9", uniform, {{"stages", {"1", "3"}}, {"chunks", {"1", "2", "4"}}},
      chunks_in_turn, by_rank);
  add("least_heaviest", "SCHED-006@a8f3", optimal, {weights}, least_heaviest);
  add("least_heaviest_of_fractions", "SCHED-006@a8f3", optimal, {{"unit", {"small", "eighth", "huge"}}},
      least_heaviest_of_fractions);
  add("none_empty", "SCHED-007@237e", optimal, {weights}, none_empty);
  add("colossalai", "SCHED-008@20fd", either, {kinds}, colossalai, form_of_kind("pp"), "colossalai", of_kind);
  add("falls_back_to_uniform", "SCHED-009@8f73", either, {{"items", {"4", "7", "8"}}}, falls_back_to_uniform,
      {{in_uniform, "form", {"pp"}}, {in_balanced, "form", {"pp"}}}, "colossalai");
  add("deepspeed", "SCHED-010@0554", either, {kinds}, deepspeed, form_of_kind("num_parts"), "deepspeed", of_kind);
  add("deepspeed_06", "SCHED-011@6a00", either, {kinds}, deepspeed06, form_of_kind("num_parts"), "deepspeed-0.6",
      of_kind);
  add("layer_counts", "SCHED-012@2fcb", {"schedules.count_layer_params"}, {{"recorded", {"0", "1", "2"}}},
      layer_counts);
  add("layers_by_hand", "SCHED-012@2fcb", {"schedules.count_layer_params"},
      {{"family", {"bilinear", "convolution", "norm", "recurrent", "options", "other"}}}, layers_by_hand);
  add("refuses_layers", "SCHED-012@2fcb", {"schedules.count_layer_params"}, {}, refuses_layers);
  add("bad_arguments", "SCHED-013@4f7d", {in_uniform, optimal.front()},
      {suite::Axis{"fault",
                   {"no_parts", "negative_items", "no_optimal_parts", "negative_weight", "weight_not_a_number",
                    "weight_infinite"}}},
      refuses_bad_partitions,
      {{in_uniform, "form", {}, "fault", {{"no_parts", {"num_parts"}}, {"negative_items", {"num_parts"}}}}},
      "plumbline",
      operations_by("fault", {{"no_parts", uniform},
                              {"negative_items", uniform},
                              {"no_optimal_parts", optimal},
                              {"negative_weight", optimal},
                              {"weight_not_a_number", optimal},
                              {"weight_infinite", optimal}}));
}

}  // namespace plumbline::conformance
