// Faults of memory that is registered with a group, or comes from the backend.
#include <algorithm>
#include <cstring>
#include <map>

#include "conformance/collectives/collectives_mutants.hpp"
#include "harness/mutants/faulty.hpp"
#include "reference/comm/errors.hpp"

namespace plumbline::mutants {

using comm::Buffer;
using comm::Call;
using comm::Communicator;
using comm::Operation;
using comm::Registration;

namespace {

// A communicator that knows what is registered with it.
template <class Self>
class Registering : public Plain<Self> {
 public:
  using Plain<Self>::Plain;

 protected:
  struct Range {
    std::byte* begin = nullptr;
    std::size_t bytes = 0;
    [[nodiscard]] bool holds(const void* data) const {
      const auto* const at = static_cast<const std::byte*>(data);
      return at >= begin && at < begin + bytes;
    }
  };
  Registration do_register(Buffer memory) override {
    const Registration made = Plain<Self>::do_register(memory);
    ranges_[made] = {static_cast<std::byte*>(memory.data), memory.bytes()};
    return made;
  }
  void do_deregister(Registration registration) override {
    Plain<Self>::do_deregister(registration);
    ranges_.erase(registration);
  }
  [[nodiscard]] const Range* range_of(const void* data) const {
    const auto found = std::ranges::find_if(ranges_, [&](const auto& one) { return one.second.holds(data); });
    return data == nullptr || found == ranges_.end() ? nullptr : &found->second;
  }
  std::map<Registration, Range> ranges_;
};

// What a network gets is a handle and a distance: here the page, and nothing of the distance within it.
class SendsFromThePage final : public Registering<SendsFromThePage> {
 public:
  using Registering::Registering;

 private:
  void do_run(const Call& call, comm::Timeout timeout) override {
    constexpr std::uintptr_t kPage = 4096;
    Call changed = call;
    if (call.in.data != call.out.data && range_of(call.in.data) != nullptr)
      changed.in.data = reinterpret_cast<const void*>(reinterpret_cast<std::uintptr_t>(call.in.data) / kPage * kPage);
    Registering::do_run(changed, timeout);
  }
};

// All members take the path of registered memory when the first one does: the others' results stay where they are.
class FollowsTheFirst final : public Registering<FollowsTheFirst> {
 public:
  using Registering::Registering;

 private:
  void do_run(const Call& call, comm::Timeout timeout) override {
    const bool is_ours = range_of(call.out.data) != nullptr;
    std::int32_t first = is_ours ? 1 : 0;
    if (!is_message(call)) Registering::do_run(flag_of_the_first(first), timeout);
    std::vector<std::byte> before;
    const bool is_lost = first != 0 && !is_ours && !is_message(call) && call.uses_out(rank());
    auto* const out = static_cast<std::byte*>(call.out.data);
    if (is_lost) before.assign(out, out + call.out.bytes());
    Registering::do_run(call, timeout);
    if (is_lost) std::ranges::copy(before, out);
  }
  static bool is_message(const Call& call) {
    return is_point_to_point(call.operation) || call.operation == Operation::barrier;
  }
  static Call flag_of_the_first(std::int32_t& flag) {
    return {.operation = Operation::broadcast, .root = 0, .out = {&flag, 1, comm::DType::i32}};
  }
};

// Of two buffers in registered memory, the output is looked for in the input's registration.
class OneRegistrationACall final : public Registering<OneRegistrationACall> {
 public:
  using Registering::Registering;

 private:
  void do_run(const Call& call, comm::Timeout timeout) override {
    const Range* const in = range_of(call.in.data);
    const Range* const out = range_of(call.out.data);
    if (in == nullptr || out == nullptr || in == out) return Registering::do_run(call, timeout);
    std::vector<std::byte> elsewhere(call.out.bytes());
    Call changed = call;
    changed.out.data = elsewhere.data();
    Registering::do_run(changed, timeout);
  }
};

// Registrations are kept by address for the next time, with the pages that they had.
class KeepsOldPages final : public Registering<KeepsOldPages> {
 public:
  using Registering::Registering;

 private:
  void do_deregister(Registration registration) override {
    const Range range = ranges_.at(registration);
    old_[range.begin].assign(range.begin, range.begin + range.bytes);
    Registering::do_deregister(registration);
  }
  void do_run(const Call& call, comm::Timeout timeout) override {
    Call changed = call;
    const auto* const in = static_cast<const std::byte*>(call.in.data);
    for (const auto& [begin, bytes] : old_)
      if (in != nullptr && in >= begin && in + call.in.bytes() <= begin + bytes.size())
        changed.in.data = bytes.data() + (in - begin);
    Registering::do_run(changed, timeout);
  }
  std::map<std::byte*, std::vector<std::byte>> old_;
};

// One entry for each address: the second registration is the first, and ends with it.
class OneForEachAddress final : public Plain<OneForEachAddress> {
 public:
  using Plain::Plain;

 private:
  Registration do_register(Buffer memory) override {
    Registration& known = by_address_[memory.data];
    if (known == 0) known = Plain::do_register(memory);
    return known;
  }
  void do_deregister(Registration registration) override {
    std::erase_if(by_address_, [&](const auto& one) { return one.second == registration; });
    Plain::do_deregister(registration);
  }
  std::map<void*, Registration> by_address_;
};

// Ending one registration ends all that overlap it.
class EndsWhatOverlaps final : public Registering<EndsWhatOverlaps> {
 public:
  using Registering::Registering;

