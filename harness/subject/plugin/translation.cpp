#include "harness/subject/plugin/translation.hpp"

#include <algorithm>
#include <array>
#include <sstream>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "harness/subject/plugin/reply.hpp"

namespace plumbline::subject::plugin {
namespace {

using comm::Capability;

constexpr std::array<std::pair<std::uint32_t, Capability>, 13> kClaims{
    {{PLUMBLINE_CLAIM_COALESCING, Capability::coalescing},
     {PLUMBLINE_CLAIM_WAIT_TIMEOUT, Capability::wait_timeout},
     {PLUMBLINE_CLAIM_BLOCKING_TIMEOUT, Capability::blocking_timeout},
     {PLUMBLINE_CLAIM_NAMES_MISSING, Capability::names_missing},
     {PLUMBLINE_CLAIM_MISUSE_DETECTION, Capability::misuse_detection},
     {PLUMBLINE_CLAIM_FAILURE_DETECTION, Capability::failure_detection},
     {PLUMBLINE_CLAIM_RANK_ORDER, Capability::rank_order},
     {PLUMBLINE_CLAIM_EQUAL_RESULTS, Capability::equal_results},
     {PLUMBLINE_CLAIM_THREAD_MULTIPLE, Capability::thread_multiple},
     {PLUMBLINE_CLAIM_BOOL_REDUCTIONS, Capability::bool_reductions},
     {PLUMBLINE_CLAIM_FLOAT8_REDUCTIONS, Capability::float8_reductions},
     {PLUMBLINE_CLAIM_COMPLEX_SUMS, Capability::complex_sums},
     {PLUMBLINE_CLAIM_COMPLEX_PRODUCTS, Capability::complex_products}}};

std::set<Capability> claims_of(const plumbline_backend& backend) {
  std::set<Capability> claims;
  for (const auto& [bit, capability] : kClaims)
    if ((backend.claims & bit) != 0) claims.insert(capability);
  if (backend.start != nullptr)
    claims.insert(Capability::nonblocking);
  else  // what is claimed of started calls is claimed of none
    for (const Capability of_start : {Capability::coalescing, Capability::wait_timeout}) claims.erase(of_start);
  if (backend.create_group != nullptr) claims.insert(Capability::groups);
  constexpr std::uint32_t kMessages = PLUMBLINE_BIT(PLUMBLINE_SEND) | PLUMBLINE_BIT(PLUMBLINE_RECV);
  if ((backend.operations & kMessages) == kMessages) claims.insert(Capability::point_to_point);
  for (const auto& [operation, capability] : {std::pair{PLUMBLINE_ALL_GATHER, Capability::all_gather_v},
                                              {PLUMBLINE_REDUCE_SCATTER, Capability::reduce_scatter_v},
                                              {PLUMBLINE_ALL_TO_ALL, Capability::all_to_all_v}})
    if ((backend.uneven_operations & PLUMBLINE_BIT(operation)) != 0) claims.insert(capability);
  if (backend.run_scaled != nullptr) claims.insert(Capability::scaled_sums);
  if (backend.shrink != nullptr) claims.insert(Capability::shrink);
  if (backend.run_strided != nullptr) claims.insert(Capability::strided);
  if (backend.register_memory != nullptr) claims.insert(Capability::registered_memory);
  if (backend.allocate != nullptr) claims.insert(Capability::allocated_memory);
  if (backend.grow != nullptr) claims.insert(Capability::grow);
  return claims;
}

std::vector<std::string> notes_of(const plumbline_backend& backend) {
  std::vector<std::string> notes, missing;
  std::istringstream lines(backend.notes == nullptr ? "" : backend.notes);
  for (std::string line; std::getline(lines, line);)
    if (!line.empty()) notes.push_back(one_line(line));
  for (int index = 0; index < comm::kOperationCount; ++index)
    if (const auto operation = static_cast<comm::Operation>(index);
        (backend.operations & PLUMBLINE_BIT(number_of(operation))) == 0)
      missing.emplace_back(name_of(operation));
  for (const comm::ReduceOp op : comm::kAllReduceOps)
    if ((backend.reductions & PLUMBLINE_BIT(number_of(op))) == 0) missing.emplace_back(name_of(op));
  if (!missing.empty()) notes.push_back(fmt::format("not supported: {}", fmt::join(missing, ", ")));
  notes.emplace_back("the plugin interface moves host memory only");
  if (backend.abort == nullptr) notes.emplace_back("an abort fails the group on the calling rank only");
  return notes;
}

}  // namespace

// The tables are static: of ones on the stack GCC 12 reads elements that it has not stored yet, where it inlines two.
std::int32_t number_of(comm::DType dtype) {
  static constexpr std::array kNumbers{PLUMBLINE_F16,     PLUMBLINE_BF16,    PLUMBLINE_F32, PLUMBLINE_F64,
                                       PLUMBLINE_I32,     PLUMBLINE_I64,     PLUMBLINE_U8,  PLUMBLINE_BOOL,
                                       PLUMBLINE_F8_E4M3, PLUMBLINE_F8_E5M2, PLUMBLINE_C64, PLUMBLINE_C128};
  static_assert(kNumbers.size() == comm::kDTypeCount);
  return kNumbers[static_cast<std::size_t>(dtype)];
}

std::int32_t number_of(comm::Operation operation) {
  static constexpr std::array kNumbers{PLUMBLINE_ALL_REDUCE,     PLUMBLINE_REDUCE,     PLUMBLINE_BROADCAST,
                                       PLUMBLINE_REDUCE_SCATTER, PLUMBLINE_ALL_GATHER, PLUMBLINE_ALL_TO_ALL,
                                       PLUMBLINE_GATHER,         PLUMBLINE_SCATTER,    PLUMBLINE_BARRIER,
                                       PLUMBLINE_SEND,           PLUMBLINE_RECV};
  static_assert(kNumbers.size() == comm::kOperationCount);
  return kNumbers[static_cast<std::size_t>(operation)];
}

std::int32_t number_of(comm::ReduceOp op) {
  static constexpr std::array kNumbers{PLUMBLINE_SUM, PLUMBLINE_AVG, PLUMBLINE_MIN, PLUMBLINE_MAX, PLUMBLINE_PRODUCT};
  static_assert(kNumbers.size() == comm::kAllReduceOps.size());
  return kNumbers[static_cast<std::size_t>(op)];
}

plumbline_call translated(const comm::Call& call, int rank, int ranks) {
  const bool is_barrier = call.operation == comm::Operation::barrier;
  const bool is_message = is_point_to_point(call.operation);
  return {.operation = number_of(call.operation),
          .dtype = is_barrier ? std::int32_t{PLUMBLINE_U8} : number_of(call.dtype()),
          .reduction = is_reduction(call.operation) ? number_of(call.op) : 0,
          .root = is_message || is_rooted(call.operation) ? call.root : comm::kNoRoot,
          .tag = is_message ? call.tag : 0,
          .device = PLUMBLINE_HOST,
          .count = call.elements(ranks),
          .in = call.uses_in(rank) ? call.in.data : nullptr,
          .out = call.uses_out(rank) ? call.out.data : nullptr,
          .stream = nullptr,
          .device_index = 0,
          .reserved = 0};
}

plumbline_uneven_call translated(const comm::UnevenCall& call) {
  const auto list = [](std::span<const std::int64_t> counts) { return counts.empty() ? nullptr : counts.data(); };
  return {.operation = number_of(call.operation),
          .dtype = number_of(call.in.dtype),
          .reduction = is_reduction(call.operation) ? number_of(call.op) : 0,
          .device = PLUMBLINE_HOST,
          .in = call.in.data,
          .out = call.out.data,
          .in_counts = list(call.in_counts),
          .out_counts = list(call.out_counts),
          .stream = nullptr,
          .device_index = 0,
          .reserved = 0};
}

plumbline_rows translated(comm::Rows rows, std::int64_t count) {
  if (is_contiguous(rows, count)) return {.columns = 1, .stride = 1};
  return {.columns = rows.columns, .stride = rows.stride};
}

std::int64_t nanoseconds_of(comm::Timeout timeout) {
  return timeout ? std::max<std::int64_t>(0, timeout->count()) : PLUMBLINE_NO_LIMIT;
}

comm::Capabilities capabilities_of(const plumbline_backend& backend) {
  comm::Capabilities capabilities{
      .backend = one_line(backend.name),
      .version = one_line(backend.library_version),
      .claims = claims_of(backend),
      .dtypes = {},
      .rounds_each_half_addition = (backend.claims & PLUMBLINE_CLAIM_ROUNDS_EACH_HALF_ADDITION) != 0,
      .notes = notes_of(backend)};
  for (const auto dtypes : {std::span<const comm::DType>(comm::kAllDTypes), {comm::kOptionalDTypes}})
    for (const comm::DType dtype : dtypes)
      if ((backend.dtypes & PLUMBLINE_BIT(number_of(dtype))) != 0) capabilities.dtypes.insert(dtype);
  return capabilities;
}

}  // namespace plumbline::subject::plugin
