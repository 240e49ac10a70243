// Faults of complex numbers.
#include "conformance/collectives/collectives_mutants.hpp"
#include "harness/mutants/faulty.hpp"

namespace plumbline::mutants {

using comm::Call;
using comm::DType;
using comm::ReduceOp;

namespace {

bool gets_complex(const Call& call, const Place& place, DType dtype) {
  return call.operation != comm::Operation::barrier && call.dtype() == dtype && call.uses_out(place.group.rank()) &&
         call.out.count > 0;
}

// A buffer of complex numbers as one of their parts.
template <class View>
View parts_of(View view) {
  view.count *= components_of(view.dtype);
  view.dtype = component_of(view.dtype);
  return view;
}

After narrow_parts(const Call& call) {
  return [out = parts_of(call.out)] {
    change_all<double>(out, [](double x) { return static_cast<double>(static_cast<float>(x)); });
  };
}

After c128_copied_through_c64(Call& call, const Place& place) {
  if (!gets_complex(call, place, DType::c128) || is_reduction(call.operation)) return {};
  return narrow_parts(call);
}

After c128_added_in_c64(Call& call, const Place& place) {
  if (!gets_complex(call, place, DType::c128) || !is_reduction(call.operation) || call.op == ReduceOp::product)
    return {};
  return narrow_parts(call);
}

After imaginary_part_lost(Call& call, const Place& place) {
  if (!gets_complex(call, place, DType::c64) || !is_reduction(call.operation) || call.op == ReduceOp::product)
    return {};
  return [out = parts_of(call.out)] {
    for (std::int64_t i = 1; i < out.count; i += 2) std::memset(element(out, i), 0, sizeof(float));
  };
}

After multiplied_by_parts(Call& call, const Place&) {
  if (!is_reduction(call.operation) || call.dtype() != DType::c64 || call.op != ReduceOp::product) return {};
  call.in = parts_of(call.in);
  call.out = parts_of(call.out);
  return {};
}

After c128_multiplied_in_c64(Call& call, const Place& place) {
  if (!gets_complex(call, place, DType::c128) || !is_reduction(call.operation) || call.op != ReduceOp::product)
    return {};
  return narrow_parts(call);
}

class GatheredThroughC64 final : public Plain<GatheredThroughC64> {
 public:
  using Plain::Plain;

 private:
  void do_run_uneven(const comm::UnevenCall& call, comm::Timeout timeout) override {
    Plain::do_run_uneven(call, timeout);
    if (call.operation == comm::Operation::all_gather && call.out.dtype == DType::c128)
      change_all<double>(parts_of(call.out), [](double x) { return static_cast<double>(static_cast<float>(x)); });
  }
};

class ScatteredProductsByParts final : public Plain<ScatteredProductsByParts> {
 public:
  using Plain::Plain;

 private:
  void do_run_uneven(const comm::UnevenCall& call, comm::Timeout timeout) override {
    if (call.op != ReduceOp::product || call.out.dtype != DType::c64) return Plain::do_run_uneven(call, timeout);
    std::vector<std::int64_t> counts(call.in_counts.begin(), call.in_counts.end());
    for (std::int64_t& count : counts) count *= 2;
    comm::UnevenCall changed = call;
    changed.in = parts_of(call.in);
    changed.out = parts_of(call.out);
    changed.in_counts = counts;
    Plain::do_run_uneven(changed, timeout);
  }
};

}  // namespace

std::vector<Mutant> complex_mutants() {
  return {
      {"col.c128_copied_through_c64", "COLL-120", "c128 is converted to c64 and back where it is copied",
       "a library without the type that converts buffers", "collectives.complex.copies[dtype=c128,world=3]",
       "collectives.complex.copies[dtype=c64,world=3]", "another dtype", with_fault(c128_copied_through_c64)},
      {"col.c128_gathered_v_through_c64", "COLL-120", "c128 is converted to c64 and back by an all_gather_v",
       "calls of different lengths with code of their own",
       "collectives.complex.uneven_gathers[dtype=c128,lengths=growing,world=3]",
       "collectives.complex.copies[dtype=c128,world=3]", "the blocks are equal", wrap_in<GatheredThroughC64>},
      {"col.complex_imaginary_part_lost", "COLL-121", "sums of c64 have imaginary parts of zero",
       "a conversion to a real type, of which NumPy and PyTorch warn only once",
       "collectives.complex.exact_sums[dtype=c64,op=sum,world=3]",
       "collectives.complex.exact_sums[dtype=c128,op=sum,world=3]", "another dtype", with_fault(imaginary_part_lost)},
      {"col.c128_added_in_c64", "COLL-121", "sums of c128 are rounded to c64",
       "one kernel of complex numbers for both types", "collectives.complex.sum_bound[dtype=c128,op=sum,world=3]",
       "collectives.complex.exact_sums[dtype=c128,op=sum,world=3]", "those numbers fit c64, too",
       with_fault(c128_added_in_c64)},
      {"col.complex_multiplied_by_parts", "COLL-122", "products of c64 multiply real parts and imaginary parts",
       "torch.distributed: complex tensors are handed down as real ones by view_as_real",
       "collectives.complex.exact_products[dtype=c64,world=3]",
       "collectives.complex.exact_products[dtype=c128,world=3]", "another dtype", with_fault(multiplied_by_parts)},
      {"col.c128_multiplied_in_c64", "COLL-122", "products of c128 are rounded to c64",
       "one kernel of complex numbers for both types", "collectives.complex.product_bound[dtype=c128,world=3]",
       "collectives.complex.exact_products[dtype=c128,world=3]", "those numbers fit c64, too",
       with_fault(c128_multiplied_in_c64)},
      {"col.complex_multiplied_by_parts_v", "COLL-122", "products of c64 by a reduce_scatter_v are those of the parts",
       "calls of different lengths with code of their own",
       "collectives.complex.uneven_products[dtype=c64,lengths=growing,world=3]",
       "collectives.complex.exact_products[dtype=c64,world=3]", "the blocks are equal",
       wrap_in<ScatteredProductsByParts>},
  };
}

}  // namespace plumbline::mutants
