// reference/gossip/push_sum.hpp: nodes average their values by messages to a few peers a round.
//
// Model   Each node has a numerator x (the caller's tensors) and a weight w, 1 at first. A round of node i with shares
//         a (mixing.hpp): x_i becomes the sum over all j of a_ij x_j, and w_i the sum of a_ij w_j. The sums of all x
//         and of all w stay what they are, w stays above 0, and the estimate x / w goes to the mean.
// Turns   Push-pull has the same values. Over bipartite graphs its nodes take turns: the passive ones receive first and
//         then send, the others send first, so that blocking sends end; over others, where they never would, and in
//         push-sum, all messages of a round are under way at once.
// Lazy    Where weights cannot differ from 1 they do not travel; see mixing.hpp.
// Parts   mix() is prepare(), exchange() and absorb(); who overlaps a round with other work calls the parts, on all
//         nodes. prepare() leaves in x and w what the node keeps.
// Meeting Where two nodes meet only each other, mix() makes their round in place (comm::PairExchange), if the group's
//         members all said in the comparison before the first round that they can: no messages then, no confirmations,
//         and the same bits. Such a round is made by both nodes or by neither, so one that was cut is made again, with
//         whichever means; over another group with `confirms` alone, as any round: see Failure.
// Failure An exchange that ends with an error is interrupted: what was to be sent is kept, x and w are what the node
//         keeps, and reported_weight() is -1. retry() sends the same values again, without mixing them. With
//         `confirms`, a node is done with a round only when all its peers have said that they have its values; then
//         over a new group retry() repeats exactly the messages that are missing, whichever nodes are a round ahead,
//         and mass is neither lost nor doubled. Large tensors are mixed piece by piece, and with confirmations none
//         before its peers have it: x is then what the node keeps but for pieces that are done, and retry() makes the
//         others. Without confirmations a node may be done while its peer is not: after an error over a group the job
//         cannot continue, and retry() over a new group throws StateError; so does any retry() of tensors that are
//         mixed piece by piece.
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
// Threads One at a time. The group is the nodes' (one rank a node), and not used for anything else meanwhile.
// Errors  MismatchError when nodes have other graphs, mixings or rounds, before anything is sent, with both sides'
//         peers;
//         InvalidArgument; what the communicator throws, with round and peers.
// Sources Kempe, Dobra, Gehrke, Gossip-Based Computation of Aggregate Information (FOCS 2003); Assran et al. (2019);
//         FairScale's PushSum and PushPull, recorded.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "reference/comm/communicator.hpp"
#include "reference/comm/errors.hpp"
#include "reference/device/memory_space.hpp"
#include "reference/gossip/graph.hpp"
#include "reference/gossip/mixing.hpp"
#include "reference/gossip/mixing_kernel.hpp"

namespace plumbline::gossip {

/// Longest wait for a message of a peer.
inline constexpr std::chrono::seconds kHeartbeat{300};
/// The reported_weight() of an interrupted round.
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

/// Of a round that did not come within the heartbeat time: `round` as PushSum::words_of_round() says it, `interruption`
/// the error of its last try, or "" where there was none.
[[nodiscard]] comm::TimeoutError late_round(const std::string& round, const std::string& interruption,
                                            std::chrono::nanoseconds heartbeat);

class Agreement;
class PiecewiseRound;
struct RoundMessages;
struct RoundState;
struct TypeBucket;

class PushSum {
 public:
  /// Throws InvalidArgument when the group has another size than the graph has nodes.
  PushSum(comm::Communicator& group, Graph graph, Mixing mixing = {}, PushSumOptions options = {});
  ~PushSum();
  PushSum(const PushSum&) = delete;
  PushSum& operator=(const PushSum&) = delete;

  [[nodiscard]] const Graph& graph() const;
  /// The round that the next mix() makes. It goes up by one with each mix() of a dynamic graph; who shares one count of
  /// rounds among several sets it.
  [[nodiscard]] std::int64_t round() const { return round_; }
  void set_round(std::int64_t round);  // throws OutOfRange below 0
  /// That round in words, for messages: "round 3 of gossip over group world: node 1 sends to [2] and receives from
  /// [0]".
  [[nodiscard]] std::string words_of_round() const;
  /// w.
  [[nodiscard]] double weight() const;
  void set_weight(double weight);
  /// What x is multiplied with as the kept share of the next round.
  [[nodiscard]] double kept() const;
  /// Whether values travel with the weight.
  [[nodiscard]] bool carries_weight() const;

