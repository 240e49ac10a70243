// reference/gossip/push_sum.hpp: nodes average their values by messages to a few peers a round.
//
// Model   Each node has a numerator x (the caller's tensors) and a weight w, 1 at first. A round of node i with shares
//         a (mixing.hpp): x_i becomes the sum over all j of a_ij x_j, w_i alike. The sums of all x and of all w stay
//         what they are, w stays above 0, and the estimate x / w goes to the mean.
// Turns   Push-pull has the same values. Over bipartite graphs its nodes take turns: the passive ones receive first and
//         then send, the others send first, so that blocking sends end; over others, where they never would, and in
//         push-sum, all messages of a round are under way at once.
// Lazy    Where weights cannot differ from 1 they do not travel; see mixing.hpp.
// Parts   mix() is prepare(), exchange() and absorb(); who overlaps a round with other work calls the parts, on all
//         nodes. prepare() leaves in x and w what the node keeps and says what is sent.
// Meeting Where two nodes meet only each other, mix() makes their round in place (comm::PairExchange), if the group's
//         members all said in the comparison before the first round that they can: no messages then, no confirmations,
//         and the same bits. Such a round is made by both nodes or by neither, so one that was cut is made anew, with
//         whichever means; over another group with `confirms` alone, as any round: see Failure.
// Failure An exchange that ends with an error is interrupted: what was to be sent is kept, x and w are what the node
//         keeps, and the weight says -1 in interrupted(). retry() sends the same values again without mixing anew. With
//         `confirms`, a node is done with a round only when all its peers have said that they have its values; then
//         over a new group retry() repeats exactly the messages that are missing, whichever nodes are a round ahead,
//         and mass is neither lost nor doubled. Large tensors are mixed piece by piece, and with confirmations none
//         before its peers have it: x is then what the node keeps but for pieces that are done, and retry() makes the
//         others. Without confirmations a node may be done while its peer is not: after an error over a group the job
//         cannot go on, and retry() over a new group throws StateError; so does any retry() of tensors that are mixed
//         piece by piece.
// Numbers Operations are of the tensors' type; halves are computed in float and rounded once. Convention fairscale: the
//         kept share multiplies first, sent values are x times share/kept, the kept share is that of the round before,
//         and weights are rounded to the tensors' type. plumbline: shares of this round, weights in double.
// Types   Tensors of several types travel as messages of their own, in one round; the weight goes with the first type.
//         As fairscale each type has a gossiper, and all turn one graph: each mix of one moves it on, and a gossiper
//         keeps the peers that it saw last, so the first of two types is in rounds 0, 1, 3, 5, …, the second in 0, 2,
//         4, …. Each sends the weight as well, to its own peers and in its own type; that of the last one counts, and
//         so does its share.
// Devices Tensors may be in a device's memory, over a group that takes it (or device::HostStaging around one that does
//         not): then all of a round is put into one stream, and the host waits for the other nodes' calls, never for
//         the device. Weights and confirmations are the host's: a peer that confirms has the values in the order of its
//         stream. Whole tensors are sent, and nothing is exchanged in place. The bits are those of the host. Messages'
//         memory there is kept (README.md, Memory).
// Threads One at a time. The group is the nodes' (one rank a node), and used by nobody else meanwhile.
// Errors  MismatchError when nodes have other graphs, mixings or rounds, before anything is sent, with both sides'
//         peers;
//         InvalidArgument; what the communicator throws, with round and peers.
// Sources Kempe, Dobra, Gehrke, Gossip-Based Computation of Aggregate Information (FOCS 2003); Assran et al. (2019);
//         FairScale's PushSum and PushPull, recorded.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "reference/comm/communicator.hpp"
#include "reference/comm/errors.hpp"
#include "reference/device/memory_space.hpp"
#include "reference/gossip/graph.hpp"
#include "reference/gossip/mixing.hpp"
#include "reference/gossip/mixing_kernel.hpp"
#include "reference/gossip/tensor_kernels.hpp"

