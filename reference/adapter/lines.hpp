// reference/adapter/lines.hpp: bytes from a pipe, cut into lines of bounded length.
#pragma once

#include <cstddef>
#include <deque>
#include <optional>
#include <string>
#include <string_view>

namespace plumbline::adapter {

/// Collects bytes and hands out the lines. A line that is too long, or that finds no memory, is dropped while
/// it comes in: it is handed out without its text, and the lines after it come as usual.
class LineBuffer {
 public:
  struct Line {
    std::string text;  // without the newline; empty when dropped
    bool dropped = false;
  };

  /// `longest` is the number of bytes that a line may have, its newline not counted.
  explicit LineBuffer(std::size_t longest) : longest_(longest) {}

  void append(std::string_view bytes);
  /// The next complete line, or nothing.
  [[nodiscard]] std::optional<Line> take();
  /// At the end of input: the line that no newline ended, or nothing.
  [[nodiscard]] std::optional<Line> take_rest();
  /// Whether the line that comes in now is being dropped.
  [[nodiscard]] bool is_dropping() const { return partial_.dropped; }

 private:
  void extend(std::string_view piece);
  void end_line();

  std::size_t longest_;
  std::deque<Line> lines_;
  Line partial_;
};

}  // namespace plumbline::adapter
