// harness/subject/nccl/declarations.hpp: what we use of NCCL's C interface, in our own words.
//
// Model   NCCL is opened when the backend is asked for (library.hpp), so neither its header nor its library is needed
//         to build.
//         What stands here are facts of its binary interface; nccl_header_check.cpp holds them against nccl.h wherever
//         that is.
// Source  NCCL's user guide, "NCCL API"; nccl.h 2.32.3.
#pragma once

#include <climits>
#include <cstddef>

namespace plumbline::subject::nccl {

struct OpaqueComm;
using Comm = OpaqueComm*;  // ncclComm_t

struct UniqueId {
  char internal[128];
};

enum class Result : int {
  success = 0,
  unhandled_cuda_error = 1,
  system_error = 2,
  internal_error = 3,
  invalid_argument = 4,
  invalid_usage = 5,
  remote_error = 6,
  in_progress = 7,
};

[[nodiscard]] constexpr bool is_error(Result result) {
  return result != Result::success && result != Result::in_progress;
}

enum class DataType : int {
  int8 = 0,
  uint8 = 1,
  int32 = 2,
  uint32 = 3,
  int64 = 4,
  uint64 = 5,
  float16 = 6,
  float32 = 7,
  float64 = 8,
  bfloat16 = 9,
  float8e4m3 = 10,  // since 2.24
  float8e5m2 = 11,
};

/// Those that a communicator makes have other values.
enum class RedOp : int { sum = 0, product = 1, max = 2, min = 3, avg = 4 };

enum class ScalarResidence : int { device = 0, host_immediate = 1 };

/// A version as one number, as NCCL counts from 2.9 on.
constexpr int version_code(int major, int minor, int patch) { return major * 10000 + minor * 100 + patch; }

/// The oldest that we can use: the configuration has its fields from then on.
inline constexpr int kOldestVersion = version_code(2, 18, 1);

inline constexpr int kUndefined = INT_MIN;  // leave it to the library

/// ncclConfig_t as it was in kOldestVersion. Later ones are longer; a library takes the fields that its caller knows,
/// by `size` and `version`.
struct Config {
  std::size_t size = sizeof(Config);
  unsigned int magic = 0xcafebeef;
  unsigned int version = kOldestVersion;
  int blocking = kUndefined;
  int cga_cluster_size = kUndefined;
  int min_ctas = kUndefined;
  int max_ctas = kUndefined;
  const char* net_name = nullptr;
  int split_share = kUndefined;
};

/// The functions, under NCCL's names without "nccl". Streams are cudaStream_t.
struct Functions {
  Result (*GetVersion)(int* version);
  Result (*GetUniqueId)(UniqueId* id);
  Result (*CommInitRankConfig)(Comm* comm, int ranks, UniqueId id, int rank, Config* config);
  Result (*CommSplit)(Comm comm, int color, int key, Comm* made, Config* config);
  Result (*CommFinalize)(Comm comm);
  Result (*CommDestroy)(Comm comm);
  Result (*CommAbort)(Comm comm);
  Result (*CommGetAsyncError)(Comm comm, Result* error);
  const char* (*GetErrorString)(Result result);
  const char* (*GetLastError)(Comm comm);
  Result (*AllReduce)(const void* in, void* out, std::size_t count, DataType type, RedOp op, Comm comm, void* stream);
  Result (*Reduce)(const void* in, void* out, std::size_t count, DataType type, RedOp op, int root, Comm comm,
                   void* stream);
  Result (*Broadcast)(const void* in, void* out, std::size_t count, DataType type, int root, Comm comm, void* stream);
  Result (*ReduceScatter)(const void* in, void* out, std::size_t out_count, DataType type, RedOp op, Comm comm,
                          void* stream);
  Result (*AllGather)(const void* in, void* out, std::size_t in_count, DataType type, Comm comm, void* stream);
  Result (*Send)(const void* in, std::size_t count, DataType type, int peer, Comm comm, void* stream);
  Result (*Recv)(void* out, std::size_t count, DataType type, int peer, Comm comm, void* stream);
  Result (*RedOpCreatePreMulSum)(RedOp* op, void* factor, DataType type, ScalarResidence residence, Comm comm);
  Result (*RedOpDestroy)(RedOp op, Comm comm);
  Result (*CommRegister)(Comm comm, void* memory, std::size_t bytes, void** handle);
  Result (*CommDeregister)(Comm comm, void* handle);
  Result (*GroupStart)();
  Result (*GroupEnd)();
};

}  // namespace plumbline::subject::nccl
