// gossip.rounds: live rounds of push-sum, with what goes wrong on the way, and rounds on a thread of their own.
#include "reference/gossip/detail/round_operations.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <iterator>
#include <optional>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "reference/adapter/arguments.hpp"
#include "reference/adapter/operations.hpp"
#include "reference/comm/errors.hpp"
#include "reference/comm/local.hpp"
#include "reference/gossip/gossip_thread.hpp"
#include "reference/gossip/push_sum.hpp"

namespace plumbline::adapter {

using comm::DType;
using nlohmann::json;

namespace {

constexpr int kMostGossiping = 16;
constexpr int kMostLiveRounds = 1000, kMostTries = 1'000'000;
constexpr double kLongestHeartbeat = 20;                           // seconds; less than a barrier waits
constexpr std::size_t kMostGossipedValues = std::size_t{1} << 20;  // of all nodes and rounds

// ---- questions ----

// Attempts of a node to send in a round that fail before anything is sent.
struct Cut {
  int node = 0, round = 0, after = 0, tries = 1;
  bool is_of_comparison = false;  // of graphs, and not of values
  std::string cause = "the connection was interrupted";
};
struct Stop {
  int node = 0, round = 0;
};

struct LiveRounds {
  std::vector<gossip::Graph> graphs;  // of each node
  std::vector<gossip::Mixing> mixings;
  std::int64_t last_round = 0;  // in which the last node begins
  std::vector<std::vector<TypedValues>> values;
  int rounds = 1;
  gossip::PushSumOptions options;
  std::vector<bool> in_place;  // of each node
  bool has_thread = false, is_late = false;
  bool is_queried = false;  // while rounds are in flight
  double added = 0;         // to each value after the hand-over
  std::vector<int> evaluations;
  std::vector<Cut> cuts;
  bool other_group = false;  // to which all move after an interruption
  std::optional<Stop> stop;
};

gossip::Graph graph_of(const Arguments& arguments, int nodes, int peers, bool is_regular) {
  const auto rows = arguments.get<std::vector<std::vector<int>>>("phone_book");
  if (rows.size() != static_cast<std::size_t>(nodes))
    arguments.refuse(fmt::format("phone_book has {} rows for {} nodes", rows.size(), nodes));
  return gossip::Graph(rows, peers, gossip::Convention::plumbline, is_regular);
}

gossip::Mixing mixing_of(const Arguments& arguments) {
  using gossip::MixingKind;
  return {.kind = arguments.choice<MixingKind>(
              "mixing", {{"uniform", MixingKind::uniform}, {"skewed", MixingKind::skewed}}, MixingKind::uniform)};
}

void read_values(const Arguments& arguments, int nodes, LiveRounds& all) {
  const auto dtypes = arguments.get<std::vector<std::string>>("dtypes", {"float64"});
  const auto values = arguments.get<std::vector<std::vector<std::vector<double>>>>("values");
  if (values.size() != static_cast<std::size_t>(nodes))
    arguments.refuse(fmt::format("values has {} entries for {} nodes", values.size(), nodes));
  for (const auto& tensors : values) {
    if (tensors.size() != dtypes.size())
      arguments.refuse(fmt::format("values has {} tensors of a node, dtypes {}", tensors.size(), dtypes.size()));
    auto& node = all.values.emplace_back();
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      const json named{{"dtype", dtypes[i]}};
      node.emplace_back(floating_dtype(Arguments("gossip.rounds", named), DType::f64), tensors[i]);
    }
  }
}

void read_faults(const Arguments& arguments, LiveRounds& all) {
  const int last = static_cast<int>(all.graphs.size()) - 1;
  for (const Arguments& one : arguments.get<std::vector<Arguments>>("cuts", {})) {
    Cut& cut = all.cuts.emplace_back();
    cut.node = static_cast<int>(one.integer_in("node", 0, last));
    cut.round = static_cast<int>(one.integer_in("round", 0, kMostLiveRounds));
    cut.is_of_comparison = one.get<bool>("comparison", false);
    cut.cause = one.get<std::string>("cause", cut.cause);
    if (one.has("after")) cut.after = static_cast<int>(one.integer_in("after", 0, kMostTries));
    if (one.has("tries")) cut.tries = static_cast<int>(one.integer_in("tries", 1, kMostTries));
  }
  all.other_group = arguments.get<bool>("other_group", false);
  if (const auto stop = arguments.find<Arguments>("stops"))
    all.stop = {static_cast<int>(stop->integer_in("node", 0, last)),
                static_cast<int>(stop->integer_in("round", 0, kMostLiveRounds))};
  const double heartbeat = arguments.get<double>("heartbeat", kLongestHeartbeat);
  if (!(heartbeat > 0 && heartbeat <= kLongestHeartbeat))
    arguments.refuse(fmt::format("heartbeat is {} s; it is above 0 and at most {}", heartbeat, kLongestHeartbeat));
  all.options.heartbeat = std::chrono::nanoseconds(std::llround(heartbeat * 1e9));
  all.is_late = arguments.get<bool>("late", false);
}

LiveRounds rounds_in(const Arguments& arguments) {
  LiveRounds all;
  const auto nodes = static_cast<int>(arguments.integer_in("world_size", 1, kMostGossiping));
  const int peers = arguments.get<int>("peers_per_itr", 1);
  const bool is_regular = arguments.get<bool>("regular", false);
  all.graphs.assign(static_cast<std::size_t>(nodes), graph_of(arguments, nodes, peers, is_regular));
  all.mixings.assign(static_cast<std::size_t>(nodes), mixing_of(arguments));
  if (const auto other = arguments.find<Arguments>("last_node")) {
    if (other->has("phone_book")) all.graphs.back() = graph_of(*other, nodes, peers, is_regular);
    if (other->has("mixing")) all.mixings.back() = mixing_of(*other);
    all.last_round = other->get<std::int64_t>("round", 0);
  }
  read_values(arguments, nodes, all);
  all.rounds = static_cast<int>(arguments.integer_in("rounds", 0, kMostLiveRounds));
  std::size_t elements = 0;
  for (const auto& node : all.values)
    for (const TypedValues& tensor : node) elements += std::max<std::size_t>(1, tensor.size());  // also empty ones
  if (elements * static_cast<std::size_t>(std::max(1, all.rounds)) > kMostGossipedValues)
    arguments.refuse(fmt::format("values has {} elements for {} rounds; all together {} at most", elements, all.rounds,
                                 kMostGossipedValues));
  all.options.fuse = arguments.get<bool>("fuse", false);
  all.options.confirms = arguments.get<bool>("confirms", true);
  all.in_place = arguments.get<std::vector<bool>>("in_place", std::vector<bool>(static_cast<std::size_t>(nodes)));
  if (all.in_place.size() != static_cast<std::size_t>(nodes))
    arguments.refuse(fmt::format("in_place has {} entries for {} nodes", all.in_place.size(), nodes));
  all.has_thread = arguments.get<bool>("thread", false);
  all.is_queried = arguments.get<bool>("in_flight", false);
  all.added = arguments.get<double>("added", 0);
  all.evaluations = arguments.get<std::vector<int>>("evaluations", {});
  all.options.lazy = !all.has_thread;
  read_faults(arguments, all);
  if (all.has_thread && all.other_group) throw Unsupported("gossip.rounds: a thread that goes over to another group");
  return all;
}

// ---- the node's group ----

// Counts what is sent, fails what is to be cut, and delays messages, of which later ones overtake earlier ones.
class GossipWire final : public comm::CommunicatorDecorator, private comm::PairExchanges {
 public:
  GossipWire(std::unique_ptr<comm::Communicator> inner, bool in_place, bool is_late)
      : CommunicatorDecorator(std::move(inner)), in_place_(in_place), is_late_(is_late) {}

