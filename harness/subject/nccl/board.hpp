// harness/subject/nccl/board.hpp: what the ranks of a job tell each other beside NCCL.
//
// Model   NCCL does not say who is missing, cannot end a call on other ranks, knows no tags, and leaves it to its users
//         to bring a unique id from one rank to the others. All that goes over memory that the processes share: files
//         in the folder of the job, zero where nobody wrote yet. So all ranks are on one host.
//         A member of a group writes its own seat; all read.
//         Of messages, a pair of processes has two queues for each direction: what is to be sent, and what of it is
//         taken.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "harness/subject/nccl/declarations.hpp"

namespace plumbline::subject::nccl {

/// A file that processes have mapped. Its length is the same for all.
class SharedFile {
 public:
  /// Throws RuntimeFailure.
  SharedFile(std::filesystem::path file, std::size_t bytes);
  ~SharedFile();
  SharedFile(const SharedFile&) = delete;
  SharedFile& operator=(const SharedFile&) = delete;
  [[nodiscard]] void* data() const { return data_; }
  /// Takes its name away: whoever has it mapped keeps it.
  void remove() noexcept;

 private:
  std::filesystem::path file_;
  std::size_t bytes_;
  void* data_;
};

/// A unique id on its way from the rank that made it.
struct PostedId {
  std::atomic<std::uint32_t> is_there;
  UniqueId id;

  void post(const UniqueId& made) {
    id = made;
    is_there.store(1, std::memory_order_release);
  }
  [[nodiscard]] std::optional<UniqueId> look() const {
    if (is_there.load(std::memory_order_acquire) == 0) return std::nullopt;
    return id;
  }
};

/// How a member stands to its group. The words are written before a status that has some.
enum class Status : std::uint32_t { not_come, member, left, timed_out, failed, aborted };

struct alignas(64) Seat {
  std::atomic<Status> status;
  std::atomic<std::uint32_t> is_connected;  // it has made the group
  std::atomic<std::uint64_t> calls;         // collectives that this member has made
  std::array<char, 424> words;
};

struct GroupHeader {
  alignas(64) PostedId id;
};

/// The seats of a group's members.
class GroupBoard {
 public:
  GroupBoard(const std::filesystem::path& folder, std::uint64_t group, int members);

  [[nodiscard]] PostedId& id() const { return header().id; }
  [[nodiscard]] Seat& seat(int member) const { return seats()[member]; }
  /// The words of a member that has aborted the group; null where none has.
  [[nodiscard]] const char* abort_words() const noexcept;
  /// Takes the member's seat from `member` to another status, once. Returns whether it was this call that did.
  bool leave(int member, Status status, const std::string& words) const noexcept;
  void remove() noexcept { file_.remove(); }

 private:
  [[nodiscard]] GroupHeader& header() const { return *static_cast<GroupHeader*>(file_.data()); }
  [[nodiscard]] Seat* seats() const {
    return reinterpret_cast<Seat*>(static_cast<std::byte*>(file_.data()) + sizeof(GroupHeader));
  }

  SharedFile file_;
  int members_;
};

/// The board of a group, and those of the groups that it was made from: an abort of one of these ends it, too.
using Lineage = std::vector<std::shared_ptr<const GroupBoard>>;
/// The words of the first abort; null where there is none. Nothing more of an aborted group is put into NCCL.
[[nodiscard]] const char* abort_words(const Lineage& lineage) noexcept;

/// From one process to one other.
template <class Entry>
class Queue {
 public:
  [[nodiscard]] bool push(const Entry& entry) {
    const std::uint64_t end = written_.load(std::memory_order_relaxed);
    if (end - read_.load(std::memory_order_acquire) == kRoom) return false;
    slots_[end % kRoom] = entry;
    written_.store(end + 1, std::memory_order_release);
    return true;
  }
  [[nodiscard]] std::optional<Entry> pop() {
    const std::uint64_t begin = read_.load(std::memory_order_relaxed);
    if (begin == written_.load(std::memory_order_acquire)) return std::nullopt;
    const Entry entry = slots_[begin % kRoom];
    read_.store(begin + 1, std::memory_order_release);
    return entry;
  }

 private:
  static constexpr std::uint64_t kRoom = 128;
  alignas(64) std::atomic<std::uint64_t> written_;
  alignas(64) std::atomic<std::uint64_t> read_;
  std::array<Entry, kRoom> slots_;
};

/// A message that waits to be sent, the n-th of its direction by its place in the queue.
struct Offer {
  std::uint64_t group;
  std::int64_t count;  // elements
  std::int32_t dtype;
  std::int32_t tag;
};

/// What goes between two processes in one direction.
struct Direction {
  alignas(64) PostedId id;                // from the sender, for the communicator of this direction
  std::atomic<std::uint32_t> has_failed;  // for one of the two: then for both
  Queue<Offer> offers;                    // to the receiver
  Queue<std::uint64_t> taken;  // to the sender: numbers of offers, in the order in which NCCL is to carry them
};

/// What the processes of a job share, whatever groups they make.
class JobBoard {
 public:
  JobBoard(const std::filesystem::path& folder, int processes);
  [[nodiscard]] Direction& direction(int from, int to) const {
    return static_cast<Direction*>(file_.data())[from * processes_ + to];
  }

 private:
  int processes_;
  SharedFile file_;
};

}  // namespace plumbline::subject::nccl
