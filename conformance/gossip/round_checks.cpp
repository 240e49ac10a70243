// Live rounds of push-sum as an adapter answers them: interruptions, other groups, nodes that end, exchanges in place,
// and rounds on a thread beside the caller.
#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <ranges>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "conformance/gossip/gossip_checks.hpp"
#include "conformance/support/asking.hpp"
#include "conformance/support/words.hpp"

namespace plumbline::conformance {

using nlohmann::json;
using suite::Context;
using suite::Door;

namespace {

constexpr const char* kLiveRounds = "gossip.rounds";
constexpr double kSlack = 10;  // seconds of a busy machine

using LiveBook = std::vector<std::vector<int>>;

// Of a ring with one peer a round; of chords with one or two; of pairs, which exchange with each other alone.
LiveBook live_book(const std::string& graph, int nodes) {
  LiveBook rows;
  for (int node = 0; node < nodes; ++node) {
    const int next = (node + 1) % nodes, last = (node + nodes - 1) % nodes;
    if (graph == "ring") rows.push_back({next, last});
    if (graph == "hub") rows.push_back({node == 0 ? next : 0, node == 0 || next == 0 ? (node + 1) % nodes : next});
    if (graph == "pairs") rows.push_back({node % 2 == 0 ? node + 1 : node - 1});
  }
  if (graph == "hub") rows.back() = {0, 1};
  return rows;
}

// What is asked for, and what it must come to: shares and values from the definition.
struct AskedLive {
  int nodes = 3, rounds = 4;
  LiveBook book;
  std::string mixing = "uniform";
  std::vector<std::int64_t> numel{3};
  std::vector<std::string> dtypes{"float64"};
  json options = json::object();