  /// One round on x in place: tensors of floating types in one memory, the same in every round. Throws Unsupported for
  /// others, and for memory that the group does not take; InvalidArgument where they are in several memories, or their
  /// number, types or memory are not those of the rounds before; nothing has happened then.
  void mix(std::span<const comm::Buffer> x);
  void mix(comm::Buffer x) { mix(std::span(&x, 1)); }

  // The parts.
  /// Leaves in x and w what the node keeps.
  void prepare(std::span<const comm::Buffer> x);
  /// Sends what x is now to the peers of the round, receives theirs, and continues with the next round. Does not write
  /// x, which must not change until it returns. After an error it may be called again: see retry().
  [[nodiscard]] Incoming exchange(std::span<const comm::Buffer> x);
  /// Adds to x and w what was received.
  void absorb(std::span<const comm::Buffer> x, const Incoming& incoming);

  /// Whether the last exchange ended with an error and was not repeated.
  [[nodiscard]] bool is_interrupted() const { return phase_ != Phase::idle; }
  /// The weight, or kInterruptedWeight.
  [[nodiscard]] double reported_weight() const { return is_interrupted() ? kInterruptedWeight : weight(); }
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
  // Of the round that is under way, or that an error has cut.
  enum class Phase : std::uint8_t {
    idle,        // no round is under way
    begun,       // nothing is sent or mixed: it can be made from its beginning
    exchanging,  // what the node keeps is in x; the exchange can continue where it was
    torn,        // some pieces are mixed, and which ones its peers have is unknown
  };
  // What a node says of itself when all go over to another group, as it is sent.
  struct NodeAt {
    std::int64_t exchanges;    // that it is done with
    std::int64_t pieces;       // that it has of the next one
    std::int64_t can_meet;     // 1 or 0: may make the next one in place
    std::int64_t is_compared;  // 1 or 0: with all others
  };

  void sort_by_type(std::span<const comm::Buffer> x);
  void require_same_types(std::span<const comm::Buffer> x) const;
  void agree();
  void make_round(std::span<const comm::Buffer> x);
  [[nodiscard]] bool meets_one() const;
  void meet(std::span<const comm::Buffer> x);
  [[nodiscard]] bool mixes_in_pieces(std::span<const comm::Buffer> x) const;
  void mix_in_pieces(std::span<const comm::Buffer> x);
  void go_on_in_pieces();
  void exchange_all(std::span<const comm::Buffer> x);
  void prepare_weight();
  void absorb_weight(double incoming);
  void end_round_of(TypeBucket& bucket);
  void end_round();
  void turn();
  template <class Part>
  void naming_peers(std::int64_t round, const Part& part);
  [[nodiscard]] bool can_exchange_in_place() const;  // with a peer that can, too
  [[nodiscard]] std::int64_t pieces_here() const;
  [[nodiscard]] std::vector<NodeAt> gathered(const NodeAt& own);
  void send_what_is_missing(const std::vector<NodeAt>& nodes);

  std::unique_ptr<RoundState> state_;
  std::unique_ptr<Agreement> agreement_;
  std::unique_ptr<RoundMessages> messages_;
  std::unique_ptr<PiecewiseRound> pieces_;  // of a round under way
  std::vector<comm::PairPart> meeting_;     // kept for its memory
  Phase phase_ = Phase::idle;
  std::size_t next_bucket_ = 0;  // of the round under way
  Incoming incoming_;            // of it
  std::int64_t round_ = 0;
  std::int64_t first_round_ = 0;  // that was set, which nodes that are a round apart have in common
};

/// Divides x, in the host's memory, by w: the estimate. multiply() takes it back. Both throw InvalidArgument for other
/// memory.
void divide(std::span<const comm::Buffer> x, double weight);
void multiply(std::span<const comm::Buffer> x, double weight);

}  // namespace plumbline::gossip
