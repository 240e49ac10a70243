// reference/comm/pair_exchange.hpp: an exchange of two members in place, which some backends have.
//
// Model   Two members bring values: as many parts each, of the same types and counts. Behind the exchange every element of
//         both is what `update` makes of the two that were there, as if each had sent its values to the other and worked out
//         its new ones from its own and from those that came. Both name the same tag and update; exchanges of one tag meet
//         in their order, and never meet messages.
// Whole   It is made on both sides or on neither: where a wait ends with an error, nothing has changed on either.
// Cost    Over shared memory each element of both sides is read once and written once, and copied nowhere. Each member does
//         half of both sides, in every exchange the same half, which so stays in its cache; a member that is elsewhere
//         leaves its half to the other.
// Where   Communicator::pair_exchanges(). Backends and decorators have none unless they say so: there messages do the same,
//         and whoever decorates sees them.
// Threads, memory, errors  As communicator.hpp says of started calls.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "reference/comm/communicator.hpp"

namespace plumbline::comm {

/// Numbers that an update is given of either side.
using PairFactors = std::array<double, 3>;

/// One of the buffers that a member brings. Parts of one member do not overlap.
struct PairPart {
  Buffer x;
  PairFactors factors{1, 1, 1};
};

/// Makes a[i] and b[i] anew for all i below `count`, each pair from nothing but itself and the factors. `a` is of the member
/// of the lower rank. Called for pieces, by either member's thread. Does not throw.
using PairUpdate = void (*)(DType dtype, void* a, const PairFactors& of_a, void* b, const PairFactors& of_b,
                            std::int64_t count);

struct PairExchange {
  int peer = kNoRoot;               // its rank in the group, not the caller's own
  int tag = 0;                      // 0 or more
  std::span<const PairPart> parts;  // stay valid until the exchange is complete, as their buffers do
  PairUpdate update = nullptr;
};

/// The messages that do the same as an exchange: of each part one to the peer and one back, into the same buffer.
[[nodiscard]] std::vector<Call> messages_of(const PairExchange& exchange);

class PairExchanges {
 public:
  virtual ~PairExchanges() = default;

  /// Begins the exchange. Throws InvalidArgument for a peer that is no other rank of the group, a negative tag, no update,
  /// or a part that has elements and no memory; Unsupported for memory that is not the host's. Its Work throws
  /// MismatchError where the two members bring different parts or updates.
  Work start(const PairExchange& exchange);

 protected:
  PairExchanges() = default;
  PairExchanges(const PairExchanges&) = default;
  PairExchanges& operator=(const PairExchanges&) = default;

 private:
  [[nodiscard]] virtual const Communicator& of_group() const = 0;
  // The exchange has passed the checks.
  virtual Work do_start(const PairExchange& exchange) = 0;
};

}  // namespace plumbline::comm
