#include "harness/suite/execution_mode.hpp"

#include <charconv>

#include <fmt/format.h>

#include "reference/comm/errors.hpp"

namespace plumbline::suite {

std::string ExecutionMode::name() const {
  switch (kind) {
    case Kind::rendezvous:
      return "rendezvous";
    case Kind::chaos:
      return fmt::format("chaos:{}", seed);
    default:
      return "plain";
  }
}

ExecutionMode ExecutionMode::parse(std::string_view name) {
  constexpr std::string_view chaos = "chaos:";
  if (name == "plain") return {};
  if (name == "rendezvous") return {.kind = Kind::rendezvous};
  if (name.starts_with(chaos)) {
    ExecutionMode mode{.kind = Kind::chaos};
    const char* const end = name.data() + name.size();
    const auto [rest, error] = std::from_chars(name.data() + chaos.size(), end, mode.seed);
    if (error == std::errc{} && rest == end) return mode;
  }
  throw InvalidArgument(fmt::format("arm '{}'; it is plain, rendezvous or chaos:SEED", name));
}

}  // namespace plumbline::suite
