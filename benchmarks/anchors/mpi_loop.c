/* The least that a benchmark of an MPI can be: a loop of one call. What `plumbline bench` is held against.
 *
 * usage: mpirun -n N mpi_loop OPERATION REPETITIONS SECONDS BYTES...
 *        OPERATION: all_reduce or all_reduce_in_place, of floats, sum; broadcast from rank 0; or send_recv, from rank 0
 *        to rank 1 and back
 * Output, a line for each size: {"bytes": B, "samples": [seconds a call, of the slowest rank...]} */
#define _GNU_SOURCE
#include <mpi.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static float *in, *out;
static int rank;

static void all_reduce(int count) { MPI_Allreduce(in, out, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD); }
static void all_reduce_in_place(int count) {
  MPI_Allreduce(MPI_IN_PLACE, out, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}
static void broadcast(int count) { MPI_Bcast(out, count, MPI_FLOAT, 0, MPI_COMM_WORLD); }
static void send_recv(int count) {
  if (rank > 1) return;
  if (rank == 0) MPI_Send(out, count, MPI_FLOAT, 1, 0, MPI_COMM_WORLD);
  MPI_Recv(out, count, MPI_FLOAT, 1 - rank, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  if (rank == 1) MPI_Send(out, count, MPI_FLOAT, 0, 0, MPI_COMM_WORLD);
}
static const struct {
  const char* name;
  void (*call)(int count);
} operations[] = {{"all_reduce", all_reduce},
                  {"all_reduce_in_place", all_reduce_in_place},
                  {"broadcast", broadcast},
                  {"send_recv", send_recv}};
static void (*call)(int count);

static double loop(long calls, int count) {
  MPI_Barrier(MPI_COMM_WORLD);
  double begin = MPI_Wtime();
  for (long i = 0; i < calls; ++i) call(count);
  double seconds = MPI_Wtime() - begin;
  MPI_Allreduce(MPI_IN_PLACE, &seconds, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  return seconds;
}

/* As many calls as fill `least` seconds; the same number on every rank, since all see the slowest one's time. */
static long calls_for(double least, int count) {
  long calls = 1;
  for (;;) {
    double seconds = loop(calls, count);
    if (seconds >= least / 2) return (long)(calls * least / seconds) + 1;
    calls *= 2;
  }
}

static void pin(void) {
  cpu_set_t usable, one;
  sched_getaffinity(0, sizeof usable, &usable);
  int wanted = rank % CPU_COUNT(&usable);
  for (int core = 0; core < CPU_SETSIZE; ++core)
    if (CPU_ISSET(core, &usable) && wanted-- == 0) {
      CPU_ZERO(&one);
      CPU_SET(core, &one);
      sched_setaffinity(0, sizeof one, &one);
    }
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  for (size_t i = 0; argc > 1 && i < sizeof operations / sizeof *operations; ++i)
    if (strcmp(argv[1], operations[i].name) == 0) call = operations[i].call;
  if (argc < 5 || call == NULL) {
    fprintf(stderr, "usage: mpi_loop OPERATION REPETITIONS SECONDS BYTES...\n");
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  pin();
  int repetitions = atoi(argv[2]);
  double least = atof(argv[3]);
  for (int argument = 4; argument < argc; ++argument) {
    size_t bytes = strtoull(argv[argument], NULL, 10);
    int count = (int)(bytes / sizeof(float));
    if (posix_memalign((void**)&in, 64, bytes) != 0 || posix_memalign((void**)&out, 64, bytes) != 0)
      MPI_Abort(MPI_COMM_WORLD, 3);
    memset(in, 0, bytes);
    memset(out, 0, bytes);
    long calls = calls_for(least, count);
    if (rank == 0) printf("{\"bytes\": %zu, \"samples\": [", bytes);
    for (int i = 0; i < repetitions; ++i) {
      double seconds = loop(calls, count);
      if (rank == 0) printf("%s%.6g", i > 0 ? ", " : "", seconds / calls);
    }
    if (rank == 0) printf("]}\n");
    free(in);
    free(out);
  }
  MPI_Finalize();
  return 0;
}
