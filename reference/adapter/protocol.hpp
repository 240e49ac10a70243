// reference/adapter/protocol.hpp: the adapter protocol's text, shared by who asks and who answers.
//
// Model   One JSON object a line. A request is {"id", "op", "args"}, a reply {"id", "result"} or
//         {"id", "error": {"kind", "message"}}.
// Numbers Floats are written as the shortest decimals that read back as the same double, whole ones with
//         ".0"; those that are not finite as the strings "inf", "-inf", "nan".
#pragma once

#include <array>
#include <cstddef>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <nlohmann/json.hpp>

namespace plumbline::adapter {

inline constexpr int kAdapterProtocol = 1;
/// Bytes of a line, without its newline.
inline constexpr std::size_t kLongestLine = std::size_t{64} << 20;
/// Deepest nesting of lists and objects.
inline constexpr std::size_t kDeepestNesting = 100;
inline constexpr std::array<std::string_view, 6> kErrorKinds{"invalid_argument", "out_of_range", "not_found",
                                                             "unsupported",      "state",        "failed"};

/// A value that may be large. The library's destructor allocates, and ends the process where it cannot; here
/// the value is taken apart without memory.
class Document {
 public:
  explicit Document(nlohmann::json value) noexcept : value_(std::move(value)) {}
  ~Document();
  Document(Document&&) noexcept = default;
  Document& operator=(Document&&) = delete;
  [[nodiscard]] const nlohmann::json& operator*() const { return value_; }
  [[nodiscard]] nlohmann::json& operator*() { return value_; }
  [[nodiscard]] const nlohmann::json* operator->() const { return &value_; }

 private:
  nlohmann::json value_;
};

/// The value that a line holds. Throws InvalidArgument: not JSON, not UTF-8, nested too deep, a key twice in
/// an object, a number that no double holds. The message says where, and quotes no more than a few bytes.
[[nodiscard]] Document decode(std::string_view line);

/// The value as one line of JSON without its newline. Bytes that are no UTF-8 become U+FFFD.
[[nodiscard]] std::string encode(const nlohmann::json& value);

/// Lines without their newline. A request throws InvalidArgument when it is longer than a line may be.
[[nodiscard]] std::string request_line(const nlohmann::json& id, const std::string& op, const nlohmann::json& args);
[[nodiscard]] std::string result_line(const nlohmann::json& id, const nlohmann::json& result);
[[nodiscard]] std::string error_line(const nlohmann::json& id, std::string_view kind, std::string_view message);

/// The text on one line of UTF-8, for a message: control characters become blanks, other bytes U+FFFD.
[[nodiscard]] std::string printable(std::string_view text);
/// "'text'" for a message, printable, cut after `enough` bytes.
[[nodiscard]] std::string excerpt(std::string_view text, std::size_t enough = 60);
/// What a value is, for a message: "3.5", "'abc'", "null", "a list of 2", "an object".
[[nodiscard]] std::string describe(const nlohmann::json& value);

// ---- Bytes from a pipe, cut into lines of bounded length.

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
