// conformance/collectives/exercise.hpp: one call of an operation, with its data, its buffers and the answer it must
// give.
//
// Model   All ranks of a group make an Exercise of the same Trial, run it, and ask what was wrong. Buffers are guarded;
//         outputs begin as the complement of the right answer, so that no byte is right by chance. A rank whose output
//         an operation does not define (reduce and gather beside the root) expects it as it was.
//         Reductions are fed with exact numbers, copies with random bits (data.hpp).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "conformance/collectives/guarded_buffer.hpp"
#include "reference/comm/communicator.hpp"

namespace plumbline::conformance {

struct Trial {
  comm::Operation operation = comm::Operation::all_reduce;  // send: a ring shift, to the next rank from the previous
  std::optional<comm::DType> dtype = {};                    // where the check does not care: some_dtype()
  comm::ReduceOp op = comm::ReduceOp::sum;
  int root = 0;
  std::int64_t elements = 0;   // c of call.hpp
  bool in_place = false;       // where the operation has such a form on that rank
  std::int64_t in_offset = 0;  // elements past a boundary of 64 bytes
  std::int64_t out_offset = 0;
  std::uint64_t seed = 0;
  int tag = 0;           // of the shift
  bool special = false;  // copies: special_bits() instead of random ones
};

/// Makes one call, or the two of a ring shift, and returns when they are complete. A shift is made as the backend can:
/// as a batch, or one call after the other, in which the first member sends and all others receive first.
void run_calls(comm::Communicator& group, std::span<const comm::Call> calls);

/// A dtype that the backend claims: f32 where it does, otherwise one of 8 bytes or fewer where there is one.
[[nodiscard]] comm::DType some_dtype(const comm::Capabilities& capabilities);

class Exercise {
 public:
  Exercise(int rank, int ranks, const Trial& trial, comm::DType otherwise = comm::DType::f32, const Room& room = {});
  /// With its buffers in the room, where there is one.
  Exercise(const comm::Communicator& group, const Trial& trial, const Room& room = {})
      : Exercise(group.rank(), group.size(), trial, some_dtype(group.capabilities()), room) {}
  Exercise(Exercise&&) = default;  // memory stays where it is, so calls() stays valid
  Exercise(const Exercise&) = delete;

  /// The call; for a ring shift, the batch of its send and its receive.
  [[nodiscard]] const std::vector<comm::Call>& calls() const { return calls_; }
  /// run_calls() of them.
  void run(comm::Communicator& group) const;
  [[nodiscard]] comm::Work start(comm::Communicator& group) const { return group.start(calls_); }

  /// After the call: this rank itself writes other bytes where its input was, and those must stay. Not in place.
  void overwrite_input();
  /// Other data in the same buffers, for another call.
  void renew(std::uint64_t seed);

  // Each returns one line that names the call, or "" when there is nothing to say.
  /// What is wrong after the call: its result, its input, what lies outside.
  [[nodiscard]] std::string problem() const;
  /// What changed at all, where the call must not have happened. Not in place.
  [[nodiscard]] std::string touched() const;
  [[nodiscard]] std::string wrong_result() const;
  [[nodiscard]] std::string changed_input() const;
  [[nodiscard]] std::string damage() const;

  /// The bytes of the output, for comparisons between calls.
  [[nodiscard]] std::span<const std::byte> output() const;

 private:
  [[nodiscard]] std::string named(const std::string& problem) const;
  void prepare_data();
  void place_buffers(const Room& room);
  void fill_buffers();
  void make_calls();
  [[nodiscard]] bool writes_output() const;
  void begin(std::span<std::byte> output) const;
  [[nodiscard]] bool shares_a_buffer() const;

  int rank_;
  int ranks_;
  Trial trial_;
  comm::DType dtype_;
  std::vector<std::byte> given_;     // what this rank's input holds
  std::vector<std::byte> expected_;  // what its output must hold afterwards
  GuardedBuffer in_;                 // empty in place
  GuardedBuffer out_;                // in place: the larger of both buffers, which holds the smaller
  std::size_t in_at_ = 0;            // in place: where the input begins in out_
  std::size_t out_at_ = 0;           // where the output begins in out_
  std::vector<comm::Call> calls_;
};

/// Whether a rank's input, or its output, has a block for each rank.
[[nodiscard]] bool takes_all_blocks(comm::Operation operation);
[[nodiscard]] bool gives_all_blocks(comm::Operation operation);

/// The operations that an Exercise can make: all collectives with data, and send for the ring shift.
[[nodiscard]] const std::vector<comm::Operation>& exercised_operations();
/// Whether a group can make the shift: the backend claims messages, and a member alone does not block in its send.
[[nodiscard]] bool can_shift(const comm::Communicator& group);
/// The operations that a group can make.
[[nodiscard]] std::vector<comm::Operation> exercised_operations(const comm::Communicator& group);

/// 0, 1, n-1, n, n+1 and around vector widths: 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65.
[[nodiscard]] std::vector<std::int64_t> usual_lengths(int ranks);

}  // namespace plumbline::conformance
