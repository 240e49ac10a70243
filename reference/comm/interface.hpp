// reference/comm/interface.hpp: which interface a program and a module that it opens were compiled with.
//
// Model   Modules (backends, LibTorch's side, runtimes of devices) are opened at run time and called by virtual
//         functions, so both sides must lay objects out in the same way. A module says which interface it was compiled
//         with: a version, which ci/check_interface.py has increased with each change of the headers that modules are
//         compiled with, and a digest of what a communicator and its calls look like in memory, which tells also
//         headers apart that were changed. subject::open_module() rejects any interface but its own.
#pragma once

#include <cstdint>
#include <cstring>

#include "reference/comm/communicator.hpp"

namespace plumbline::comm {

inline constexpr std::uint64_t kInterfaceVersion = 12;

namespace interface {

/// A class with one virtual function more than its base, at the end.
template <class Base>
struct OneMore : Base {
  using Base::Base;
  virtual void last();
};

/// What a pointer to that function holds: its place in the table, which is the size of the base's.
template <class Base>
[[nodiscard]] std::uint64_t table_of() {
  void (OneMore<Base>::* const last)() = &OneMore<Base>::last;
  std::uint64_t words[2] = {};
  static_assert(sizeof last <= sizeof words);
  std::memcpy(words, &last, sizeof last);
  return words[0] ^ words[1] << 32;
}

[[nodiscard]] inline std::uint64_t digest() {
  std::uint64_t hash = 0xcbf29ce484222325u;
  for (const std::uint64_t part :
       {table_of<Communicator>(), table_of<Work::State>(), std::uint64_t{sizeof(Communicator)},
        std::uint64_t{sizeof(Work)}, std::uint64_t{sizeof(Group)}, std::uint64_t{sizeof(Capabilities)},
        std::uint64_t{sizeof(Call)}, std::uint64_t{sizeof(Buffer)}, std::uint64_t{sizeof(ConstBuffer)},
        std::uint64_t{kCapabilityCount}, std::uint64_t{kOperationCount}, std::uint64_t{kDTypeCount},
        std::uint64_t{kAllReduceOps.size()}})
    hash = (hash ^ part) * 0x100000001b3u;
  return (hash ^ hash >> 16 ^ hash >> 32 ^ hash >> 48) & 0xffff;
}

}  // namespace interface

/// What a module's function returns: the version and, in the lower 16 bits, the digest.
[[nodiscard]] inline std::uint64_t own_interface() { return kInterfaceVersion << 16 | interface::digest(); }
inline constexpr const char* kInterfaceFunction = "plumbline_interface";
using InterfaceFunction = std::uint64_t();

}  // namespace plumbline::comm

/// Exported by a module where PLUMBLINE_EXPORT is in one of its files.
extern "C" __attribute__((visibility("default"))) inline std::uint64_t plumbline_interface() {
  return plumbline::comm::own_interface();
}

// Libraries that a module is linked with may include this header, too: their copies would be hidden, and the module's
// with them. So the function exists only where it is named.
#define PLUMBLINE_NAMES_INTERFACE_(counter) \
  __attribute__((used)) static std::uint64_t (*const plumbline_names_interface_##counter)() = &plumbline_interface;
#define PLUMBLINE_NAMES_INTERFACE(counter) PLUMBLINE_NAMES_INTERFACE_(counter)

/// Marks what a module exports: functions of the global namespace.
#define PLUMBLINE_EXPORT                 \
  PLUMBLINE_NAMES_INTERFACE(__COUNTER__) \
  extern "C" __attribute__((visibility("default")))