namespace plumbline::gossip {

// ---- What decides the numbers of push-sum, as functions.
//
// Model   A value made without arguments has the right ones; push-sum with another one in place of one of them is wrong
//         in one known way, which is how the checks are tested.

struct PushSumSteps {
  std::function<Peers(const Graph& graph, int node, std::int64_t round)> peers =
      [](const Graph& graph, int node, std::int64_t round) { return graph.peers(node, round); };
  std::function<Shares(const Graph& graph, const Mixing& mixing, int node, std::int64_t round)> shares = shares_of;
  /// The share with which a value travels to the peer of that place in Peers::out, and its weight.
  std::function<double(const Shares& of_node, std::size_t peer)> sent = [](const Shares& of_node, std::size_t peer) {
    return of_node.sent[peer];
  };
  std::function<double(const Shares& of_node, std::size_t peer)> sent_weight =
      [](const Shares& of_node, std::size_t peer) { return of_node.sent[peer]; };
  /// The share with which the weight stays.
  std::function<double(const Shares& of_node)> kept_weight = [](const Shares& of_node) { return of_node.kept; };
  /// With which of so many types the weight travels that counts.
  std::function<std::size_t(bool as_fairscale, std::size_t types)> weight_lane =
      [](bool as_fairscale, std::size_t types) { return as_fairscale ? types - 1 : 0; };
  /// Whether the weight travels, given whether it can differ from 1.
  std::function<bool(bool can_differ)> carries_weight = [](bool can_differ) { return can_differ; };
  /// Whether values travel scaled by their peer's share.
  std::function<bool(bool fused)> scales = [](bool) { return true; };
  /// What tells messages of one round apart, given their kind: values are 0, weights 1, confirmations 2.
  std::function<int(int kind)> mark = [](int kind) { return kind; };
  /// Whether messages are waited for before they are added.
  std::function<bool()> waits = [] { return true; };
  /// Whether the two sides take turns in sending.
  std::function<bool(bool is_push_pull, const Graph& graph)> takes_turns = [](bool is_push_pull, const Graph& graph) {
    return is_push_pull && graph.is_bipartite();
  };
  /// What two nodes that meet make of their values.
  comm::PairUpdate meet = gossip::meet;
  /// Whether a round of two nodes may be made in place, given whether all nodes of the group can do so.
  std::function<bool(bool all_can)> meets = [](bool all_can) { return all_can; };
  /// Whether a retry multiplies by the kept share once more.
  std::function<bool()> retry_mixes = [] { return false; };
  /// The round that follows, given whether the graph turns and whether the round was repeated.
  std::function<std::int64_t(std::int64_t round, bool is_dynamic, bool was_interrupted)> next_round =
      [](std::int64_t round, bool is_dynamic, bool) { return is_dynamic ? round + 1 : round; };
  /// How long a message is waited for.
  std::function<std::chrono::nanoseconds(std::chrono::nanoseconds heartbeat)> patience =
      [](std::chrono::nanoseconds heartbeat) { return heartbeat; };
  /// Whether the heartbeat time of the gossip thread starts anew when a round that was cut is handed over again.
  std::function<bool()> renews_heartbeat = [] { return false; };
  /// The pause before a round that was cut is made again, given the one that is due.
  std::function<std::chrono::milliseconds(std::chrono::milliseconds due)> pause = [](std::chrono::milliseconds due) {
    return due;
  };
  /// Whether a round that was cut may be repeated, given whether some of its pieces are mixed.
  std::function<bool(bool is_torn)> may_repeat = [](bool is_torn) { return !is_torn; };
  /// Whether what comes is added up from nothing, given whether anything of the round has come, and whether it was cut.
  std::function<bool(bool has_come, bool was_interrupted)> sums_anew = [](bool has_come, bool) { return !has_come; };
  /// Whether a piece is mixed only when its peers have said that they have it.
  std::function<bool()> awaits_confirmation = [] { return true; };
  /// From which piece on a peer is sent to over another group, given how many it has.
  std::function<std::size_t(std::size_t has)> resumes_at = [](std::size_t has) { return has; };
  /// Whether the gossip thread takes values, given whether gossip is on.
  std::function<bool(bool is_on)> takes_values = [](bool is_on) { return is_on; };
  /// Of a gossip thread on a device: whether its stream waits for the caller's when values are handed over, and the
  /// caller's for it when they are collected.
  std::function<bool()> follows_the_caller = [] { return true; };
  std::function<bool()> leads_the_caller = [] { return true; };
  /// Throws where the group does not take the tensors' memory.
  std::function<void(std::string_view what, const comm::Communicator& group, const device::MemorySpace& place)>
      require_served = device::require_served;
  /// Whether values are copied before they are handed to the gossip thread.
  std::function<bool()> copies_on_hand_over = [] { return true; };
  /// Whether nodes compare their graphs and rounds.
  std::function<bool()> verifies = [] { return true; };
  /// Whether a comparison that was cut is made again.
  std::function<bool()> compares_again = [] { return true; };
};

/// Longest wait for a message of a peer.
inline constexpr std::chrono::seconds kHeartbeat{300};
/// What interrupted() exchanges have as weight.
inline constexpr double kInterruptedWeight = -1;

enum class Algorithm : std::uint8_t { push_sum, push_pull };

struct PushSumOptions {
  Algorithm algorithm = Algorithm::push_sum;
  std::chrono::nanoseconds heartbeat = kHeartbeat;
  /// Lazy mixing where it can be. Off where values change between prepare() and absorb(): what is added meanwhile would
  /// be multiplied by the share as well. The weight then travels, since it is not 1 in between.
  bool lazy = true;
  /// All tensors as one message to a peer, else a message each. The values are the same.
  bool fuse = false;
  /// See Failure. Costs a message of a byte back to each sender, of each piece of large tensors.
  bool confirms = true;
  /// Compares graph, mixing and round of all nodes before the first exchange.
  bool verifies = true;
  /// What works on tensors in a device's memory, and in which stream, which is the group's as well.
  device::DeviceUse device{};
  /// Whether a gossip thread exchanges such tensors in a stream of its own; else in that one.
  bool use_streams = true;
};

/// What was received in a round: of each tensor the messages' sum, on a device up to three terms of it, which absorb()
/// adds in one launch; and the sum of the weights. The values lie in the PushSum's memory until its next exchange.
struct Incoming {
  std::vector<Messages> values;
  double weight = 0;
};

/// "sends to [1] and receives from [2]".
[[nodiscard]] std::string words_of(const Peers& peers);

/// Of a round that did not come within the heartbeat time: `round` as PushSum::words_of_round() says it, `interruption`
/// the error of its last try, or "" where there was none.
[[nodiscard]] comm::TimeoutError late_round(const std::string& round, const std::string& interruption,
                                            std::chrono::nanoseconds heartbeat);

/// Memory of messages, which is kept from round to round.
class MessageMemory {
 public:
  /// What was taken before may be taken again.
  void rewind() { next_ = 0; }
  [[nodiscard]] comm::Buffer take(const device::MemorySpace& place, std::int64_t count, comm::DType dtype);

