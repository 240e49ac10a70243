// harness/suite/execution_mode.hpp: the conditions under which a case runs.
//
// Model   plain: as the subject is. rendezvous: a send returns only after its receive is posted, so that what only
//         works because of buffers hangs. chaos: delays, late reads of send buffers and late news of completion,
//         decided by a seed, so that what only works because of equal timing fails. A check that may deadlock runs in
//         all three.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace plumbline::suite {

struct ExecutionMode {
  enum class Kind { plain, rendezvous, chaos };
  Kind kind = Kind::plain;
  std::uint64_t seed = 0;  // of chaos

  /// "plain", "rendezvous", "chaos:7".
  [[nodiscard]] std::string name() const;
  /// Throws InvalidArgument for another text than name() gives.
  [[nodiscard]] static ExecutionMode parse(std::string_view name);
  friend bool operator==(const ExecutionMode&, const ExecutionMode&) = default;
};

}  // namespace plumbline::suite