  void begin(std::optional<Cut> cut) {
    cut_ = cut;
    attempts_made_ = 0;
    sent_ = late_ = 0;
    was_in_place_ = false;
    attempts_.clear();
  }
  [[nodiscard]] std::int64_t sent() const { return sent_; }
  [[nodiscard]] std::int64_t late() const { return late_; }
  [[nodiscard]] bool was_in_place() const { return was_in_place_; }
  [[nodiscard]] const std::vector<double>& attempts() const { return attempts_; }
  comm::PairExchanges* pair_exchanges() override {
    return in_place_ && inner().pair_exchanges() != nullptr ? this : nullptr;
  }

 private:
  // Before a call of the comparison of graphs, all of which wait at once, or before an exchange of values.
  void meet_cut(bool is_of_comparison) {
    if (!cut_ || cut_->is_of_comparison != is_of_comparison) return;
    const int attempt = attempts_made_++;
    if (attempt < cut_->after || attempt >= cut_->after + cut_->tries) return;
    const std::chrono::duration<double> now = std::chrono::steady_clock::now().time_since_epoch();
    attempts_.push_back(now.count());
    throw RuntimeFailure(cut_->cause);
  }
  // Posts sends the other way round, and receives where they stand.
  void overtake(std::vector<comm::Call>& calls) {
    const auto is_send = [](const comm::Call& call) { return call.operation == comm::Operation::send; };
    std::vector<comm::Call> sends;
    std::ranges::copy_if(calls, std::back_inserter(sends), is_send);
    if (!sends.empty()) late_ += std::ssize(sends) - 1;  // all but the one that is now the first
    for (comm::Call& call : calls)
      if (is_send(call)) {
        call = sends.back();
        sends.pop_back();
      }
  }
  [[nodiscard]] const comm::Communicator& of_group() const override { return *this; }
  comm::Work do_start(const comm::PairExchange& exchange) override {
    meet_cut(false);
    was_in_place_ = true;
    return inner().pair_exchanges()->start(exchange);
  }
  comm::Work do_start(std::span<const comm::Call> calls) override {
    meet_cut(false);
    std::vector<comm::Call> turned(calls.begin(), calls.end());
    for (const comm::Call& call : calls)
      if (call.operation == comm::Operation::send) sent_ += static_cast<std::int64_t>(call.in.bytes());
    if (is_late_) {
      std::this_thread::sleep_for(std::chrono::milliseconds((size() - rank()) % 3));
      overtake(turned);
    }
    return CommunicatorDecorator::do_start(turned);
  }
  void do_run(const comm::Call& call, comm::Timeout timeout) override {
    meet_cut(true);
    CommunicatorDecorator::do_run(call, timeout);
  }
  std::unique_ptr<comm::Communicator> decorate(std::unique_ptr<comm::Communicator> group) override { return group; }

