// reference/comm/local/memory.hpp: memory that is registered with a communicator, or that it gave out.
//
// Model   Ranks are threads: all memory of the process is within reach of each, and a registration prepares nothing. It
//         is counted, so that what has ended, or was made by another communicator, is rejected as elsewhere.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <set>

#include "reference/comm/communicator.hpp"

namespace plumbline::comm::local {

/// One thread at a time.
class OwnMemory {
 public:
  [[nodiscard]] Registration add();
  /// Throws InvalidArgument for what add() did not return, or was removed.
  void remove(Registration registration);
  /// On a line of the cache of its own. Throws RuntimeFailure when there is no memory left.
  [[nodiscard]] void* allocate(std::size_t bytes);
  /// Throws InvalidArgument for what allocate() did not return, or was given back.
  void deallocate(void* memory);

 private:
  std::set<Registration> registered_;
  std::map<void*, std::unique_ptr<std::byte[]>> allocated_;  // by what was given out
};

}  // namespace plumbline::comm::local
