#include <new>
#include <utility>

#include "reference/adapter/protocol.hpp"

namespace plumbline::adapter {

void LineBuffer::append(std::string_view bytes) {
  while (!bytes.empty()) {
    const std::size_t newline = bytes.find('\n');
    extend(bytes.substr(0, newline));
    if (newline == std::string_view::npos) return;
    end_line();
    bytes.remove_prefix(newline + 1);
  }
}

void LineBuffer::extend(std::string_view piece) {
  if (partial_.dropped) return;
  try {
    if (piece.size() <= longest_ - partial_.text.size()) return void(partial_.text += piece);
  } catch (const std::bad_alloc&) {
  }
  std::string().swap(partial_.text);  // gives the memory back
  partial_.dropped = true;
}

void LineBuffer::end_line() { lines_.push_back(std::exchange(partial_, {})); }

std::optional<LineBuffer::Line> LineBuffer::take() {
  if (lines_.empty()) return std::nullopt;
  Line line = std::move(lines_.front());
  lines_.pop_front();
  return line;
}

std::optional<LineBuffer::Line> LineBuffer::take_rest() {
  if (partial_.text.empty() && !partial_.dropped) return std::nullopt;
  end_line();
  return take();
}

}  // namespace plumbline::adapter
