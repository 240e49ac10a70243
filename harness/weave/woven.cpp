#include "harness/weave/woven.hpp"

#include <cstdlib>
#include <map>
#include <mutex>
#include <set>
#include <string>

#include <fcntl.h>
#include <unistd.h>

namespace plumbline::woven {
namespace {

// Never destroyed: threads may ask until the process has ended.
struct Memory {
  std::mutex mutex;
  std::set<std::string> names;  // addresses stay
  const char* name = nullptr;   // of the one chosen
  std::map<const void*, std::any> of;
};
Memory& memory() {
  static Memory* const one = new Memory;
  return *one;
}

}  // namespace

std::atomic<const char*> chosen = [] {
  const char* const name = std::getenv("PLUMBLINE_WOVEN");
  return name == nullptr || *name == '\0' ? nullptr : name;
}();

bool entered(const char* file, const char* mutant) noexcept {
  thread_local auto* const written = new std::set<const void*>;  // never destroyed, as Memory
  if (!written->insert(mutant).second) return false;
  const std::string line = mutant + std::string("\n");
  const int to = ::open(file, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (to < 0 || ::write(to, line.data(), line.size()) < 0) std::abort();
  ::close(to);
  return false;
}

std::any& remembered(const void* whose) {
  const std::lock_guard hold(memory().mutex);
  return memory().of[whose];
}

}  // namespace plumbline::woven

extern "C" void plumbline_woven_choose(const char* mutant) {
  using namespace plumbline::woven;
  const std::lock_guard hold(memory().mutex);
  if (*mutant == '\0' && memory().name == nullptr) return;  // the environment's stays
  memory().of.clear();
  memory().name = *mutant == '\0' ? nullptr : memory().names.insert(mutant).first->c_str();
  chosen = memory().name;
  ::setenv("PLUMBLINE_WOVEN", mutant, 1);
}

extern "C" void plumbline_woven_apply(bool here) {
  using namespace plumbline::woven;
  const std::lock_guard hold(memory().mutex);
  if (memory().name == nullptr) return;
  chosen = here ? memory().name : nullptr;
}