 private:
  std::vector<device::ScratchBuffer> rooms_;
  std::size_t next_ = 0;
};

class PushSum {
 public:
  /// Throws InvalidArgument when the group has another size than the graph has nodes.
  PushSum(comm::Communicator& group, Graph graph, Mixing mixing = {}, PushSumOptions options = {},
          PushSumSteps steps = {});
  ~PushSum();
  PushSum(const PushSum&) = delete;
  PushSum& operator=(const PushSum&) = delete;

  [[nodiscard]] const Graph& graph() const { return graph_; }
  /// The round that the next mix() makes. It goes up by one with each mix() of a dynamic graph; who shares one count of
  /// rounds among several sets it.
  [[nodiscard]] std::int64_t round() const { return round_; }
  void set_round(std::int64_t round);  // throws OutOfRange below 0
  /// That round in words, for messages: "round 3 of gossip over group world: node 1 sends to [2] and receives from
  /// [0]".
  [[nodiscard]] std::string words_of_round() const;
  /// w.
  [[nodiscard]] double weight() const { return weight_; }
  void set_weight(double weight) { weight_ = weight; }
  /// What x is multiplied with as the kept share of the next round.
  [[nodiscard]] double kept() const;
  /// Whether values travel unscaled, and whether with the weight.
  [[nodiscard]] bool is_lazy() const { return is_lazy_; }
  [[nodiscard]] bool carries_weight() const { return carries_weight_; }

