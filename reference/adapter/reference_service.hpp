// reference/adapter/reference_service.hpp: the operations of all components, served by one service.
#pragma once

#include "reference/adapter/service.hpp"

namespace plumbline::adapter {

/// The service of all components of the reference.
[[nodiscard]] AdapterService reference_service();

/// The whole of `plumbline adapter`: the reference's service on standard input and output. Ignores SIGPIPE
/// from then on. Returns the exit status, 0. Throws RuntimeFailure as serve() does.
int serve_adapter();

}  // namespace plumbline::adapter
