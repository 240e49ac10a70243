// harness/modes/posting_board.hpp: how many receives of each kind the ranks of a case have posted, in a file that all
// map.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>

namespace plumbline::modes {

/// Counts by key. Any number of processes and threads may count at once; nothing blocks.
class PostingBoard {
 public:
  /// Opens the file, or makes it. Throws RuntimeFailure.
  explicit PostingBoard(const std::filesystem::path& file);
  ~PostingBoard();
  PostingBoard(const PostingBoard&) = delete;
  PostingBoard& operator=(const PostingBoard&) = delete;

  /// The messages of one group from one member to another under one tag: they meet in order.
  [[nodiscard]] static std::uint64_t key(std::uint64_t group, int from, int to, int tag);
  /// One more receive is posted. Throws RuntimeFailure when there are more kinds of messages than the board holds.
  void post(std::uint64_t key) { entry(key).fetch_add(1, std::memory_order_release); }
  /// One less: the receive was refused.
  void take_back(std::uint64_t key) { entry(key).fetch_sub(1, std::memory_order_release); }
  [[nodiscard]] std::uint64_t posted(std::uint64_t key) { return entry(key).load(std::memory_order_acquire); }

 private:
  struct Slot {
    std::atomic<std::uint64_t> key;  // 0: free
    std::atomic<std::uint64_t> count;
  };
  static constexpr std::size_t kSlots = std::size_t{1} << 13;  // 128 KiB
  std::atomic<std::uint64_t>& entry(std::uint64_t key);
  Slot* slots_ = nullptr;
};

}  // namespace plumbline::modes