  /// One round on x in place: tensors of floating types in one memory, the same in every round. Throws Unsupported for
  /// others, and for memory that the group does not take; InvalidArgument where they are in several memories, or their
  /// number, types or memory are not those of the rounds before; nothing has happened then.
  void mix(std::span<const comm::Buffer> x);
  void mix(comm::Buffer x) { mix(std::span(&x, 1)); }

  // The parts.
  /// Leaves in x and w what the node keeps. With `mixes` false x and w stay: what a retry of an interrupted round hands
  /// over.
  void prepare(std::span<const comm::Buffer> x, bool mixes = true);
  /// Sends what x is now to the peers of the round, receives theirs, and goes on to the next round. Does not write x,
  /// which must not change until it returns. After an error it may be called again: see retry().
  [[nodiscard]] Incoming exchange(std::span<const comm::Buffer> x);
  /// Adds to x and w what was received.
  void absorb(std::span<const comm::Buffer> x, const Incoming& incoming);

  /// Whether the last exchange ended with an error and was not repeated.
  [[nodiscard]] bool is_interrupted() const { return is_interrupted_; }
  /// The weight, or kInterruptedWeight.
  [[nodiscard]] double reported_weight() const { return is_interrupted_ ? kInterruptedWeight : weight_; }
  /// Repeats an interrupted round on the same x: where the error came before anything was sent.
  void retry(std::span<const comm::Buffer> x);
  void retry(comm::Buffer x) { retry(std::span(&x, 1)); }
  /// Goes over to another group of the same ranks, which all nodes must do, interrupted or not, and completes this
  /// node's round if it is interrupted. Throws StateError without `confirms`.
  void retry(comm::Communicator& group, std::span<const comm::Buffer> x);
  void retry(comm::Communicator& group, comm::Buffer x) { retry(group, std::span(&x, 1)); }
  /// The first half of that, for who calls the parts: exchange() then sends what is missing. Where the comparison
  /// before the first exchange was cut on any node, all nodes make it here.
  void reconnect(comm::Communicator& group);

  /// The stream in which tensors on a device are worked on from now on, in place of the options'. What was put into
  /// another one is ordered by the caller.
  void use_stream(device::Stream stream);

  /// Bytes that this node sends in a round of `elements` values.
  [[nodiscard]] std::int64_t bytes_per_round(std::int64_t elements, comm::DType dtype) const;

