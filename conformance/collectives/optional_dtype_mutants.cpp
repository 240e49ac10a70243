// Faults of bool and of the formats of 8 bits.
#include "conformance/collectives/collectives_mutants.hpp"
#include "harness/mutants/faulty.hpp"

namespace plumbline::mutants {

using comm::Call;
using comm::DType;
using comm::ReduceOp;

namespace {

bool fills_output(const Call& call, const Place& place) {
  return call.uses_out(place.group.rank()) && call.out.count > 0;
}

After copied_through_float(Call& call, const Place& place) {
  if (is_reduction(call.operation) || call.dtype() != DType::f8_e5m2 || !fills_output(call, place)) return {};
  return [out = call.out] {
    change_all<comm::Float8E5M2>(out, [](comm::Float8E5M2 x) { return comm::to_float8_e5m2(to_float(x)); });
  };
}

// As a library is asked for the sum of another type of as many bytes.
void add_as_bytes(Call& call) {
  call.op = ReduceOp::sum;
  call.in.dtype = call.out.dtype = DType::u8;
}

After or_adds_bytes(Call& call, const Place&) {
  if (is_reduction(call.operation) && call.dtype() == DType::boolean && call.op == ReduceOp::max) add_as_bytes(call);
  return {};
}

After float8_added_as_bytes(Call& call, const Place&) {
  if (is_reduction(call.operation) && is_float8(call.dtype()) && call.op == ReduceOp::sum) add_as_bytes(call);
  return {};
}

After nan_saturates(Call& call, const Place& place) {
  if (!is_reduction(call.operation) || call.dtype() != DType::f8_e4m3 || !fills_output(call, place)) return {};
  return [out = call.out] {
    change_all<std::uint8_t>(out,
                             [](std::uint8_t bits) -> std::uint8_t { return (bits & 0x7f) == 0x7f ? bits - 1 : bits; });
  };
}

}  // namespace

std::vector<Mutant> optional_dtype_mutants() {
  return {
      {"col.float8_copied_through_float", "COLL-107", "f8_e5m2 is converted to f32 and back where it is copied",
       "a library without the type that converts buffers", "collectives.optional_dtypes.copies[dtype=f8_e5m2,world=3]",
       "collectives.optional_dtypes.copies[dtype=f8_e4m3,world=3]", "that format has one NaN of each sign",
       with_fault(copied_through_float)},
      {"col.or_adds_bytes", "COLL-108", "max of bool adds bytes", "torch.distributed: bool is handed down as uint8",
       "collectives.optional_dtypes.bool_reductions[dtype=bool,op=max,world=3]",
       "collectives.optional_dtypes.bool_reductions[dtype=bool,op=min,world=3]", "min is min of bytes, too",
       with_fault(or_adds_bytes)},
      {"col.float8_added_as_bytes", "COLL-109", "sums of formats of 8 bits add their bytes",
       "torch.distributed: float8 is handed down as uint8 where NCCL has no such type",
       "collectives.optional_dtypes.float8_exact[dtype=f8_e4m3,op=sum,world=3]",
       "collectives.optional_dtypes.float8_exact[dtype=f8_e4m3,op=max,world=3]", "sums alone are concerned",
       with_fault(float8_added_as_bytes)},
      {"col.float8_nan_saturates", "COLL-110", "a NaN of f8_e4m3 in a sum becomes the largest number",
       "a saturating conversion that clamps by min and max",
       "collectives.optional_dtypes.float8_limits[dtype=f8_e4m3,world=3]",
       "collectives.optional_dtypes.float8_limits[dtype=f8_e5m2,world=3]", "another format", with_fault(nan_saturates)},
  };
}

}  // namespace plumbline::mutants
