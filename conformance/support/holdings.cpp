#include "conformance/support/holdings.hpp"

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include <malloc.h>

namespace plumbline::conformance {

namespace {

std::int64_t entries_of(const char* folder) {
  return std::distance(std::filesystem::directory_iterator(folder), std::filesystem::directory_iterator());
}

// Bytes, of a line "VmRSS:  1234 kB" in /proc/self/status; 0 where a kernel has none.
std::int64_t bytes_of_status(const std::string& field) {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    if (word != field) continue;
    std::int64_t kilobytes = 0;
    status >> kilobytes;
    return kilobytes * 1024;
  }
  return 0;
}

Holdings own_holdings() {
  Holdings own{.threads = entries_of("/proc/self/task"),
               .descriptors = entries_of("/proc/self/fd"),
               .resident = bytes_of_status("VmRSS:"),
               .anonymous = bytes_of_status("RssAnon:")};
  const auto given = ::mallinfo2();
  own.allocated = static_cast<std::int64_t>(given.uordblks + given.hblkhd);
  return own;
}

}  // namespace

Holdings holdings_at_rest(comm::Communicator& group, std::int64_t threads) {
  Holdings own;
  for (int rank = 0; rank < group.size(); ++rank) {
    group.barrier();
    if (rank == group.rank()) own = own_holdings();
    for (int wait = 0; rank == group.rank() && own.threads > threads && wait < 100; ++wait) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
      own = own_holdings();
    }
    group.barrier();
  }
  return own;
}

bool figures_of_memory_tell() { return ::mallinfo2().uordblks > 0; }

}  // namespace plumbline::conformance
