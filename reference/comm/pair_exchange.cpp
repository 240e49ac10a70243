#include <fmt/format.h>

#include "reference/comm/communicator.hpp"
#include "reference/comm/errors.hpp"

namespace plumbline::comm {

std::vector<Call> messages_of(const PairExchange& exchange) {
  std::vector<Call> messages;
  for (const PairPart& part : exchange.parts) {
    messages.push_back(
        {.operation = Operation::send, .root = exchange.peer, .tag = exchange.tag, .in = part.x, .out = {}});
    messages.push_back(
        {.operation = Operation::recv, .root = exchange.peer, .tag = exchange.tag, .in = {}, .out = part.x});
  }
  return messages;
}

Work PairExchanges::start(const PairExchange& exchange) {
  const Communicator& group = of_group();
  if (exchange.peer == group.rank())
    throw InvalidArgument(fmt::format("pair exchange: rank {} with itself", exchange.peer));
  if (exchange.peer < 0 || exchange.peer >= group.size())
    throw InvalidArgument(
        fmt::format("pair exchange: peer {} is not a rank of the group of {}", exchange.peer, group.size()));
  if (exchange.tag < 0) throw InvalidArgument(fmt::format("pair exchange: tag {} is negative", exchange.tag));
  if (exchange.update == nullptr) throw InvalidArgument("pair exchange: without an update");
  for (const PairPart& part : exchange.parts) {
    validate({.operation = Operation::recv, .root = exchange.peer, .tag = exchange.tag, .in = {}, .out = part.x},
             group.rank(), group.size());
    if (part.x.device.kind != Device::Kind::cpu)
      throw Unsupported(fmt::format("pair exchange: memory on {}; only cpu has one", name_of(part.x.device)));
  }
  return do_start(exchange);
}

}  // namespace plumbline::comm
