#include "harness/suite/arm.hpp"

#include <charconv>

#include <fmt/format.h>

#include "reference/comm/errors.hpp"

namespace plumbline::suite {

std::string Arm::name() const {
  switch (kind) {
    case Kind::rendezvous:
      return "rendezvous";
    case Kind::chaos:
      return fmt::format("chaos:{}", seed);
    default:
      return "plain";
  }
}

Arm Arm::parse(std::string_view name) {
  constexpr std::string_view chaos = "chaos:";
  if (name == "plain") return {};
  if (name == "rendezvous") return {.kind = Kind::rendezvous};
  if (name.starts_with(chaos)) {
    Arm arm{.kind = Kind::chaos};
    const char* const end = name.data() + name.size();
    const auto [rest, error] = std::from_chars(name.data() + chaos.size(), end, arm.seed);
    if (error == std::errc{} && rest == end) return arm;
  }
  throw InvalidArgument(fmt::format("arm '{}'; it is plain, rendezvous or chaos:SEED", name));
}

}  // namespace plumbline::suite