 private:
  void do_deregister(Registration registration) override {
    const auto found = ranges_.find(registration);
    if (found == ranges_.end()) return Registering::do_deregister(registration);
    const Range ended = found->second;
    std::vector<Registration> all;
    for (const auto& [other, range] : ranges_)
      if (range.begin < ended.begin + ended.bytes && ended.begin < range.begin + range.bytes) all.push_back(other);
    for (const Registration other : all) Registering::do_deregister(other);
  }
};

class DeregistersAnything final : public Plain<DeregistersAnything> {
 public:
  using Plain::Plain;

 private:
  void do_deregister(Registration registration) override {
    try {
      Plain::do_deregister(registration);
    } catch (const InvalidArgument&) {
      // as a table that is not asked
    }
  }
};

// Copies of what is registered, for a device that cannot reach it, stay when the registration ends.
class LeavesCopies final : public Registering<LeavesCopies> {
 public:
  using Registering::Registering;

 private:
  Registration do_register(Buffer memory) override {
    const auto* const bytes = static_cast<const std::byte*>(memory.data);
    copies_.emplace_back(bytes, bytes + memory.bytes());
    return Registering::do_register(memory);
  }
  std::vector<std::vector<std::byte>> copies_;
};

// Memory that is given out again while it is in use.
class AllocatesTwice final : public Plain<AllocatesTwice> {
 public:
  using Plain::Plain;

 private:
  void* do_allocate(std::size_t bytes) override {
    if (last_ != nullptr && bytes <= bytes_) return last_;
    bytes_ = bytes;
    return last_ = Plain::do_allocate(bytes);
  }
  void do_deallocate(void* /*memory*/) override {}  // somebody may have it
  void* last_ = nullptr;
  std::size_t bytes_ = 0;
};

// A header of 8 bytes before the memory that is given out.
class AllocatesUnaligned final : public Plain<AllocatesUnaligned> {
 public:
  using Plain::Plain;

 private:
  static constexpr std::size_t kHeader = 8;
  void* do_allocate(std::size_t bytes) override {
    return static_cast<std::byte*>(Plain::do_allocate(bytes + kHeader)) + kHeader;
  }
  void do_deallocate(void* memory) override { Plain::do_deallocate(static_cast<std::byte*>(memory) - kHeader); }
};

class NeverFrees final : public Plain<NeverFrees> {
 public:
  using Plain::Plain;

 private:
  void do_deallocate(void* /*memory*/) override {}
};

}  // namespace

std::vector<Mutant> registered_memory_mutants() {
  const char* const kNccl = "NCCL 2.19: ncclCommRegister";
  const char* const kAlloc = "NCCL 2.19: ncclMemAlloc";
  const char* const kRejects = "collectives.registered.rejects_what_is_none[world=1]";
  const char* const kEnds = "collectives.registered.ends[world=3]";
  const char* const kItself = "collectives.registered.each_ends_by_itself[world=3]";
  const char* const kResults = "collectives.allocated.results[operation=all_reduce,world=3]";
  return {
      {"col.sends_from_the_page", "COLL-140", "input in registered memory is read from the beginning of its page",
       "a distance that is lost between a handle and an address",
       "collectives.registered.parts[operation=all_gather,world=3]", kResults, "nothing is registered",
       wrap_in<SendsFromThePage>},
      {"col.registered_like_the_first", "COLL-141",
       "members whose buffers are not registered get no result where the first member's is", kNccl,
       "collectives.registered.some_members[operation=all_reduce,world=3]",
       "collectives.registered.parts[operation=all_reduce,world=3]", "all members have registered",
       wrap_in<FollowsTheFirst>},
      {"col.one_registration_a_call", "COLL-141", "an output in another registration than the input's is lost", kNccl,
       "collectives.registered.buffers_apart[operation=all_reduce,world=3]",
       "collectives.registered.parts[operation=all_reduce,world=3]", "input and output are in one registration",
       wrap_in<OneRegistrationACall>},
      {"col.keeps_old_pages", "COLL-142", "input is read from the pages that were registered once at its address",
       "Open MPI: mpi_leave_pinned", kEnds, "collectives.registered.parts[operation=all_reduce,world=3]",
       "the memory is registered once", wrap_in<KeepsOldPages>},
      {"col.one_registration_an_address", "COLL-143", "memory that is registered again has the same registration",
       "a table by address", kItself, kEnds, "each registration ends before the next one", wrap_in<OneForEachAddress>},
      {"col.deregisters_what_overlaps", "COLL-143", "ending a registration ends all that overlap it", kNccl, kItself,
       kEnds, "there is one registration at a time", wrap_in<EndsWhatOverlaps>},
      {"col.deregisters_anything", "COLL-144", "deregister takes any value", "a free list that is not searched",
       kRejects, kItself, "each registration is ended once", wrap_in<DeregistersAnything>},
      {"col.leaves_copies_of_registered", "COLL-145", "a registration that has ended leaves a copy of the memory",
       "a bounce buffer for each registration", "collectives.registered.does_not_grow[world=3]", kEnds,
       "a few registrations leave little", wrap_in<LeavesCopies>},
      {"col.allocates_twice", "COLL-146", "memory in use is given out again", kAlloc, kResults,
       "collectives.allocated.does_not_grow[world=3]", "one piece is in use at a time", wrap_in<AllocatesTwice>},
      {"col.allocates_unaligned", "COLL-146", "memory begins 8 bytes after a line", "a header before each piece",
       kResults, "collectives.allocated.does_not_grow[world=3]", "its elements have 4 bytes",
       wrap_in<AllocatesUnaligned>},
      {"col.never_frees_allocated", "COLL-147", "memory that was given back is lost", kAlloc,
       "collectives.allocated.does_not_grow[world=3]", kResults, "a few pieces are little", wrap_in<NeverFrees>},
  };
}

}  // namespace plumbline::mutants
