// harness/weave/woven.hpp: which mutant a woven build runs. Included by woven copies of sources, and by mutants' edits
// in them.
#pragma once

#include <algorithm>  // this and some of the others for the edits alone
#include <any>
#include <array>
#include <atomic>
#include <cmath>
#include <cstring>
#include <map>
#include <optional>
#include <type_traits>
#include <vector>

namespace plumbline::woven {

/// The chosen mutant's name; null: none. At first that of the environment's PLUMBLINE_WOVEN. "?FILE" chooses none, and
/// adds to FILE a line for each mutant whose function this process enters.
[[gnu::visibility("default")]] extern std::atomic<const char*> chosen;

/// Writes that mutant into the file of "?FILE", once a thread. False.
[[gnu::visibility("default")]] bool entered(const char* file, const char* mutant) noexcept;

/// Whether the mutant of that name is chosen.
[[nodiscard]] inline bool is(const char* mutant) noexcept {
  const char* const name = chosen.load(std::memory_order_relaxed);
  if (name == nullptr) return false;
  return *name == '?' ? entered(name + 1, mutant) : std::strcmp(name, mutant) == 0;
}

/// What a mutant remembers of `whose` (an object of the code that it edits) from call to call; forgotten when one is
/// chosen.
[[nodiscard, gnu::visibility("default")]] std::any& remembered(const void* whose);
template <class T>
[[nodiscard]] T& state(const void* whose) {
  std::any& one = remembered(whose);
  if (!one.has_value()) one = T();
  return std::any_cast<T&>(one);
}

}  // namespace plumbline::woven

// A build that has no woven code has no such functions: declare them weak.
/// Chooses a mutant, by the environment also for children of this process; "": none of those that were chosen by this. What
/// the last one remembered is forgotten.
extern "C" [[gnu::visibility("default")]] void plumbline_woven_choose(const char* mutant);
/// Whether this process itself is that mutant from now on.
extern "C" [[gnu::visibility("default")]] void plumbline_woven_apply(bool here);
