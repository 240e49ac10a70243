#include "harness/subject/c10d/job.hpp"

#include <array>
#include <sstream>

#include <fmt/format.h>

#include "harness/subject/backend_name.hpp"
#include "harness/subject/c10d/python_side.hpp"
#include "harness/subject/modules.hpp"
#include "reference/comm/errors.hpp"

namespace plumbline::subject::c10d_backend {
namespace {

using comm::Capability;

constexpr const char* kImport = "import";
constexpr const char* kClaims = "claims";
constexpr const char* kDTypes = "dtypes";
constexpr const char* kPoll = "poll";

std::vector<std::string> parts_of(const BackendOptions& options, const char* key) {
  std::vector<std::string> parts;
  if (const auto list = options.find(key); list != options.end()) {
    std::istringstream stream(list->second);
    for (std::string part; std::getline(stream, part, ',');) parts.push_back(part);
  }
  return parts;
}

std::string backend_in(const BackendOptions& options) {
  for (const auto& [key, value] : options)
    if (key != kC10dBackend && key != kImport && key != kClaims && key != kDTypes && key != kPoll)
      throw InvalidArgument(fmt::format("backend c10d: no option '{}'; there are {}, {}, {} and {}", key, kImport,
                                        kClaims, kDTypes, kPoll));
  const auto backend = options.find(kC10dBackend);
  if (backend == options.end() || backend->second.empty())
    throw InvalidArgument("backend c10d: no backend of torch is named; give --backend c10d:gloo");
  return backend->second;
}

Polling polling_in(const BackendOptions& options, const std::string& backend) {
  const auto poll = options.find(kPoll);
  if (poll == options.end()) return backend == kGloo ? Polling::wait : Polling::is_completed;
  if (poll->second == "wait") return Polling::wait;
  if (poll->second == "is_completed") return Polling::is_completed;
  throw InvalidArgument(fmt::format("backend c10d: option {}={}; it is is_completed or wait", kPoll, poll->second));
}

std::string open_torch(const BackendOptions& options, const std::string& backend, const Place& place) {
  try {
    return ask_python({{"do", "open"},
                       {"backend", backend},
                       {"imports", parts_of(options, kImport)},
                       {"rank", place.rank},
                       {"ranks", place.size},
                       {"store", place.has_address ? "" : (place.scratch / "c10d-store").string()}})
        .at("torch");
  } catch (const NotAvailable&) {
    throw;
  } catch (const RuntimeFailure& error) {
    throw RuntimeFailure(fmt::format("backend c10d:{}: {}", backend, error.what()));
  }
}

// What no backend can have here, and why.
constexpr std::array<std::pair<Capability, const char*>, 9> kNotHere{
    {{Capability::complex_products, "backends get complex numbers as pairs of real ones, and cannot multiply them"},
     {Capability::all_gather_v, "this door makes no such calls"},
     {Capability::reduce_scatter_v, "this door makes no such calls"},
     {Capability::shrink, "this door makes no such calls"},
     {Capability::strided, "this door makes no such calls"},
     {Capability::windows, "this door makes no such calls"},
     {Capability::grow, "this door makes no such calls"},
     {Capability::registered_memory, "this door makes no such calls"},
     {Capability::allocated_memory, "this door makes no such calls"}}};

Capability claim_of(const std::string& name) {
  const auto claim = comm::parse_capability(name);
  if (!claim) throw InvalidArgument(fmt::format("backend c10d: option claims: there is no capability '{}'", name));
  for (const auto& [missing, why] : kNotHere)
    if (*claim == missing)
      throw InvalidArgument(fmt::format("backend c10d: option claims={}: {}; leave it out", name, why));
  return *claim;
}

// What every backend of torch's interface has, unless the user says otherwise.
std::set<Capability> claims_of(const BackendOptions& options, const std::string& backend) {
  if (options.contains(kClaims)) {
    std::set<Capability> claims;
    for (const std::string& name : parts_of(options, kClaims)) claims.insert(claim_of(name));
    return claims;
  }
  std::set<Capability> claims{Capability::nonblocking,    Capability::coalescing,   Capability::groups,
                              Capability::point_to_point, Capability::wait_timeout, Capability::blocking_timeout,
                              Capability::all_to_all_v};
  if (backend == kGloo)
    claims.insert({Capability::equal_results, Capability::thread_multiple, Capability::bool_reductions,
                   Capability::complex_sums});
  return claims;
}

// Gloo has bool, as bytes, and complex numbers, as pairs, and no format of 8 bits; of others nothing is known beyond
// what every backend has.
std::set<comm::DType> dtypes_of(const BackendOptions& options, const std::string& backend) {
  std::set<comm::DType> dtypes{comm::kAllDTypes.begin(), comm::kAllDTypes.end()};
  if (options.contains(kDTypes)) {
    dtypes.clear();
    for (const std::string& name : parts_of(options, kDTypes)) {
      const auto dtype = comm::parse_dtype(name);
      if (!dtype) throw InvalidArgument(fmt::format("backend c10d: option dtypes: there is no dtype '{}'", name));
      dtypes.insert(*dtype);
    }
    if (dtypes.empty()) throw InvalidArgument("backend c10d: option dtypes is empty; give f32,bf16 or others");
  } else if (backend == kGloo) {
    dtypes.insert({comm::DType::boolean, comm::DType::c64, comm::DType::c128});
  }
  return dtypes;
}

comm::Capabilities capabilities_of(const BackendOptions& options, const std::string& backend, Polling polling,
                                   const std::string& torch) {
  comm::Capabilities all{
      .backend = "c10d:" + backend,
      .version = fmt::format("torch {}, {}", torch, backend),
      .claims = claims_of(options, backend),
      .dtypes = dtypes_of(options, backend),
      .rounds_each_half_addition = true,
      .notes = {"calls are made on the host's memory",
                "an out-of-place reduction begins with a copy of its input, since torch.distributed reduces in place",
                "the calls of a batch are started one after the other, as batch_isend_irecv does without coalescing",
                "a call cannot be taken back: after a time-out, or after dropping an unfinished Work, its buffers "
                "must stay until the process ends",
                "an abort fails the group on the calling rank only",
                "create_group waits without limit for its members"}};
  if (polling == Polling::wait)
    all.notes.emplace_back("test() is a wait in a thread of its own: is_completed() may be true only after a wait");
  return all;
}

}  // namespace

Job::Job(const BackendOptions& options, Place place_)
    : place(std::move(place_)),
      backend(backend_in(options)),
      polling(polling_in(options, backend)),
      torch(open_torch(options, backend, place)),
      capabilities(capabilities_of(options, backend, polling, torch)) {}

int Job::next_creation(std::uint64_t parent, std::span<const int> world_ranks) {
  const std::lock_guard hold(mutex_);
  return ++creations_[{parent, {world_ranks.begin(), world_ranks.end()}}];
}

}  // namespace plumbline::subject::c10d_backend