  bool in_place_, is_late_;
  std::optional<Cut> cut_;
  int attempts_made_ = 0;
  std::int64_t sent_ = 0, late_ = 0;  // bytes, and messages that others overtook
  bool was_in_place_ = false;
  std::vector<double> attempts_;
};

json error_row(const Error& error, std::chrono::steady_clock::time_point begin) {
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  return {{"kind", error.kind()}, {"message", error.what()}, {"seconds", took.count()}};
}

// ---- a node ----

class LiveNode {
 public:
  LiveNode(const LiveRounds& all, comm::Communicator& world)
      : all_(all), me_(static_cast<std::size_t>(world.rank())), values_(all.values[me_]), x_(buffers_of(values_)) {
    auto wire = std::make_unique<GossipWire>(world.duplicate(), all.in_place[me_], all.is_late);
    second_ = world.duplicate();
    wire_ = wire.get();
    const bool is_last = me_ + 1 == all.graphs.size();
    if (all.has_thread) {
      thread_ = std::make_unique<gossip::GossipThread>(std::move(wire), all.graphs[me_], all.mixings[me_], all.options);
      if (is_last) thread_->set_round(all.last_round);
    } else {
      first_ = std::move(wire);
      push_sum_ = std::make_unique<gossip::PushSum>(*first_, all.graphs[me_], all.mixings[me_], all.options);
      if (is_last) push_sum_->set_round(all.last_round);
    }
  }

  // The rows of its rounds, up to one with an error.
  [[nodiscard]] json run() {
    json rows = json::array();
    for (int round = 0; round < all_.rounds; ++round) {
      if (all_.stop && all_.stop->node == static_cast<int>(me_) && all_.stop->round <= round) break;
      json& row = rows.emplace_back(json::object());
      const auto begin = std::chrono::steady_clock::now();
      wire_->begin(cut_in(round));
      if (push_sum_ && x_.size() == 1) row["predicted"] = push_sum_->bytes_per_round(x_[0].count, x_[0].dtype);
      try {
        thread_ ? round_beside(round, row) : round_here(row);
      } catch (const Error& error) {
        row["error"] = error_row(error, begin);
        break;
      }
      describe(row);
    }
    if (!thread_ && all_.other_group && !is_over_ && !all_.cuts.empty() && all_.options.confirms)
      push_sum_->retry(*second_, x_);  // which all nodes make
    return rows;
  }
  void close() {
    if (thread_) thread_->close();
  }

