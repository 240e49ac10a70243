#include <algorithm>
#include <exception>
#include <map>
#include <mutex>
#include <numeric>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include "reference/comm/errors.hpp"
#include "reference/comm/local.hpp"
#include "reference/comm/local/group.hpp"

namespace plumbline::comm {
namespace {

int usable_cores() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) != 0) return static_cast<int>(std::thread::hardware_concurrency());
  return CPU_COUNT(&set);
}

// Virtual machines report the sum over the host's core complexes; 32 MiB is the most that one complex commonly shares.
std::size_t last_level_cache() {
  constexpr std::size_t kComplex = std::size_t{32} << 20;
#ifdef _SC_LEVEL3_CACHE_SIZE
  if (const long bytes = sysconf(_SC_LEVEL3_CACHE_SIZE); bytes > 0)
    return std::min(static_cast<std::size_t>(bytes), kComplex);
#endif
  return kComplex;
}

}  // namespace

struct LocalWorld::Shared {
  std::shared_ptr<local::LocalGroup> group;
  std::mutex mutex;
  std::vector<bool> handed_out;
};

LocalWorld::LocalWorld(int size, LocalOptions options) {
  if (size < 1 || size > local::kMaxRanks)
    throw InvalidArgument(fmt::format("a local world has 1 to {} ranks, not {}", local::kMaxRanks, size));
  if (options.cores <= 0) options.cores = usable_cores();
  if (options.cache_bytes == 0) options.cache_bytes = last_level_cache();
  Group world{.name = "world", .ranks = std::vector<int>(static_cast<std::size_t>(size)), .id = 0};
  std::iota(world.ranks.begin(), world.ranks.end(), 0);
  world.id = group_id(kNoParent, world.ranks, 1);
  shared_ = std::make_shared<Shared>();
  shared_->group =
      std::make_shared<local::LocalGroup>(std::move(world), options, local::WaitPolicy::of(size, options.cores));
  shared_->handed_out.resize(static_cast<std::size_t>(size));
}

LocalWorld::~LocalWorld() = default;

int LocalWorld::size() const { return shared_->group->size; }

std::unique_ptr<Communicator> LocalWorld::communicator(int rank) {
  if (rank < 0 || rank >= size()) throw OutOfRange(fmt::format("rank {} of a local world of {}", rank, size()));
  const std::lock_guard hold(shared_->mutex);
  if (shared_->handed_out[static_cast<std::size_t>(rank)])
    throw StateError(fmt::format("rank {}'s communicator was handed out before", rank));
  shared_->handed_out[static_cast<std::size_t>(rank)] = true;
  return local::make_local_communicator(shared_->group, rank);
}

void LocalWorld::abort(const std::string& reason) noexcept { shared_->group->abort(reason); }

void run_ranks(int size, const std::function<void(Communicator&)>& body, LocalOptions options) {
  LocalWorld world(size, options);
  std::mutex mutex;
  std::exception_ptr cause;        // the first that is no consequence
  std::exception_ptr consequence;  // PeerFailed
  const auto blame = [&](int rank, const char* why) {
    {
      const std::lock_guard hold(mutex);
      if (!cause) cause = std::current_exception();
    }
    world.abort(fmt::format("rank {} failed: {}", rank, why));
  };
  const auto run = [&](int rank) {
    const auto communicator = world.communicator(rank);
    try {
      body(*communicator);
    } catch (const PeerFailed&) {
      const std::lock_guard hold(mutex);
      if (!consequence) consequence = std::current_exception();
    } catch (const std::exception& error) {
      blame(rank, error.what());
    } catch (...) {
      blame(rank, "an exception of an unknown type");
    }
  };
  {
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < size; ++rank) threads.emplace_back(run, rank);
  }
  if (cause) std::rethrow_exception(cause);
  if (consequence) std::rethrow_exception(consequence);
}

const Capabilities& local_capabilities(Device::Kind kind) {
  static const std::map<Device::Kind, Capabilities> by_kind = [] {
    Capabilities all{.backend = "local", .version = PLUMBLINE_VERSION};
    for (int capability = 0; capability < kCapabilityCount; ++capability)
      all.claims.insert(static_cast<Capability>(capability));
    // Kernels of devices have not the optional types.
    std::map<Device::Kind, Capabilities> made{{Device::Kind::cpu, all}};
    made[Device::Kind::cpu].dtypes.insert(kOptionalDTypes.begin(), kOptionalDTypes.end());
    for (const Device::Kind one : {Device::Kind::cuda, Device::Kind::emulated}) {
      made[one] = all;
      made[one].devices.push_back(one);
    }
    return made;
  }();
  return by_kind.at(kind);
}

}  // namespace plumbline::comm
