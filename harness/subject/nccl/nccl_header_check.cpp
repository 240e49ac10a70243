// Compiled wherever nccl.h is: our declarations of NCCL's binary interface are those of the header. Makes no code.
#include <type_traits>

#include <nccl.h>

#include "harness/subject/nccl/declarations.hpp"

namespace plumbline::subject::nccl {
namespace {

static_assert(NCCL_VERSION_CODE >= kOldestVersion && NCCL_VERSION(2, 18, 1) == kOldestVersion);

static_assert(sizeof(UniqueId) == sizeof(ncclUniqueId) && alignof(UniqueId) == alignof(ncclUniqueId));
static_assert(sizeof(Comm) == sizeof(ncclComm_t));
static_assert(sizeof(Result) == sizeof(ncclResult_t) && sizeof(DataType) == sizeof(ncclDataType_t) &&
              sizeof(RedOp) == sizeof(ncclRedOp_t));

template <class Ours, class Theirs>
constexpr bool same(Ours ours, Theirs theirs) {
  return static_cast<long>(ours) == static_cast<long>(theirs);
}

static_assert(same(Result::success, ncclSuccess) && same(Result::unhandled_cuda_error, ncclUnhandledCudaError) &&
              same(Result::system_error, ncclSystemError) && same(Result::internal_error, ncclInternalError) &&
              same(Result::invalid_argument, ncclInvalidArgument) && same(Result::invalid_usage, ncclInvalidUsage) &&
              same(Result::remote_error, ncclRemoteError) && same(Result::in_progress, ncclInProgress));
static_assert(same(DataType::int8, ncclInt8) && same(DataType::uint8, ncclUint8) && same(DataType::int32, ncclInt32) &&
              same(DataType::uint32, ncclUint32) && same(DataType::int64, ncclInt64) &&
              same(DataType::uint64, ncclUint64) && same(DataType::float16, ncclFloat16) &&
              same(DataType::float32, ncclFloat32) && same(DataType::float64, ncclFloat64) &&
              same(DataType::bfloat16, ncclBfloat16));
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 24, 0)
static_assert(same(DataType::float8e4m3, ncclFloat8e4m3) && same(DataType::float8e5m2, ncclFloat8e5m2));
#endif
static_assert(same(RedOp::sum, ncclSum) && same(RedOp::product, ncclProd) && same(RedOp::max, ncclMax) &&
              same(RedOp::min, ncclMin) && same(RedOp::avg, ncclAvg));
static_assert(sizeof(ScalarResidence) == sizeof(ncclScalarResidence_t) &&
              same(ScalarResidence::device, ncclScalarDevice) &&
              same(ScalarResidence::host_immediate, ncclScalarHostImmediate));

// A prefix of the header's, which may have grown.
static_assert(sizeof(Config) <= sizeof(ncclConfig_t) && offsetof(Config, size) == offsetof(ncclConfig_t, size) &&
              offsetof(Config, magic) == offsetof(ncclConfig_t, magic) &&
              offsetof(Config, version) == offsetof(ncclConfig_t, version) &&
              offsetof(Config, blocking) == offsetof(ncclConfig_t, blocking) &&
              offsetof(Config, cga_cluster_size) == offsetof(ncclConfig_t, cgaClusterSize) &&
              offsetof(Config, min_ctas) == offsetof(ncclConfig_t, minCTAs) &&
              offsetof(Config, max_ctas) == offsetof(ncclConfig_t, maxCTAs) &&
              offsetof(Config, net_name) == offsetof(ncclConfig_t, netName) &&
              offsetof(Config, split_share) == offsetof(ncclConfig_t, splitShare));
static_assert(kUndefined == NCCL_CONFIG_UNDEF_INT);

// Arguments one by one: equal in kind and size, where the header has types of its own.
template <class Ours, class Theirs>
inline constexpr bool argument_alike =
    std::is_pointer_v<Ours> == std::is_pointer_v<Theirs> && sizeof(Ours) == sizeof(Theirs) &&
    (std::is_class_v<Ours> == std::is_class_v<Theirs>) &&
    (!std::is_same_v<Ours, std::size_t> || std::is_same_v<Theirs, Ours>);
template <class Ours, class Theirs>
inline constexpr bool alike = false;
template <class A, class... As, class B, class... Bs>
inline constexpr bool alike<A (*)(As...), B (*)(Bs...)> = [] {
  if constexpr (sizeof...(As) == sizeof...(Bs))
    return argument_alike<A, B> && (argument_alike<As, Bs> && ...);
  else
    return false;
}();

#define PLUMBLINE_NCCL_ALIKE(name) static_assert(alike<decltype(Functions::name), decltype(&nccl##name)>)
PLUMBLINE_NCCL_ALIKE(GetVersion);
PLUMBLINE_NCCL_ALIKE(GetUniqueId);
PLUMBLINE_NCCL_ALIKE(CommInitRankConfig);
PLUMBLINE_NCCL_ALIKE(CommSplit);
PLUMBLINE_NCCL_ALIKE(CommFinalize);
PLUMBLINE_NCCL_ALIKE(CommDestroy);
PLUMBLINE_NCCL_ALIKE(CommAbort);
PLUMBLINE_NCCL_ALIKE(CommGetAsyncError);
PLUMBLINE_NCCL_ALIKE(GetErrorString);
PLUMBLINE_NCCL_ALIKE(GetLastError);
PLUMBLINE_NCCL_ALIKE(AllReduce);
PLUMBLINE_NCCL_ALIKE(Reduce);
PLUMBLINE_NCCL_ALIKE(Broadcast);
PLUMBLINE_NCCL_ALIKE(ReduceScatter);
PLUMBLINE_NCCL_ALIKE(AllGather);
PLUMBLINE_NCCL_ALIKE(Send);
PLUMBLINE_NCCL_ALIKE(Recv);
PLUMBLINE_NCCL_ALIKE(RedOpCreatePreMulSum);
PLUMBLINE_NCCL_ALIKE(RedOpDestroy);
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 19, 0)
PLUMBLINE_NCCL_ALIKE(CommRegister);
PLUMBLINE_NCCL_ALIKE(CommDeregister);
#endif
PLUMBLINE_NCCL_ALIKE(GroupStart);
PLUMBLINE_NCCL_ALIKE(GroupEnd);
#undef PLUMBLINE_NCCL_ALIKE

}  // namespace
}  // namespace plumbline::subject::nccl