 private:
  [[nodiscard]] std::optional<Cut> cut_in(int round) const {
    for (const Cut& cut : all_.cuts)
      if (cut.node == static_cast<int>(me_) && cut.round == round) return cut;
    return std::nullopt;
  }
  void describe(json& row) {
    row["x"] = lists_of(values_);
    row["w"] = thread_ ? thread_->weight() : push_sum_->weight();
    row["sent"] = wire_->sent();
    row["in_place"] = wire_->was_in_place();
    if (all_.is_late) row["late"] = wire_->late();
  }
  void round_here(json& row) {
    const auto begin = std::chrono::steady_clock::now();
    try {
      push_sum_->mix(x_);
    } catch (const Error& error) {
      if (!push_sum_->is_interrupted() || all_.cuts.empty() || is_over_) throw;
      json& cut = row["cut"] = error_row(error, begin);
      cut["w"] = push_sum_->reported_weight();
      cut["new_round"] = kind_of([&] { push_sum_->mix(x_); });
      if (!all_.other_group) {
        push_sum_->retry(x_);
      } else {
        is_over_ = true;
        first_->abort("the nodes go over to another group");
        push_sum_->retry(*second_, x_);
      }
    }
  }
  void round_beside(int round, json& row) {
    row["handed_over"] = thread_->hand_over(x_);
    row["handed_over_again"] = thread_->hand_over(x_);
    if (all_.is_queried)
      row["in_flight"] = {{"weight", kind_of([&] { (void)thread_->weight(); })},
                          {"round", kind_of([&] { (void)thread_->round(); })},
                          {"set_weight", kind_of([&] { thread_->set_weight(1); })},
                          {"set_round", kind_of([&] { thread_->set_round(0); })}};
    for (TypedValues& tensor : values_)
      for (std::size_t i = 0; all_.added != 0 && i < tensor.size(); ++i) tensor.set(i, tensor.at(i) + all_.added);
    if (std::ranges::count(all_.evaluations, round) > 0) {
      thread_->turn_off(x_);
      row["handed_over_in_evaluation"] = thread_->hand_over(x_);
      thread_->turn_on();
      return;
    }
    int interruptions = 0;
    try {
      while (thread_->collect(x_, true) == gossip::GossipThread::Collected::interrupted) ++interruptions;
    } catch (const Error&) {
      note_attempts(row, interruptions);
      throw;
    }
    note_attempts(row, interruptions);
  }
  void note_attempts(json& row, int interruptions) {
    row["interruptions"] = interruptions;
    row["attempts"] = json::array();
    for (const double at : wire_->attempts()) row["attempts"].push_back(at - wire_->attempts().front());
  }
  static json kind_of(const std::function<void()>& call) {
    try {
      call();
    } catch (const Error& error) {
      return error.kind();
    }
    return nullptr;
  }

  const LiveRounds& all_;
  std::size_t me_;
  std::vector<TypedValues> values_;
  std::vector<comm::Buffer> x_;
  std::unique_ptr<comm::Communicator> first_, second_;
  GossipWire* wire_;  // first_, or the thread's
  std::unique_ptr<gossip::PushSum> push_sum_;
  std::unique_ptr<gossip::GossipThread> thread_;
  bool is_over_ = false;  // on the second group
};

json live_rounds(const Arguments& arguments) {
  const LiveRounds all = rounds_in(arguments);
  arguments.expect_no_others();
  std::vector<json> nodes(all.graphs.size());
  comm::run_ranks(static_cast<int>(nodes.size()), [&](comm::Communicator& world) {
    LiveNode node(all, world);
    nodes[static_cast<std::size_t>(world.rank())] = {{"rounds", node.run()}};
    world.barrier();  // nobody leaves while another one still waits for it
    node.close();
  });
  return {{"nodes", std::move(nodes)}};
}

}  // namespace

