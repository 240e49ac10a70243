// What the MPI backend costs over calling MPI directly: mpirun -n 2 mpi_overhead_bench [option=value…]
//
// Model   Blocks of direct calls and blocks of the backend's take turns in one run, on communicators made
//         alike. A block's time is the slowest rank's; a line has the medians in microseconds a call, their
//         difference in nanoseconds, and the median over the rounds of the ratio of neighbouring blocks.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>
#include <vector>

#include <mpi.h>

#include "harness/subject/modules.hpp"
#include "reference/support/quantile.hpp"

namespace {

using namespace plumbline;
using namespace plumbline::comm;

/// Microseconds a call of the slowest rank.
template <class Body>
double time_of(int calls, const Body& body) {
  MPI_Barrier(MPI_COMM_WORLD);
  const auto begin = std::chrono::steady_clock::now();
  for (int call = 0; call < calls; ++call) body();
  double taken = std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count() / calls;
  MPI_Allreduce(MPI_IN_PLACE, &taken, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  return taken;
}

template <class Direct, class Ours>
void compare(const char* what, std::size_t bytes, const Direct& direct, const Ours& ours) {
  const int calls = bytes <= 1024 ? 4000 : bytes <= 65536 ? 400 : 40;
  constexpr int rounds = 301;
  std::vector<double> directs, own, ratios;
  for (int round = 0; round < rounds; ++round) {
    double pair[2];
    for (const bool second : {false, true}) {  // who goes first takes turns, too
      const bool is_ours = second != (round % 2 == 1);
      pair[is_ours ? 1 : 0] = is_ours ? time_of(calls, ours) : time_of(calls, direct);
    }
    directs.push_back(pair[0]);
    own.push_back(pair[1]);
    ratios.push_back(pair[1] / pair[0]);
  }
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  const double difference = (median(own) - median(directs)) * 1000;
  if (rank == 0)
    std::printf("%-22s %8zu B  direct %9.3f us  ours %9.3f us  difference %8.1f ns  ratio %.4f\n", what, bytes,
                median(directs), median(own), difference, median(ratios));
}

void compare_all(Communicator& world, MPI_Comm direct) {
  for (const std::size_t bytes : {std::size_t{4}, std::size_t{1024}, std::size_t{65536}, std::size_t{1048576}}) {
    std::vector<float> in(bytes / 4, 1), out(bytes / 4);
    const auto count = static_cast<int>(in.size());
    const ConstBuffer from{in.data(), count, DType::f32};
    const Buffer to{out.data(), count, DType::f32};
    compare(
        "all_reduce f32 sum", bytes, [&] { MPI_Allreduce(in.data(), out.data(), count, MPI_FLOAT, MPI_SUM, direct); },
        [&] { world.all_reduce(from, to, ReduceOp::sum); });
    compare(
        "all_reduce f32 max", bytes, [&] { MPI_Allreduce(in.data(), out.data(), count, MPI_FLOAT, MPI_MAX, direct); },
        [&] { world.all_reduce(from, to, ReduceOp::max); });
    compare(
        "broadcast", bytes, [&] { MPI_Bcast(out.data(), count, MPI_FLOAT, 0, direct); },
        [&] { world.broadcast(to, 0); });
    if (world.size() != 2) continue;
    const int peer = 1 - world.rank();
    const bool first = world.rank() < peer;
    compare(
        "send and back", bytes,
        [&] {
          if (first) MPI_Send(in.data(), count, MPI_FLOAT, peer, 0, direct);
          MPI_Recv(out.data(), count, MPI_FLOAT, peer, 0, direct, MPI_STATUS_IGNORE);
          if (!first) MPI_Send(in.data(), count, MPI_FLOAT, peer, 0, direct);
        },
        [&] {
          if (first) world.send(from, peer);
          world.recv(to, peer);
          if (!first) world.send(from, peer);
        });
  }
  std::vector<std::uint8_t> in(1 << 20, 1), out(1 << 20);
  compare(
      "all_reduce u8 sum", in.size(),
      [&] { MPI_Allreduce(in.data(), out.data(), 1 << 20, MPI_UINT8_T, MPI_SUM, direct); },
      [&] { world.all_reduce({in.data(), 1 << 20, DType::u8}, {out.data(), 1 << 20, DType::u8}, ReduceOp::sum); });
}

}  // namespace

int main(int argc, char** argv) {
  subject::BackendOptions options;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    options[argument.substr(0, argument.find('='))] =
        argument.substr(std::min(argument.find('='), argument.size() - 1) + 1);
  }
  const auto backend = subject::open_backend("mpi", options);
  const auto world = backend->world(backend->size());
  MPI_Comm direct = MPI_COMM_NULL;
  MPI_Comm_dup(MPI_COMM_WORLD, &direct);
  compare_all(*world, direct);
  MPI_Comm_free(&direct);
}
