// reference/comm/local/collectives.hpp: the collectives of one rank: it posts them, waits for the others', does its
// share.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "reference/comm/local/endpoint.hpp"
#include "reference/comm/local/posting.hpp"
#include "reference/comm/local/shape.hpp"
#include "reference/comm/local/wait.hpp"

namespace plumbline::comm::local {

/// A collective on memory of a device that is launched: where it is done.
struct Launched {
  Device device;
  std::shared_ptr<const DeviceCalls::Mark> done;
};

class Collectives {
 public:
  explicit Collectives(Endpoint& self);

  /// Posts the call and completes it, and all that were started before it.
  void run(const Call& call, Timeout timeout);
  /// A sum with factors, of which `products` is the plain sum.
  void run_scaled(const Call& call, const Call& products, Timeout timeout);
  void run(const UnevenCall& call, Timeout timeout);
  /// Posts the call and gives its number. `launched` gets what a device does for it, and lives until it is finished.
  std::uint64_t start(const Call& call, std::vector<Launched>& launched);
  /// Completes all up to `sequence`.
  void complete_until(std::uint64_t sequence, Deadline& deadline);
  [[nodiscard]] bool try_complete_until(std::uint64_t sequence);
  [[nodiscard]] bool are_finished_until(std::uint64_t sequence) const { return sequence <= consumed_; }
  [[nodiscard]] bool any_unfinished() const { return !pending_.empty(); }
  /// After the group has failed: none that was started is completed any more.
  void drop_unfinished() { pending_.clear(); }

 private:
  // A posted collective that this rank has not finished.
  struct Pending {
    Shape shape;
    std::byte* out;
    std::uint64_t sequence;
    bool is_inline;
    std::vector<Launched>* launched = nullptr;  // of one that was started
    bool joined = false;                        // all have arrived and this rank did its share
  };
  // What a rank does of a collective.
  struct Part {
    std::size_t length;  // in elements
    std::uint32_t blocks;
  };

  [[nodiscard]] Pending post(const Call& call, const Shape& shape, bool blocking);
  void complete_last(Pending& pending, Deadline& deadline);
  void post_payload(Slot& mine, std::size_t given);
  std::uint64_t tell(Operation uneven, std::span<const std::byte> mine, std::span<std::byte> all, Deadline& deadline);
  void complete(Pending& pending, Deadline& deadline);
  bool try_complete(Pending& pending);
  void await_arrivals(const Pending& pending, Deadline& deadline);
  void join(Pending& pending);
  void cut_into_parts();
  void work_on(int part);
  void help();
  void launch();
  void finish(const Pending& pending);
  void finish_launched(const Pending& pending);
  void advance();

  [[nodiscard]] Slot& slot(std::size_t member) const { return cursors_[member].slot(); }
  [[nodiscard]] bool arrived(std::size_t member, std::uint64_t sequence) const {
    return slot(member).sequence.load(std::memory_order_acquire) == sequence;
  }
  [[nodiscard]] bool all_arrived(const Pending& pending) const;
  [[nodiscard]] std::size_t elements_of_block() const {
    return std::max<std::size_t>(1, group_.options.block_bytes / size_of(shape_.dtype));
  }
  [[nodiscard]] bool is_done(std::size_t part) const {
    return slot(part).blocks_done.load(std::memory_order_acquire) == parts_[part].blocks;
  }
  [[nodiscard]] bool all_parts_done() const;

  // These throw where there is a reason.
  void watch(const Pending& pending);
  void compare_signatures(const Pending& pending);
  void time_out(const Pending& pending, const Deadline& deadline);
  void refuse_given_up(std::uint64_t sequence);
  [[nodiscard]] std::string describe_call(const Pending& pending) const;

  Endpoint& self_;
  LocalGroup& group_;
  PostingStream& stream_;
  std::vector<Cursor> cursors_;        // of this rank, in every member's stream: at the call to be finished next
  std::uint64_t consumed_ = 0;         // number of the last finished collective
  std::uint64_t consumed_by_all_ = 0;  // as the others' postings told
  std::deque<Pending> pending_;        // started, not finished, in order

  // The collective at hand, as all have posted it.
  Shape shape_{};
  bool streaming_ = false;
  std::vector<const std::byte*> in_;
  std::vector<std::byte*> out_;
  std::vector<Part> parts_;
};

}  // namespace plumbline::comm::local
