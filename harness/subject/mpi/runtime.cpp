#include "harness/subject/mpi/runtime.hpp"

#include <chrono>
#include <thread>

#include <sched.h>
#include <unistd.h>

#include "harness/subject/mpi/errors.hpp"
#include "harness/subject/mpi/self_description.hpp"

namespace plumbline::subject::mpi {
namespace {

/// How many processes of the job are on this machine, and how many cores they may use together. Collective.
struct Machine {
  int ranks = 1;
  int cores = 1;

  explicit Machine(MPI_Comm all) {
    MPI_Comm here = MPI_COMM_NULL;
    check(MPI_Comm_split_type(all, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &here), "MPI_Comm_split_type");
    check(MPI_Comm_size(here, &ranks), "MPI_Comm_size");
    // Each process may be bound to cores of its own: what counts is all of theirs.
    cpu_set_t cores_of_all;
    CPU_ZERO(&cores_of_all);
    sched_getaffinity(0, sizeof cores_of_all, &cores_of_all);
    check(MPI_Allreduce(MPI_IN_PLACE, &cores_of_all, sizeof cores_of_all, MPI_BYTE, MPI_BOR, here), "MPI_Allreduce");
    cores = CPU_COUNT(&cores_of_all);
    MPI_Comm_free(&here);
  }
};

}  // namespace

Runtime::Runtime(const Options& options) : options_(options) {
  start();
  reductions_.create();
  look_at_job();
  capabilities_ = capabilities_of(thread_level_);
}

void Runtime::start() {
  int finalized = 0;
  MPI_Finalized(&finalized);
  if (finalized != 0) throw RuntimeFailure("backend mpi: MPI has ended in this process and cannot start again");
  int initialized = 0;
  MPI_Initialized(&initialized);
  if (initialized != 0) {
    check(MPI_Query_thread(&thread_level_), "MPI_Query_thread");
  } else {
    check(MPI_Init_thread(nullptr, nullptr, options_.thread_level, &thread_level_), "MPI_Init_thread");
    started_here_ = true;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  }
  check(MPI_Comm_dup(MPI_COMM_WORLD, &all_), "MPI_Comm_dup");
  MPI_Comm_set_errhandler(all_, MPI_ERRORS_RETURN);
}

void Runtime::look_at_job() {
  check(MPI_Comm_rank(all_, &rank_), "MPI_Comm_rank");
  check(MPI_Comm_size(all_, &size_), "MPI_Comm_size");
  void* bound = nullptr;
  int known = 0;
  check(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &bound, &known), "MPI_Comm_get_attr");
  if (known != 0) largest_tag_ = *static_cast<int*>(bound);
  const Machine machine(all_);
  polls_before_yield_ = machine.ranks <= machine.cores ? 1000 : 10;
}

Runtime::~Runtime() {
  // Calls that nobody will complete may hold MPI_Finalize up for ever, and a launcher takes a process that ends without
  // it for one that failed: so it is tried for a while, and then the process ends.
  if (failed_ && started_here_)
    std::thread([] {
      std::this_thread::sleep_for(std::chrono::seconds(2));
      ::_exit(0);
    }).detach();
  reductions_.free();
  if (!failed_) MPI_Comm_free(&all_);
  if (started_here_) MPI_Finalize();
}

int Runtime::next_creation(std::uint64_t parent, const std::vector<int>& world_ranks) {
  const std::lock_guard hold(mutex_);
  return ++creations_[{parent, world_ranks}];
}

bool Runtime::progress() const {
  int is_there = 0;
  return MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, all_, &is_there, MPI_STATUS_IGNORE) == MPI_SUCCESS;
}

MPI_Comm Runtime::create(const std::vector<int>& world_ranks, std::uint64_t id) const {
  const int tag = static_cast<int>(id % (static_cast<std::uint64_t>(largest_tag_) + 1));
  MPI_Group everyone = MPI_GROUP_NULL;
  MPI_Group members = MPI_GROUP_NULL;
  MPI_Comm made = MPI_COMM_NULL;
  check(MPI_Comm_group(all_, &everyone), "MPI_Comm_group");
  int code = MPI_Group_incl(everyone, static_cast<int>(world_ranks.size()), world_ranks.data(), &members);
  if (code == MPI_SUCCESS) {
    code = MPI_Comm_create_group(all_, members, tag, &made);
    MPI_Group_free(&members);
  }
  MPI_Group_free(&everyone);
  check(code, "MPI_Comm_create_group");
  MPI_Comm_set_errhandler(made, MPI_ERRORS_RETURN);
  return made;
}

}  // namespace plumbline::subject::mpi
