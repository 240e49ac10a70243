#include "harness/subject/plugin/reply.hpp"

#include <algorithm>
#include <span>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "reference/comm/errors.hpp"

namespace plumbline::subject::plugin {

std::string one_line(std::string words) {
  std::ranges::replace_if(words, [](char c) { return static_cast<unsigned char>(c) < ' '; }, ' ');
  words.erase(words.find_last_not_of(' ') + 1);
  return words;
}

std::string Reply::words(const char* by_default) {
  message_[kMessage - 1] = '\0';
  const std::string message = one_line(message_);
  return message.empty() ? by_default : message;
}

std::string Reply::missing() const {
  const int count = std::clamp(error_.missing_count, 0, kMostRanks);
  if (count == 0) return {};
  return fmt::format("; waited for rank{} {}", count == 1 ? "" : "s",
                     fmt::join(std::span(missing_).first(static_cast<std::size_t>(count)), ", "));
}

void Reply::raise(plumbline_status status, const std::string& where, bool names_ended) {
  switch (status) {
    case PLUMBLINE_INVALID_ARGUMENT:
      throw InvalidArgument(fmt::format("{}: {}", where, words("invalid argument")));
    case PLUMBLINE_UNSUPPORTED:
      throw Unsupported(fmt::format("{}: {}", where, words("unsupported")));
    case PLUMBLINE_MISMATCH:
      throw comm::MismatchError(fmt::format("{}: {}", where, words("members made different calls")));
    case PLUMBLINE_TIMEOUT:
      throw comm::TimeoutError(fmt::format("{}: {}{}", where, words("the time limit passed"), missing()));
    case PLUMBLINE_PEER_FAILED:
      throw comm::PeerFailed(
          fmt::format("{}: {}{}", where, words("the group has failed"), names_ended ? missing() : std::string{}));
    case PLUMBLINE_FAILURE:
      throw RuntimeFailure(fmt::format("{}: {}", where, words("the library failed")));
    default:
      throw RuntimeFailure(fmt::format("{}: returned status {}, which plumbline_backend.h does not have{}", where,
                                       status, message_[0] == '\0' ? "" : ": " + words("")));
  }
}

void raise_thrown(const std::exception* thrown, const std::string& where) {
  throw RuntimeFailure(fmt::format("{}: threw a C++ exception through the C interface{}", where,
                                   thrown == nullptr ? "" : ": " + one_line(thrown->what())));
}

}  // namespace plumbline::subject::plugin
