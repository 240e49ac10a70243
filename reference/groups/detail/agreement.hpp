// reference/groups/detail/agreement.hpp: that all ranks are about to make the same groups in the same order.
#pragma once

#include "reference/comm/communicator.hpp"
#include "reference/groups/plan.hpp"

namespace plumbline::groups {

/// Throws the same error on all ranks unless all have the same valid plan, for the parent's size: MismatchError with
/// the first difference; InvalidArgument with both sizes, or with what is wrong in a creation. Collective over the
/// parent; each exchange has the limit. Throws TimeoutError.
void agree_on(comm::Communicator& parent, const Plan& plan, comm::Timeout timeout);

}  // namespace plumbline::groups