 private:
  // Where a piece of a large tensor waits: what came for it, by sender, and what is not sent from it itself.
  struct ScratchSlot {
    MessageMemory received, sent;
    std::vector<comm::Buffer> came;
  };
  // The tensors of one type, and the round that they are in.
  struct Lane {
    comm::DType dtype{};
    std::vector<std::size_t> tensors;
    std::int64_t round = 0;
    double kept_before = 1;  // the share of the round before
    double kept = 1;         // of the round that was exchanged last
    // Of a round under way, by the place among Peers::out; empty: nothing was done yet.
    std::vector<bool> has_sent;         // has the values
    std::vector<bool> awaits;           // has still to confirm them
    bool has_come = false;              // the values of all Peers::in
    bool tells = true;                  // they have still to be told so
    MessageMemory sent{}, received{};   // what is not sent from x; what came
    std::vector<ScratchSlot> places{};  // of pieces
  };
  // Whom the node deals with in a round, and how it shares.
  static constexpr std::int64_t kNoRound = std::numeric_limits<std::int64_t>::min();
  static constexpr int kNobody = -1;
  struct Plan {
    std::int64_t round = kNoRound;
    Peers peers;
    Shares shares;
    int met = kNobody;  // the peer, where the two meet only each other
  };
  struct Transfer;
  class Pieces;
  // Makes the lanes of the first round; later ones have the same types.
  void sort_into_lanes(std::span<const comm::Buffer> x);
  void require_same_types(std::span<const comm::Buffer> x) const;
  void verify();
  void compare();
  void judge(const std::vector<std::int64_t>& headers, const std::vector<std::int32_t>& lists);
  [[nodiscard]] const Plan& plan_of(std::int64_t round);
  [[nodiscard]] Shares shares_of_round(std::int64_t round) const;
  [[nodiscard]] bool is_fairscale() const;
  // The tensors with which the weight travels that counts.
  [[nodiscard]] const Lane& weight_lane() const;
  [[nodiscard]] double rounded(const Lane& lane, double weight) const;
  void make_round(std::span<const comm::Buffer> x, bool was_interrupted);
  [[nodiscard]] int met_in(const Peers& peers, std::int64_t round) const;
  [[nodiscard]] bool meets_one();
  void meet(std::span<const comm::Buffer> x, bool was_interrupted);
  void exchange_lanes(std::span<const comm::Buffer> x);
  void transfer(Lane& lane, std::span<const comm::Buffer> x);
  void make(std::span<const comm::Call> calls);
  // What a message is. Its tag says so, and of which round it is, so that messages may overtake each other.
  enum class Message : std::uint8_t { values, weight, confirmation };
  [[nodiscard]] int tag_of(Message message) const;
  void begin_transfer(Lane& lane);
  void take_parts(Lane& lane, std::span<const comm::Buffer> x);
  [[nodiscard]] double ratio_of(const Shares& shares, double sent) const;
  [[nodiscard]] double sent_ratio_of(const Shares& shares, std::size_t peer, bool fused) const;
  void add_sends(const Lane& lane, MessageMemory& memory);
  void absorb_lane(const Lane& lane, std::span<const comm::Buffer> x, const Incoming& incoming) const;
  void add_sent_weights(const Lane& lane);
  void add_receives(Lane& lane);
  void add_received_weights();
  void take_in(Lane& lane, std::span<const comm::Buffer> x);
  void confirm(const Lane& lane);
  void finish(Lane& lane, bool was_interrupted);
  void end_round(bool was_interrupted);
  void prepare_weight();
  void absorb_weight(double incoming);
  template <class Part>
  void naming_peers(const Lane& lane, const Part& part);
  [[nodiscard]] bool mixes_in_pieces(std::span<const comm::Buffer> x) const;
  void mix_in_pieces(std::span<const comm::Buffer> x);
  void go_on_in_pieces(bool was_interrupted);

  comm::Communicator* group_;
  Graph graph_;
  Mixing mixing_;
  PushSumOptions options_;
  PushSumSteps steps_;
  bool is_lazy_ = false, carries_weight_ = false;
  bool is_verified_ = false, is_interrupted_ = false;
  std::vector<std::int64_t> headers_;  // of the comparison of all nodes, where its first half is made
  bool is_torn_ = false;               // was interrupted where some pieces were mixed and others not
  bool is_untouched_ = false;          // was interrupted before anything was done
  bool all_meet_ = false;              // every member of the group has pair exchanges
  std::vector<comm::PairPart> meeting_;
  std::vector<Plan> plans_;  // of a period, or of one round
  bool plans_repeat_ = false;
  std::unique_ptr<Transfer> transfer_;
  std::vector<Lane> lanes_;
  std::unique_ptr<Pieces> pieces_;  // of a round under way
  std::size_t next_lane_ = 0;       // of the round under way
  Incoming incoming_;               // of it
  device::MemorySpace place_;       // of the tensors, from the first round on
  std::int64_t round_ = 0, exchanges_ = 0;
  std::int64_t first_round_ = 0;  // that was set, which nodes that are a round apart have in common
  double weight_ = 1;
};

/// Divides x, in the host's memory, by w: the estimate. multiply() takes it back. Both throw InvalidArgument for other
/// memory.
void divide(std::span<const comm::Buffer> x, double weight);
void multiply(std::span<const comm::Buffer> x, double weight);

}  // namespace plumbline::gossip