void add_round_operations(AdapterService& service) {
  service.add(
      {"gossip.rounds",
       "runs live rounds of push-sum, with interruptions, and on a thread beside the caller",
       {"plumbline"},
       {{"world_size", "integer", "number of nodes, 1 to 16"},
        {"phone_book", "list of list of integer [nodes]", "peer list of each node, taken cyclically"},
        {"peers_per_itr", "integer", "peers of a node in a round", "1"},
        {"regular", "boolean", "every node has equally many peers", "false"},
        {"mixing",
         "text",
         "rule of the mixing weights: uniform: a node keeps as much as each peer gets; skewed: node i keeps "
         "1 / (2 + i mod 3), and the j-th of its k peers of a round gets j / (1 + ... + k) of the rest",
         R"("uniform")",
         {"uniform", "skewed"}},
        {"dtypes", "list of text [tensors]", "element types: float16, bfloat16, float32 or float64", R"(["float64"])"},
        {"values", "list of list of list of number [nodes][tensors][elements]",
         "what each node begins with; their elements, with 1 for an empty tensor, times rounds are at most 2^20 "
         "together"},
        {"rounds", "integer", "number of rounds, at most 1000"},
        where_named({"fuse", "boolean", "all tensors of a type are one message", "false"}),
        where_named({"confirms", "boolean", "a node confirms what it has received", "true"}),
        where_named(
            {"in_place", "list of boolean [nodes]",
             "which nodes can exchange with a single peer without messages, as they do where all can; null: none",
             kOptional}),
        where_named({"thread", "boolean", "rounds are on a thread of their own", "false"}),
        where_named({"in_flight", "boolean",
                     "of thread: weight and round are queried and set while each round is in flight", "false"}),
        where_named({"added", "number",
                     "of thread: what the caller adds to each value between the hand-over and the collection", "0.0"}),
        where_named({"evaluations", "list of integer",
                     "of thread: rounds in which the caller enters evaluation in place of collecting, and leaves it",
                     "[]"}),
        where_named(with_fields(
            {"cuts", "list of object", "where connections are interrupted", "[]"},
            {{"node", "integer", "whose"},
             {"round", "integer", "in which round"},
             {"after", "integer", "attempts of it to communicate that succeed first", "0"},
             {"tries", "integer", "attempts that then fail, before anything is sent", "1"},
             where_named({"cause", "text", "message of the failure; null: any", kOptional}),
             where_named({"comparison", "boolean",
                          "attempts to compare graphs before the first round; else to send values", "false"})})),
        where_named({"other_group", "boolean",
                     "an interrupted round is retried over another group, to which all nodes move; else over the same",
                     "false"}),
        where_named(with_fields({"stops", "object", "a node that ends early", kOptional},
                                {{"node", "integer", "which"}, {"round", "integer", "the first that it lacks"}})),
        {"heartbeat", "number [s]", "longest wait for a peer, at most 20", "20.0"},
        where_named({"late", "boolean", "messages are late, and overtake each other", "false"}),
        where_named(with_fields({"last_node", "object", "what the last node has in place of the others'", kOptional},
                                {{"phone_book", "list of list of integer [nodes]", "peer lists", kOptional},
                                 {"mixing", "text", "rule of the mixing weights", kOptional},
                                 {"round", "long integer", "the round in which it begins", "0"}}))},
       {{"nodes",
         "list of object [nodes]",
         "what each node has",
         {{"rounds",
           "list of object",
           "after each round, up to one that ends with an error",
           {{"x", "list of list of number [tensors][elements]", "its values"},
            {"w", "number", "its push-sum weight"},
            {"sent", "long integer",
             "bytes of values, weights and confirmations that it sent in the round, without headers of messages"},
            {"in_place", "boolean", "of in_place: values were exchanged without messages"},
            {"late", "integer", "of late: messages of the node that later ones overtook"},
            {"predicted", "long integer", "bytes that it was to send, as said before the round; of one tensor"},
            {"cut", "object",
             "of an interrupted round, before the retry: w, kind, message, seconds, and new_round, the kind of error "
             "of a new round"},
            {"handed_over", "boolean", "of thread: the round was taken"},
            {"handed_over_again", "boolean", "of thread: a second one was, before the first was collected"},
            {"handed_over_in_evaluation", "boolean", "of evaluations: one was, in evaluation"},
            {"in_flight", "object",
             "of in_flight: kinds of error of weight, round, set_weight and set_round in flight; null: none"},
            {"interruptions", "integer", "of thread: how many were reported"},
            {"attempts", "list of number [s]", "of thread: attempts that failed, from the first on"},
            {"error", "object", "kind, message and seconds of the error that ends the node's run"}}}}}},
       R"({"world_size": 2, "phone_book": [[1], [0]], "regular": true, "rounds": 1, "values": [[[4]], [[8]]]})",
       {{"invalid_argument",
         "a list has another length than the nodes or tensors, a peer is no other node, a value is out of its range, "
         "or there "
         "are more than 2^20 values of all nodes and rounds"},
        {"out_of_range", "last_node.round is negative"},
        {"unsupported", "a combination of arguments that the system does not have"}}},
      live_rounds);
}

}  // namespace plumbline::adapter
