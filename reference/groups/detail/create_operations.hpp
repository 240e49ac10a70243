// reference/groups/detail/create_operations.hpp: the operation that creates groups, beside those that describe them.
#pragma once

namespace plumbline::adapter {

class AdapterService;

/// groups.create.
void add_create_operations(AdapterService& service);

}  // namespace plumbline::adapter
