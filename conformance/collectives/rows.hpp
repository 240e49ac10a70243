// conformance/collectives/rows.hpp: an Exercise whose buffers lie in rows with gaps between them.
//
// Model   Input and output are views of one memory. All of it that is in neither must stay, and so must the input. The
//         data and the right answer are those of the Exercise, whose own buffers have no gaps.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "conformance/collectives/exercise.hpp"

namespace plumbline::conformance {

/// A view: `count` elements in rows, the first of them at element `first` of the memory.
struct Placed {
  std::int64_t first = 0;
  comm::Rows rows{};
  std::int64_t count = 0;

  /// Where element `index` of it is in the memory.
  [[nodiscard]] std::int64_t at(std::int64_t index) const;
  /// Where its last element ends.
  [[nodiscard]] std::int64_t end() const { return count == 0 ? first : at(count - 1) + 1; }
};

struct Views {
  Placed in, out;
};
/// One after the other, with elements of neither between them.
[[nodiscard]] Views apart(comm::Rows in, std::int64_t in_count, comm::Rows out, std::int64_t out_count);
/// The output's rows in the gaps of the input's.
[[nodiscard]] Views interleaved(std::int64_t columns, std::int64_t in_count, std::int64_t out_count);
/// The smaller view is the block of `rank` in the larger, whose blocks are whole rows.
[[nodiscard]] Views views_in_place(comm::Rows rows, std::int64_t in_count, std::int64_t out_count, int rank);

class RowsExercise {
 public:
  /// Of call `index` of the exercise, whose results it puts back there. The exercise must stay.
  RowsExercise(const Exercise& exercise, const Views& views, int rank, std::size_t index = 0);
  RowsExercise(RowsExercise&&) = default;
  RowsExercise(const RowsExercise&) = delete;

  [[nodiscard]] const comm::StridedCall& call() const { return call_; }
  void run(comm::Communicator& group);
  /// After run(): what was changed that is not in the output, in one line; "" when nothing.
  [[nodiscard]] std::string problem() const;

 private:
  void put(const Placed& view, const void* packed);
  void get(const Placed& view, void* packed) const;

  const comm::Call packed_;
  const Views views_;
  const bool uses_in_;
  const bool uses_out_;
  std::size_t width_;  // bytes of an element
  GuardedBuffer memory_;
  std::vector<std::byte> before_;
  comm::StridedCall call_;
  std::string name_;
};

}  // namespace plumbline::conformance