  [[nodiscard]] static double value(int node, std::size_t tensor, std::int64_t element) {
    return static_cast<double>((7 * node + 3 * static_cast<int>(tensor) + 5 * element) % 17 - 8) / 8;
  }
  [[nodiscard]] json question() const {
    json args{{"world_size", nodes}, {"phone_book", book}, {"mixing", mixing}, {"rounds", rounds}, {"dtypes", dtypes}};
    args.update(options);
    for (int node = 0; node < nodes; ++node) {
      json& tensors = args["values"].emplace_back(json::array());
      for (std::size_t tensor = 0; tensor < numel.size(); ++tensor) {
        json& list = tensors.emplace_back(json::array());
        for (std::int64_t i = 0; i < numel[tensor]; ++i) list.push_back(value(node, tensor, i));
      }
    }
    return args;
  }
  // Whom a node sends to in a round, and who sends to it.
  [[nodiscard]] int peer(int node, int round) const {
    const std::vector<int>& row = book[static_cast<std::size_t>(node)];
    return row[static_cast<std::size_t>(round) % row.size()];
  }
  [[nodiscard]] std::vector<int> senders(int node, int round) const {
    std::vector<int> all;
    for (int other = 0; other < nodes; ++other)
      if (peer(other, round) == node) all.push_back(other);
    return all;
  }
  [[nodiscard]] double kept(int node) const { return mixing == "uniform" ? 0.5 : 1.0 / (2 + node % 3); }
};

AskedLive live_in(const Context& context) {
  AskedLive asked{.nodes = static_cast<int>(context.parameters().number("nodes"))};
  asked.book = live_book(context.parameters().has("graph") ? context.parameters().text("graph") : "ring", asked.nodes);
  if (context.parameters().has("mixing")) asked.mixing = context.parameters().text("mixing");
  return asked;
}

// Values and weight of a node.
struct LiveState {
  std::vector<std::vector<double>> x;
  double w = 1;
};
std::vector<LiveState> live_start(const AskedLive& asked) {
  std::vector<LiveState> all(static_cast<std::size_t>(asked.nodes));
  for (int node = 0; node < asked.nodes; ++node)
    for (std::size_t tensor = 0; tensor < asked.numel.size(); ++tensor) {
      auto& list = all[static_cast<std::size_t>(node)].x.emplace_back();
      for (std::int64_t i = 0; i < asked.numel[tensor]; ++i) list.push_back(AskedLive::value(node, tensor, i));
    }
  return all;
}
// A round; `added` is added to each value of who has sent, and is not sent.
std::vector<LiveState> live_round(const AskedLive& asked, const std::vector<LiveState>& before, int round,
                                  double added = 0) {
  std::vector<LiveState> after = before;
  const auto add = [&](int to, int from, double share) {
    LiveState& one = after[static_cast<std::size_t>(to)];
    const LiveState& other = before[static_cast<std::size_t>(from)];
    one.w += share * other.w;
    for (std::size_t tensor = 0; tensor < one.x.size(); ++tensor)
      for (std::size_t i = 0; i < one.x[tensor].size(); ++i) one.x[tensor][i] += share * other.x[tensor][i];
  };
  for (LiveState& one : after) {
    one.w = 0;
    for (auto& tensor : one.x) std::ranges::fill(tensor, added);
  }
  for (int node = 0; node < asked.nodes; ++node) {
    add(node, node, asked.kept(node));
    add(asked.peer(node, round), node, 1 - asked.kept(node));
  }
  return after;
}

// How near values of that type are to the right ones, and weights where that is the coarsest type: a system may keep
// them in it.
double live_nearness(const std::string& dtype) {
  static const std::map<std::string, double> all{
      {"float64", 1e-12}, {"float32", 1e-5}, {"float16", 0.02}, {"bfloat16", 0.1}};
  return all.at(dtype);
}

std::string problem_of_state(const AskedLive& asked, const LiveState& right, const json& row) {
  if (row.contains("error")) return "it ends with " + row["error"].dump();
  const double coarsest = std::ranges::max(asked.dtypes | std::views::transform(live_nearness));
  if (!(std::abs(row.at("w").get<double>() - right.w) <= coarsest))
    return fmt::format("the weight is {}, it must be {}", row["w"].dump(), right.w);
  const auto x = row.at("x").get<std::vector<std::vector<double>>>();
  if (x.size() != right.x.size()) return fmt::format("{} tensors, there are {}", x.size(), right.x.size());
  for (std::size_t tensor = 0; tensor < x.size(); ++tensor) {
    if (x[tensor].size() != right.x[tensor].size()) return fmt::format("tensor {} has another length", tensor);
    const double nearness = live_nearness(asked.dtypes[tensor]);
    for (std::size_t i = 0; i < x[tensor].size(); ++i)
      if (!(std::abs(x[tensor][i] - right.x[tensor][i]) <= nearness))
        return fmt::format("tensor {}, element {} is {}, it must be {}", tensor, i, x[tensor][i], right.x[tensor][i]);
  }
  return {};
}

using JudgeLiveRow = std::function<std::string(const json& row, int node, int round)>;
std::string each_live_row(const AskedLive& asked, const json& result, const JudgeLiveRow& judge) {
  if (result.at("nodes").size() != static_cast<std::size_t>(asked.nodes)) return "another number of nodes";
  for (int node = 0; node < asked.nodes; ++node)
    for (int round = 0; round < asked.rounds; ++round) {
      const json& rows = result["nodes"][static_cast<std::size_t>(node)].at("rounds");
      const std::string words = judge(rows.at(static_cast<std::size_t>(round)), node, round);
      if (!words.empty()) return fmt::format("node {}, round {}: {}", node, round, words);
    }
  return {};
}

// A node's row of a round; another number of nodes is the caller's problem before.
const json& live_row(const json& result, int node, int round) {
  return result.at("nodes").at(static_cast<std::size_t>(node)).at("rounds").at(static_cast<std::size_t>(round));
}
// "" where the answer says that a connection was cut there, as was asked.
std::string problem_of_no_cut(const AskedLive& asked, const json& result, int round) {
  return live_row(result, asked.nodes - 1, round).contains("cut") ? "" : "the interruption is not reported";
}

std::string problem_of_live_rounds(const AskedLive& asked, const json& result, double added = 0) {
  std::vector<std::vector<LiveState>> right{live_start(asked)};
  for (int round = 0; round < asked.rounds; ++round) right.push_back(live_round(asked, right.back(), round, added));
  return each_live_row(asked, result, [&](const json& row, int node, int round) {
    return problem_of_state(asked, right[static_cast<std::size_t>(round) + 1][static_cast<std::size_t>(node)], row);
  });
}

void judge_live(Context& context, const AskedLive& asked, const JudgeResult& more = {}, double added = 0) {
  report_words(problem_of(context.adapter(), kLiveRounds, asked.question(), [&](const json& result) {
    const std::string words = problem_of_live_rounds(asked, result, added);
    return words.empty() && more ? more(result) : words;
  }));
}

// That the rounds of both have the same bits; what is wrong with the second one's values in other ways is `more`'s.
void judge_same_bits(Context& context, const AskedLive& plain, const AskedLive& other, const JudgeResult& more = {}) {
  json whole;
  const auto keep = [&](const json& result) {
    whole = result;
    return std::string();
  };
  judge_live(context, plain, keep);
  if (whole.is_null()) return;
  report_words(problem_of(context.adapter(), kLiveRounds, other.question(), [&](const json& result) {
    const std::string words = each_live_row(other, result, [&](const json& row, int node, int round) -> std::string {
      if (row.contains("error")) return "it ends with " + row["error"].dump();
      const json& right =
          whole.at("nodes").at(static_cast<std::size_t>(node)).at("rounds").at(static_cast<std::size_t>(round));
      for (const char* field : {"x", "w"})
        if (std::string different = first_difference(right.at(field), row.at(field), field); !different.empty())
          return different;
      return {};
    });
    return words.empty() && more ? more(result) : words;
  }));
}

// ---- what travels ----

void live_shares(Context& context) {
  AskedLive asked = live_in(context);
  const std::string& tensors = context.parameters().text("tensors");
  if (tensors == "many") asked.numel = {4, 0, 1}, asked.dtypes = {"float64", "float64", "float64"};
  if (tensors == "empty") asked.numel = {0};
  if (context.parameters().text("sent") == "fused") asked.options["fuse"] = true;
  if (context.parameters().text("confirmed") == "no") asked.options["confirms"] = false;
  judge_live(context, asked);
}

// In even rounds of the hub all send to node 0.
void live_bytes(Context& context) {
  AskedLive asked = live_in(context);
  const bool is_ring = context.parameters().text("graph") == "ring";
  asked.options.update({{"regular", is_ring}, {"confirms", false}});
  const bool is_weighted = !is_ring || asked.mixing != "uniform";
  judge_live(context, asked, [&](const json& result) {
    return each_live_row(asked, result, [&](const json& row, int, int) -> std::string {
      const auto sent = row.at("sent").get<std::int64_t>();
      if (row.at("predicted") != sent)
        return fmt::format("{} bytes are sent, {} were predicted", sent, row["predicted"].dump());
      if (is_weighted ? sent <= 24 : sent != 24) return fmt::format("{} bytes are sent of values of 24", sent);
      return {};
    });
  });
}

void live_of_two_types(Context& context) {
  AskedLive asked = live_in(context);
  asked.numel = {3, 5};
  asked.dtypes = {"float64", "float32"};
  judge_live(context, asked);
}

void live_in_any_order(Context& context) {
  AskedLive asked = live_in(context);
  asked.numel = {3, 5};
  asked.dtypes = {"float64", "float32"};
  AskedLive late = asked;
  late.options["late"] = true;
  judge_same_bits(context, asked, late, [&](const json& result) {
    std::int64_t messages = 0;
    const std::string words = each_live_row(late, result, [&](const json& row, int, int) {
      messages += row.at("late").get<std::int64_t>();
      return std::string();
    });
    return words.empty() && messages == 0 ? "no message was late" : words;
  });
}

// ---- nodes that differ, or end ----

// Whether a message has each peer's number, in whatever words.
bool has_peers(const std::string& message, const std::vector<int>& peers) {
  return std::ranges::all_of(peers, [&](int peer) { return has_word(message, std::to_string(peer)); });
}

void live_mismatch(Context& context) {
  AskedLive asked = live_in(context);
  asked.rounds = 1;
  const std::string& differs = context.parameters().text("differs");
  AskedLive other = asked;
  if (differs == "graph") std::swap(other.book.back()[0], other.book.back()[1]);
  if (differs == "graph") asked.options["last_node"] = {{"phone_book", other.book}};
  if (differs == "mixing") asked.options["last_node"] = {{"mixing", "skewed"}};
  if (differs == "round") asked.options["last_node"] = {{"round", 1}};
  if (differs == "nothing") return judge_live(context, asked);
  report_words(problem_of(context.adapter(), kLiveRounds, asked.question(), [&](const json& result) {
    return each_live_row(asked, result, [&](const json& row, int, int) -> std::string {
      if (!row.contains("error")) return "it is not rejected";
      const std::string message = row["error"].at("message");
      const int last = asked.nodes - 1, round = differs == "round" ? 1 : 0;
      if (!has_peers(message, {other.peer(last, round)}) || !has_peers(message, other.senders(last, round)))
        return "the peers of the last node are not in '" + message + "'";
      for (int node = 0; node < last; ++node)
        if (has_peers(message, {asked.peer(node, 0)}) && has_peers(message, asked.senders(node, 0))) return {};
      return "the peers of another node are not in '" + message + "'";
    });
  }));
}

// Node 0 has one round. The others notice it in the second one, or in one after that.
void judge_stopped(Context& context, bool has_thread) {
  AskedLive asked = live_in(context);
  asked.rounds = asked.nodes + 2;
  constexpr double heartbeat = 0.5;
  asked.options.update({{"stops", {{"node", 0}, {"round", 1}}}, {"heartbeat", heartbeat}});
  if (has_thread) asked.options["thread"] = true;
  report_words(problem_of(context.adapter(), kLiveRounds, asked.question(), [&](const json& result) -> std::string {
    for (int node = 1; node < asked.nodes; ++node) {
      const json& rows = result.at("nodes").at(static_cast<std::size_t>(node)).at("rounds");
      const LiveState right = live_round(asked, live_start(asked), 0)[static_cast<std::size_t>(node)];
      if (std::string words = problem_of_state(asked, right, rows.at(0)); !words.empty()) return words;
      const json& last = rows.back();  // there is one: the row of round 0
      if (!last.contains("error")) return fmt::format("node {} does not notice", node);
      const auto round = static_cast<int>(rows.size()) - 1;
      const std::string message = last["error"].at("message");
      if (!(last["error"].at("seconds").get<double>() <= heartbeat + kSlack))
        return fmt::format("node {} waits {} s", node, last["error"]["seconds"].dump());
      if (has_thread) continue;
      std::string missing = missing_words(message, {std::to_string(round), std::to_string(asked.peer(node, round))});
      for (const int sender : asked.senders(node, round))
        if (missing.empty()) missing = missing_words(message, {std::to_string(sender)});
      if (!missing.empty()) return fmt::format("node {}: {} is not in '{}'", node, missing, message);
    }
    return {};
  }));
}
void live_heartbeat(Context& context) { judge_stopped(context, false); }
void live_thread_heartbeat(Context& context) { judge_stopped(context, true); }

// What cannot be, beside a question that is answered.
void live_rejected(Context& context) {
  const std::string& what = context.parameters().text("what");
  AskedLive asked = live_in(context);
  judge_live(context, asked);
  if (what == "own_peer") asked.book.back()[0] = asked.nodes - 1;
  if (what == "no_such_peer") asked.book.back()[0] = asked.nodes;
  if (what == "negative_round") asked.options["last_node"] = {{"round", -1}};
  report_words(problem_of_refusal_beside_answers(context.adapter(), kLiveRounds, asked.question()));
}

// ---- interruptions ----

AskedLive with_cut(const AskedLive& plain, int after) {
  AskedLive asked = plain;
  asked.options["cuts"] = {{{"node", asked.nodes - 1}, {"round", 1}, {"after", after}, {"tries", 1}}};
  return asked;
}

void live_interrupted(Context& context) {
  AskedLive asked = live_in(context);
  asked.numel = {3, 2};
  asked.dtypes = {"float64", "float32"};
  const AskedLive cut = with_cut(asked, 0);
  judge_same_bits(context, asked, cut, [&](const json& result) -> std::string {
    if (std::string words = problem_of_no_cut(cut, result, 1); !words.empty()) return words;
    const json& row = live_row(result, cut.nodes - 1, 1);
    if (row["cut"].at("w") != -1) return "the weight is " + row["cut"]["w"].dump() + " meanwhile";
    return row["cut"].at("new_round") == "state" ? "" : "a new round is " + row["cut"]["new_round"].dump();
  });
}

void live_other_group(Context& context) {
  AskedLive asked = live_in(context);
  const int after = static_cast<int>(context.parameters().number("after"));
  AskedLive cut = with_cut(asked, after);
  cut.options["other_group"] = true;
  if (context.parameters().text("confirmed") == "yes")  // a node may have sent all before a later attempt
    return judge_same_bits(context, asked, cut,
                           [&](const json& result) { return after > 0 ? "" : problem_of_no_cut(cut, result, 1); });
  cut.options["confirms"] = false;
  report_words(problem_of(context.adapter(), kLiveRounds, cut.question(), [&](const json& result) -> std::string {
    const json& row = live_row(result, cut.nodes - 1, 1);
    if (!row.contains("error")) return "the round is retried";
    return row["error"].at("kind") == "state" ? "" : "the retry is rejected as " + row["error"].dump();
  }));
}

// A system may mix a large tensor in pieces while they come: cut among them, some are mixed, and the retry is rejected.
// Where it does not, or the cut comes too late, the values are right.
void live_pieces_unconfirmed(Context& context) {
  AskedLive asked = live_in(context);
  const bool is_large = context.parameters().text("values") == "large";
  if (is_large) asked.numel = {80'000};
  asked.rounds = 1;
  asked.options.update({{"confirms", false}, {"heartbeat", 2}});
  AskedLive cut = asked;
  cut.options["cuts"] = {{{"node", asked.nodes - 1}, {"round", 0}, {"after", is_large ? 12 : 0}}};
  if (!is_large)
    return judge_same_bits(context, asked, cut, [&](const json& result) { return problem_of_no_cut(cut, result, 0); });
  report_words(problem_of(context.adapter(), kLiveRounds, cut.question(), [&](const json& result) -> std::string {
    const json& row = live_row(result, asked.nodes - 1, 0);
    if (!row.contains("error")) return problem_of_live_rounds(asked, result);
    return row["error"].at("kind") == "state" ? "" : "the retry is rejected as " + row["error"].dump();
  }));
}

// More than 64 KiB, cut before the first, or after some attempts to send, and retried there or elsewhere: every share
// arrives once.
void live_pieces_confirmed(Context& context) {
  AskedLive asked = live_in(context);
  asked.numel = {12'000};
  asked.rounds = 2;
  AskedLive cut = asked;
  cut.options["cuts"] = {{{"node", asked.nodes - 1}, {"round", 0}, {"after", context.parameters().number("after")}}};
  if (context.parameters().text("again") == "elsewhere") cut.options["other_group"] = true;
  judge_same_bits(context, asked, cut, [&](const json& result) {
    return context.parameters().number("after") > 0 ? "" : problem_of_no_cut(cut, result, 0);
  });
}

void live_comparison_interrupted(Context& context) {
  AskedLive asked = live_in(context);
  AskedLive cut = asked;
  cut.options["cuts"] = {{{"node", asked.nodes - 1}, {"round", 0}, {"comparison", true}}};
  if (context.parameters().text("again") == "elsewhere") cut.options["other_group"] = true;
  judge_same_bits(context, asked, cut, [&](const json& result) { return problem_of_no_cut(cut, result, 0); });
}

// ---- in place ----

// Whether nodes say that they have exchanged without messages, in the first rounds.
std::string problem_of_places(const AskedLive& asked, const json& result, bool in_place, int rounds) {
  return each_live_row(asked, result, [&](const json& row, int, int round) -> std::string {
    if (round >= rounds || row.at("in_place") == in_place) return {};
    return in_place ? "it is exchanged by messages" : "it is exchanged in place";
  });
}

// Rounds in which all nodes can exchange in place, and do, beside rounds by messages.
void judge_in_place(Context& context, const AskedLive& asked) {
  AskedLive met = asked;
  met.options["in_place"] = std::vector<bool>(static_cast<std::size_t>(asked.nodes), true);
  judge_same_bits(context, asked, met,
                  [&](const json& result) { return problem_of_places(met, result, true, met.rounds); });
}

void live_in_place(Context& context) {
  AskedLive asked = live_in(context);
  asked.dtypes = {context.parameters().text("dtype")};
  judge_in_place(context, asked);
}

void live_in_place_interrupted(Context& context) {
  AskedLive asked = live_in(context);
  AskedLive met = with_cut(asked, 0);
  met.options["in_place"] = std::vector<bool>(static_cast<std::size_t>(asked.nodes), true);
  met.options["other_group"] = true;
  judge_same_bits(context, asked, met, [&](const json& result) {
    const std::string words = problem_of_no_cut(met, result, 1);
    return words.empty() ? problem_of_places(met, result, true, 1) : words;
  });
}

void live_in_place_where_all_can(Context& context) {
  AskedLive asked = live_in(context);
  judge_in_place(context, asked);
  AskedLive met = asked;
  std::vector<bool> can(static_cast<std::size_t>(asked.nodes), true);
  can[static_cast<std::size_t>(context.parameters().number("lacks"))] = false;
  met.options["in_place"] = can;
  judge_same_bits(context, asked, met,
                  [&](const json& result) { return problem_of_places(met, result, false, met.rounds); });
}

// ---- beside the caller ----

void live_beside_the_caller(Context& context) {
  AskedLive asked = live_in(context);
  asked.rounds = 5;
  asked.options.update({{"thread", true}, {"evaluations", {2, 4}}});
  judge_live(context, asked, [&](const json& result) {
    return each_live_row(asked, result, [&](const json& row, int, int round) -> std::string {
      if (row.at("handed_over") != true) return "the round is not taken";
      if (row.at("handed_over_again") != false) return "a second round is taken before the first is collected";
      if ((round == 2 || round == 4) && row.at("handed_over_in_evaluation") != false)
        return "a round is taken in evaluation";
      return {};
    });
  });
}

void live_one_version(Context& context) {
  AskedLive asked = live_in(context);
  asked.options.update({{"thread", true}, {"added", 3}});
  judge_live(context, asked, {}, 3);
}

void live_thread_interrupted(Context& context) {
  AskedLive asked = live_in(context);
  asked.options["thread"] = true;
  judge_same_bits(context, asked, with_cut(asked, 0), [&](const json& result) -> std::string {
    const json& row = live_row(result, asked.nodes - 1, 1);
    return row.at("interruptions") == 1 ? "" : row["interruptions"].dump() + " interruptions are reported";
  });
}

constexpr int kAbandoned = 3;  // no peer of the last node has this number

// The last node's connection stays interrupted in a round. What its error and its attempts are is judged.
void judge_abandoned(Context& context, double heartbeat, json more,
                     const std::function<std::string(const AskedLive& asked, const json& row)>& judge) {
  AskedLive asked = live_in(context);
  more.update({{"node", asked.nodes - 1}, {"round", kAbandoned}, {"tries", 1'000'000}});
  asked.options.update({{"thread", true}, {"heartbeat", heartbeat}, {"cuts", {std::move(more)}}});
  report_words(problem_of(context.adapter(), kLiveRounds, asked.question(), [&](const json& result) -> std::string {
    AskedLive before = asked;
    before.rounds = kAbandoned;
    if (std::string words = problem_of_live_rounds(before, result); !words.empty()) return words;
    const json& row = live_row(result, asked.nodes - 1, kAbandoned);
    return row.contains("error") ? judge(asked, row) : "the round does not end with an error";
  }));
}

void live_abandoned(Context& context) {
  judge_abandoned(context, 0.5, json::object(), [](const AskedLive&, const json& row) -> std::string {
    const auto seconds = row["error"].at("seconds").get<double>();
    return seconds >= 0.45 && seconds <= 0.5 + kSlack ? "" : fmt::format("it is abandoned after {} s", seconds);
  });
}

// "" where the pauses between attempts are longer than the first, in the mean: one may be late on a busy machine.
std::string problem_of_pauses(const std::vector<double>& attempts) {
  if (attempts.size() < 3) return fmt::format("{} attempts", attempts.size());
  const double first = attempts[1] - attempts[0];
  const double later = (attempts.back() - attempts[1]) / static_cast<double>(attempts.size() - 2);
  return first > 0 && later > first ? "" : fmt::format("the attempts are at {} s", json(attempts).dump());
}

void live_pauses(Context& context) {
  const std::string cause = "the cable of port 17 is unplugged";
  judge_abandoned(context, 1.5, {{"cause", cause}}, [&](const AskedLive& asked, const json& row) -> std::string {
    if (std::string words = problem_of_pauses(row.at("attempts").get<std::vector<double>>()); !words.empty())
      return words;
    const int last = asked.nodes - 1;
    const std::string message = row["error"].at("message");
    if (!has_peers(message, {asked.peer(last, kAbandoned)}) && !has_peers(message, asked.senders(last, kAbandoned)))
      return "no peer is named in '" + message + "'";
    return message.find(cause) != message.npos ? "" : "the cause is not in '" + message + "'";
  });
}

void live_in_flight(Context& context) {
  AskedLive asked = live_in(context);
  asked.options.update({{"thread", true}, {"in_flight", true}});
  judge_live(context, asked, [&](const json& result) {
    return each_live_row(asked, result, [](const json& row, int, int) -> std::string {
      for (const char* what : {"weight", "round", "set_weight", "set_round"})
        if (row.at("in_flight").at(what) != "state")
          return fmt::format("{} in flight is {}", what, row["in_flight"][what].dump());
      return {};
    });
  });
}

}  // namespace

void add_live_round_checks(suite::Suite& suite) {
  const suite::Axis graph{"graph", {"ring", "hub"}}, mixing{"mixing", {"uniform", "skewed"}};
  const suite::Axis pairs{"graph", {"pairs"}};
  const auto add = [&](const char* name, const char* requirement, std::vector<suite::Axis> axes, void (*body)(Context&),
                       std::vector<AskedOption> options = {}, std::vector<std::string> nodes = {"3", "4"}) {
    axes.push_back({"nodes", std::move(nodes)});
    const bool has_mixing = std::ranges::find(axes, "mixing", &suite::Axis::name) != axes.end();
    options.push_back(has_mixing ? AskedOption{kLiveRounds, "mixing", {}, "mixing"}
                                 : AskedOption{kLiveRounds, "mixing", {"uniform"}});
    suite.add({.id = std::string("gossip.rounds.") + name,
               .verifies = {requirement},
               .door = Door::adapter,
               .axes = std::move(axes),
               .operations = {kLiveRounds},
               .options = options_of(std::move(options)),
               .body = body});
  };
  const auto fields = [](std::vector<std::string> names) {
    return AskedOption{kLiveRounds, "fields", std::move(names)};
  };
  const auto field_by = [](const char* parameter, const char* value, const char* name) {
    return AskedOption{kLiveRounds, "fields", {}, parameter, {{value, {name}}}};
  };
  const AskedOption elsewhere{kLiveRounds, "fields", {"other_group"}};
  add("shares", "GOSSIP-033@fcfc",
      {graph, mixing, {"tensors", {"one", "many", "empty"}}, {"sent", {"fused", "each"}}, {"confirmed", {"yes", "no"}}},
      live_shares, {field_by("sent", "fused", "fuse"), field_by("confirmed", "no", "confirms")});
  add("bytes", "GOSSIP-035@bae5", {graph, mixing}, live_bytes, {fields({"confirms"})});
  add("two_types", "GOSSIP-038@6008", {graph, mixing}, live_of_two_types);
  add("mismatch", "GOSSIP-040@3c50", {{"differs", {"nothing", "graph", "mixing", "round"}}}, live_mismatch,
      {{kLiveRounds,
        "fields",
        {},
        "differs",
        {{"graph", {"last_node"}}, {"mixing", {"last_node"}}, {"round", {"last_node"}}}}},
      {"4", "5"});
  add("interrupted", "GOSSIP-041@70ca", {graph, mixing}, live_interrupted, {fields({"cuts"})});
  add("other_group", "GOSSIP-042@2e01", {{"after", {"0", "1", "2"}}, {"confirmed", {"yes"}}, mixing}, live_other_group,
      {fields({"cuts"}), elsewhere});
  add("other_group_unconfirmed", "GOSSIP-042@2e01", {{"after", {"0"}}, {"confirmed", {"no"}}}, live_other_group,
      {fields({"cuts", "confirms"}), elsewhere});
  add("heartbeat", "GOSSIP-043@95ce", {}, live_heartbeat, {fields({"stops"})});
  add("beside_the_caller", "GOSSIP-044@a709", {graph, mixing}, live_beside_the_caller,
      {fields({"thread", "evaluations"})});
  add("one_version", "GOSSIP-045@403a", {graph, mixing}, live_one_version, {fields({"thread", "added"})});
  add("thread_interrupted", "GOSSIP-046@19e9", {graph, mixing}, live_thread_interrupted, {fields({"thread", "cuts"})});
  add("thread_heartbeat", "GOSSIP-047@47f5", {}, live_thread_heartbeat, {fields({"thread", "stops"})}, {"3"});
  add("abandoned", "GOSSIP-048@2187", {}, live_abandoned, {fields({"thread", "cuts"})}, {"3"});
  add("pauses", "GOSSIP-110@d1c6", {}, live_pauses, {fields({"thread", "cuts", "cuts.cause"})}, {"3"});
  add("in_any_order", "GOSSIP-111@71eb", {graph, mixing}, live_in_any_order, {fields({"late"})});
  add("rejected", "GOSSIP-115@f869", {{"what", {"own_peer", "no_such_peer", "negative_round"}}}, live_rejected,
      {field_by("what", "negative_round", "last_node")}, {"3"});
  add("in_flight", "GOSSIP-116@9321", {graph}, live_in_flight, {fields({"thread", "in_flight"})});
  add("pieces_unconfirmed", "GOSSIP-049@ad73", {{"values", {"small", "large"}}}, live_pieces_unconfirmed,
      {fields({"cuts", "confirms"})}, {"3"});
  add("pieces_confirmed", "GOSSIP-203@d1e3", {{"after", {"0", "3"}}, {"again", {"here", "elsewhere"}}},
      live_pieces_confirmed, {fields({"cuts"}), field_by("again", "elsewhere", "other_group")}, {"3"});
  add("comparison_interrupted", "GOSSIP-184@919d", {graph, {"again", {"here", "elsewhere"}}},
      live_comparison_interrupted,
      {fields({"cuts", "cuts.comparison"}), field_by("again", "elsewhere", "other_group")});
  add("in_place", "GOSSIP-200@e23b", {pairs, mixing, {"dtype", {"float16", "bfloat16", "float32", "float64"}}},
      live_in_place, {fields({"in_place"})}, {"2", "6"});
  add("in_place_interrupted", "GOSSIP-201@7efb", {pairs, mixing}, live_in_place_interrupted,
      {fields({"in_place", "cuts"}), elsewhere}, {"2", "6"});
  add("in_place_where_all_can", "GOSSIP-202@56c6", {pairs, mixing, {"lacks", {"0", "1"}}}, live_in_place_where_all_can,
      {fields({"in_place"})}, {"2", "6"});
}

}  // namespace plumbline::conformance
